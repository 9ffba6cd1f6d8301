#pragma once
#include <napi.h>

#include "../runtime/Runtime.h"

namespace spillway {

inline Napi::Object bytesToJavaScript(Napi::Env env, const RuntimeBytes& bytes) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("weights", static_cast<double>(bytes.weights));
  object.Set("weightBuffers", static_cast<double>(bytes.weightBuffers));
  object.Set("cache", static_cast<double>(bytes.cache));
  object.Set("scratch", static_cast<double>(bytes.scratch));
  object.Set("activations", static_cast<double>(bytes.activations));
  object.Set("staging", static_cast<double>(bytes.staging));
  object.Set("held", static_cast<double>(bytes.held));
  object.Set("spill", static_cast<double>(bytes.spill));
  object.Set("state", static_cast<double>(bytes.state));
  object.Set("pageSlot", static_cast<double>(bytes.pageSlot));
  object.Set("pageKeys", static_cast<double>(bytes.pageKeys));
  object.Set("spillBlock", static_cast<double>(bytes.spillBlock));
  const auto layers = [env](const std::vector<uint64_t>& values) {
    Napi::Array array = Napi::Array::New(env, values.size());
    for (size_t layer = 0; layer < values.size(); layer++)
      array.Set(static_cast<uint32_t>(layer), static_cast<double>(values[layer]));
    return array;
  };
  object.Set("streamed", layers(bytes.streamed));
  object.Set("streamedExperts", layers(bytes.streamedExperts));
  if (bytes.gpu) {
    Napi::Object gpu = Napi::Object::New(env);
    gpu.Set("weights", static_cast<double>(bytes.gpu->weights));
    gpu.Set("weightBuffers", static_cast<double>(bytes.gpu->weightBuffers));
    gpu.Set("cache", static_cast<double>(bytes.gpu->cache));
    gpu.Set("cacheBuffers", static_cast<double>(bytes.gpu->cacheBuffers));
    gpu.Set("scratch", static_cast<double>(bytes.gpu->scratch));
    gpu.Set("activations", static_cast<double>(bytes.gpu->activations));
    gpu.Set("unpinned", static_cast<double>(bytes.gpu->unpinned));
    gpu.Set("streamedFromStore", layers(bytes.gpu->streamedFromStore));
    object.Set("gpu", gpu);
  }
  return object;
}

}  // namespace spillway
