#pragma once
#include <napi.h>

#include "../model/Runtime.h"

namespace spillway {

inline Napi::Object bytesToJavaScript(Napi::Env env, const RuntimeBytes& bytes) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("weights", static_cast<double>(bytes.weights));
  object.Set("cache", static_cast<double>(bytes.cache));
  object.Set("scratch", static_cast<double>(bytes.scratch));
  object.Set("activations", static_cast<double>(bytes.activations));
  return object;
}

}  // namespace spillway
