#include "profileInBackground.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "../system/Machine.h"
#include "BackgroundJob.h"
#include "arguments.h"

namespace spillway {

namespace {

constexpr uint64_t kMostDiskBytes = uint64_t{1} << 30;

Napi::Value toJavaScript(Napi::Env env, const MachineFigures& figures) {
  Napi::Array list = Napi::Array::New(env, figures.figures.size());
  for (size_t i = 0; i < figures.figures.size(); i++) {
    const Figure& figure = figures.figures[i];
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("what", figure.what);
    entry.Set("kind", figure.kind);
    entry.Set("instructionSet", figure.instructionSet);
    entry.Set("threads", figure.threads);
    entry.Set("tokens", static_cast<double>(figure.tokens));
    entry.Set("inputs", static_cast<double>(figure.inputs));
    entry.Set("groupHeads", static_cast<double>(figure.groupHeads));
    entry.Set("requestBytes", static_cast<double>(figure.requestBytes));
    entry.Set("depth", figure.depth);
    entry.Set("perSecond", figure.perSecond);
    entry.Set("spread", figure.spread);
    entry.Set("samples", static_cast<double>(figure.samples));
    list.Set(static_cast<uint32_t>(i), entry);
  }
  Napi::Array leftOut = Napi::Array::New(env, figures.leftOut.size());
  for (size_t i = 0; i < figures.leftOut.size(); i++) {
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("what", figures.leftOut[i].what);
    entry.Set("reason", figures.leftOut[i].reason);
    leftOut.Set(static_cast<uint32_t>(i), entry);
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("figures", list);
  object.Set("leftOut", leftOut);
  return object;
}

class ProfileWork final : public BackgroundWork {
 public:
  explicit ProfileWork(ProfileOptions&& options) : options_(std::move(options)) {}
  void run() override { figures_ = measureMachine(options_, progress_); }
  void stop() override { progress_.stopped.store(true); }
  void onChange(std::function<void()> wake) override { progress_.changed = std::move(wake); }
  bool report(Napi::Env env, const Napi::FunctionReference& onProgress) override {
    size_t done = 0, total = 0;
    std::string what;
    progress_.get(done, total, what);
    if (total == 0) return true;
    return wantsMore(onProgress, {Napi::Number::New(env, static_cast<double>(done)),
                                  Napi::Number::New(env, static_cast<double>(total)), Napi::String::New(env, what)});
  }
  Napi::Value result(Napi::Env env) override { return toJavaScript(env, figures_); }

 private:
  ProfileOptions options_;
  ProfileProgress progress_;
  MachineFigures figures_;
};

}  // namespace

ProfileOptions parseProfileOptions(const Napi::Value& value) {
  const Napi::Object object = readObject(value, "options");
  ProfileOptions options;
  options.threads = static_cast<unsigned>(readInteger(object.Get("threads"), "threads", 1, 1024));
  options.coreThreads = static_cast<unsigned>(readInteger(object.Get("coreThreads"), "coreThreads", 1, 1024));
  options.pageTokens = static_cast<uint32_t>(readInteger(object.Get("pageTokens"), "pageTokens", 16, 256));
  if (options.pageTokens % 16 != 0) refuseArgument("pageTokens", object.Get("pageTokens"), "a multiple of 16");
  const Napi::Value disk = object.Get("disk");
  if (!disk.IsUndefined()) {
    const Napi::Object folder = readObject(disk, "disk");
    options.diskFolder = readString(folder.Get("folder"), "disk.folder");
    if (options.diskFolder.empty()) refuseArgument("disk.folder", folder.Get("folder"), "a path");
    options.diskBytes = readInteger(folder.Get("bytes"), "disk.bytes", 0, kMostDiskBytes);
  }
  const Napi::Value gpu = object.Get("gpu");
  if (!gpu.IsUndefined()) {
    const Napi::Object one = readObject(gpu, "gpu");
    options.gpu = GpuProfileOptions{
        static_cast<uint32_t>(readInteger(one.Get("device"), "gpu.device", 0, 255)),
        readInteger(one.Get("memoryBytes"), "gpu.memoryBytes", kLeastGpuProfileMemory, uint64_t{1} << 50)};
  }
  options.budget = readNumber(object.Get("budget"), "budget");
  if (!(options.budget > 0 && options.budget <= 100))
    refuseArgument("budget", object.Get("budget"), "a number above 0, at most 100");
  options.speedOnly = readBoolean(object.Get("speedOnly"), "speedOnly");
  if (options.speedOnly) options.tokenCounts = {1, 64};
  const Napi::Array weights = readArray(object.Get("weights"), "weights", 6);
  options.weights.clear();
  for (uint32_t i = 0; i < weights.Length(); i++) options.weights.push_back(readString(weights.Get(i), "weights"));
  options.instructionSets = {bestInstructionSet()};
  const bool others = readBoolean(object.Get("otherInstructionSets"), "otherInstructionSets");
  for (auto set = std::rbegin(kInstructionSets); set != std::rend(kInstructionSets); ++set)
    if (others && machineHas(*set) && *set != bestInstructionSet()) options.instructionSets.push_back(*set);
  // What is measured in little memory is partly the caches' speed; but an eighth of what is free has to do.
  const Napi::Value memory = object.Get("memoryBytes");
  const uint64_t wanted = memory.IsUndefined()
                              ? std::min<uint64_t>(options.memoryBytes, inspectMachine().availableBytes / 8)
                              : readInteger(memory, "memoryBytes", 0, uint64_t{1} << 32);
  options.memoryBytes = static_cast<size_t>(std::max<uint64_t>(kLeastProfileMemory, wanted));
  return options;
}

Napi::Value profileInBackground(Napi::Env env, ProfileOptions&& options, const Napi::Function& onProgress) {
  return BackgroundJob::start(env, "spillway-profil", std::make_unique<ProfileWork>(std::move(options)), onProgress);
}

}  // namespace spillway
