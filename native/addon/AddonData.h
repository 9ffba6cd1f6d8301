// What belongs to one JavaScript environment (the main thread, or a worker) that has loaded the addon.
#pragma once
#include <napi.h>

#include <memory>

#include "../runtime/Runtime.h"

namespace spillway {

struct AddonData {
  Napi::FunctionReference runtimeConstructor;
  // Set while openRuntime() makes a NativeRuntime: JavaScript cannot call the constructor itself.
  std::unique_ptr<RuntimeOptions> opening;
  // monotonicSeconds() when performance.now() was 0: each environment has a time origin of its own.
  double timeOriginSeconds = 0;
};

}  // namespace spillway
