#pragma once
#include <napi.h>

#include "../model/Runtime.h"

namespace spillway {

inline Napi::Object bytesToJavaScript(Napi::Env env, const RuntimeBytes& bytes) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("weights", static_cast<double>(bytes.weights));
  object.Set("weightBuffers", static_cast<double>(bytes.weightBuffers));
  object.Set("cache", static_cast<double>(bytes.cache));
  object.Set("scratch", static_cast<double>(bytes.scratch));
  object.Set("activations", static_cast<double>(bytes.activations));
  object.Set("staging", static_cast<double>(bytes.staging));
  object.Set("spill", static_cast<double>(bytes.spill));
  object.Set("pageSlot", static_cast<double>(bytes.pageSlot));
  Napi::Array streamed = Napi::Array::New(env, bytes.streamed.size());
  for (size_t layer = 0; layer < bytes.streamed.size(); layer++) streamed.Set(static_cast<uint32_t>(layer), static_cast<double>(bytes.streamed[layer]));
  object.Set("streamed", streamed);
  return object;
}

}  // namespace spillway
