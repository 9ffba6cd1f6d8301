// The addon's face: src/bindings/Addon.ts.
#include <napi.h>

#include <cmath>
#include <memory>
#include <string>

#ifdef SPILLWAY_FUZZ
#include "../fuzz/coverage.h"
#endif
#include "../kernels/cpu/panelLayout.h"
#include "../kernels/cuda/Devices.h"
#include "../kernels/numerics.h"
#include "../runtime/Runtime.h"
#include "../system/Clock.h"
#include "../system/Machine.h"
#include "AddonData.h"
#include "NativeRuntime.h"
#include "arguments.h"
#include "bytesToJavaScript.h"
#include "grammarsToJavaScript.h"
#include "parseOptions.h"
#include "profileInBackground.h"
#include "repackInBackground.h"

namespace spillway {

namespace {

Napi::Value machine(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const Machine facts = inspectMachine();
    Napi::Array sets = Napi::Array::New(env);
    for (const InstructionSet set : kInstructionSets) {
      if (machineHas(set)) sets.Set(sets.Length(), instructionSetName(set));
    }
    Napi::Object caches = Napi::Object::New(env);
    caches.Set("l1d", static_cast<double>(facts.l1dBytes));
    caches.Set("l2", static_cast<double>(facts.l2Bytes));
    caches.Set("l3", static_cast<double>(facts.l3Bytes));
    Napi::Object object = Napi::Object::New(env);
    object.Set("instructionSets", sets);
    object.Set("processors", facts.processors);
    object.Set("cores", facts.cores);
    object.Set("processorSeconds", facts.processorSeconds);
    object.Set("processorName", facts.processorName);
    object.Set("memoryBytes", static_cast<double>(facts.memoryBytes));
    object.Set("availableBytes", static_cast<double>(facts.availableBytes));
    object.Set("cacheBytes", caches);
    Napi::Array gpus = Napi::Array::New(env);
    for (const cuda::Gpu& gpu : cuda::listGpus()) {
      Napi::Object entry = Napi::Object::New(env);
      entry.Set("name", gpu.name);
      entry.Set("memoryBytes", static_cast<double>(gpu.memoryBytes));
      entry.Set("computeCapability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor));
      entry.Set("multiprocessors", gpu.multiprocessors);
      entry.Set("driver",
                std::to_string(gpu.driverVersion / 1000) + "." + std::to_string(gpu.driverVersion % 1000 / 10));
      gpus.Set(gpus.Length(), entry);
    }
    object.Set("gpus", gpus);
    return object;
  });
}

// Bytes of a block's numbers and scales within a panel, in which nested scales lie as bytes.
size_t keptBlockBytes(WeightType type) {
  const PanelFormat format = panelFormat(type);
  const size_t inputs = weightBlockElements(type);
  return isQuantised(type) ? (inputs * static_cast<size_t>(format.bits)) / 8 +
                                 inputs / kGroupInputs * scaleBytesPerGroup(format.kind) / kPanelOutputs
                           : weightBlockBytes(type);
}

// Equal to src/model/weightTypes.ts, which is there without an addon, too.
Napi::Array weightTypes(Napi::Env env) {
  Napi::Array types = Napi::Array::New(env);
  for (const WeightType type : kWeightTypes) {
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("name", weightTypeName(type));
    entry.Set("id", static_cast<int>(type));
    entry.Set("elements", static_cast<double>(weightBlockElements(type)));
    entry.Set("bytes", static_cast<double>(weightBlockBytes(type)));
    entry.Set("bits", panelFormat(type).bits);
    entry.Set("kept", static_cast<double>(keptBlockBytes(type)));
    types.Set(types.Length(), entry);
  }
  return types;
}

Napi::Value openRuntime(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    AddonData* data = env.GetInstanceData<AddonData>();
    data->opening = std::make_unique<RuntimeOptions>(parseRuntimeOptions(info[0]));
    return data->runtimeConstructor.New({});
  });
}

Napi::Value measureRuntime(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] { return bytesToJavaScript(env, Model(parseRuntimeOptions(info[0])).bytes()); });
}

Napi::Value repackWeights(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(
      env, [&] { return repackInBackground(env, parseRepackOptions(info[0]), readFunction(info[1], "onProgress")); });
}

Napi::Value profileMachine(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    ProfileOptions options = parseProfileOptions(info[0]);
    return profileInBackground(env, std::move(options), readFunction(info[1], "onProgress"));
  });
}

Napi::Value inspectStoreFile(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&]() -> Napi::Value {
    const std::string path = readString(info[0], "path");
    const std::string fingerprint = readString(info[1], "fingerprint");
    const std::optional<StoreFacts> facts = inspectStore(path, fingerprint);
    if (!facts) return env.Undefined();
    const auto numbers = [&](const std::vector<uint64_t>& values) {
      Napi::Array array = Napi::Array::New(env, values.size());
      for (size_t i = 0; i < values.size(); i++) array.Set(static_cast<uint32_t>(i), static_cast<double>(values[i]));
      return array;
    };
    Napi::Object object = Napi::Object::New(env);
    object.Set("layerBytes", numbers(facts->layerBytes));
    object.Set("vectorBytes", numbers(facts->vectorBytes));
    object.Set("globalBytes", static_cast<double>(facts->globalBytes));
    object.Set("fileBytes", static_cast<double>(facts->fileBytes));
    return object;
  });
}

// When performance.now() was 0, on the clock of the tasks: both are CLOCK_MONOTONIC (libuv's uv_hrtime), only their
// origins differ. Of several looks the shortest counts: in a long one this thread had no processor.
double findTimeOrigin(Napi::Env env) {
  try {
    const Napi::Object performance = readObject(env.Global().Get("performance"), "performance");
    const Napi::Function now = readFunction(performance.Get("now"), "performance.now");
    double origin = 0, shortest = INFINITY;
    for (int look = 0; look < 8; look++) {
      const double before = monotonicSeconds();
      const double seconds = readNumber(now.Call(performance, {}), "performance.now()") / 1000;
      const double took = monotonicSeconds() - before;
      if (took < shortest) origin = before - seconds, shortest = took;
    }
    return origin;
  } catch (const std::exception&) {
    return 0;  // an environment without it: times are those of the clock itself
  }
}

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  auto data = std::make_unique<AddonData>();
  data->runtimeConstructor = Napi::Persistent(NativeRuntime::define(env));
  data->timeOriginSeconds = findTimeOrigin(env);
  env.SetInstanceData(data.release());
  exports.Set("version", SPILLWAY_VERSION);
  exports.Set("numerics", kNumericsVersion);
  exports.Set("weightTypes", weightTypes(env));
  exports.Set("machine", Napi::Function::New<machine>(env, "machine"));
  exports.Set("openRuntime", Napi::Function::New<openRuntime>(env, "openRuntime"));
  exports.Set("measureRuntime", Napi::Function::New<measureRuntime>(env, "measureRuntime"));
  exports.Set("repack", Napi::Function::New<repackWeights>(env, "repack"));
  exports.Set("profile", Napi::Function::New<profileMachine>(env, "profile"));
  exports.Set("grammars", hasGrammars());
  exports.Set("createVocabulary", Napi::Function::New<createVocabulary>(env, "createVocabulary"));
  exports.Set("compileGrammar", Napi::Function::New<compileGrammar>(env, "compileGrammar"));
  exports.Set("inspectStore", Napi::Function::New<inspectStoreFile>(env, "inspectStore"));
#ifdef SPILLWAY_FUZZ
  exports.Set("coverage", Napi::Uint8Array::New(env, kCoverageBlocks,
                                                Napi::ArrayBuffer::New(env, coveredBlocks(), kCoverageBlocks), 0));
#endif
  return exports;
}

}  // namespace

NODE_API_MODULE(spillway, initialise)

}  // namespace spillway
