#include "ProfileJob.h"

#include <algorithm>
#include <new>
#include <utility>

#include "../runtime/Error.h"
#include "../runtime/Machine.h"
#include "../runtime/Thread.h"
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

}  // namespace

ProfileOptions parseProfileOptions(const Napi::Value& value) {
  const Napi::Object object = readObject(value, "options");
  ProfileOptions options;
  options.threads = static_cast<unsigned>(readInteger(object.Get("threads"), "threads", 1, 1024));
  options.pageTokens = static_cast<uint32_t>(readInteger(object.Get("pageTokens"), "pageTokens", 16, 256));
  if (options.pageTokens % 16 != 0) refuseArgument("pageTokens", object.Get("pageTokens"), "a multiple of 16");
  const Napi::Value disk = object.Get("disk");
  if (!disk.IsUndefined()) {
    const Napi::Object folder = readObject(disk, "disk");
    options.diskFolder = readString(folder.Get("folder"), "disk.folder");
    if (options.diskFolder.empty()) refuseArgument("disk.folder", folder.Get("folder"), "a path");
    options.diskBytes = readInteger(folder.Get("bytes"), "disk.bytes", 0, kMostDiskBytes);
  }
  options.budget = readNumber(object.Get("budget"), "budget");
  if (!(options.budget > 0 && options.budget <= 100)) refuseArgument("budget", object.Get("budget"), "a number above 0, at most 100");
  options.instructionSets = {bestInstructionSet()};
  const bool others = readBoolean(object.Get("otherInstructionSets"), "otherInstructionSets");
  for (const InstructionSet set : {InstructionSet::Avx512, InstructionSet::Avx2, InstructionSet::Scalar}) {
    if (others && machineHas(set) && set != bestInstructionSet()) options.instructionSets.push_back(set);
  }
  // What is measured in little memory is partly the caches' speed; but an eighth of what is free has to do.
  const Napi::Value memory = object.Get("memoryBytes");
  const uint64_t wanted = memory.IsUndefined() ? std::min<uint64_t>(options.memoryBytes, inspectMachine().availableBytes / 8)
                                               : readInteger(memory, "memoryBytes", 0, uint64_t{1} << 32);
  options.memoryBytes = static_cast<size_t>(std::max<uint64_t>(kLeastProfileMemory, wanted));
  return options;
}

Napi::Value ProfileJob::start(Napi::Env env, ProfileOptions&& options, const Napi::Function& onProgress) {
  std::unique_ptr<ProfileJob> job(new ProfileJob(env, std::move(options), onProgress));
  ProfileJob& started = *job;
  started.thread_ = startThread("spillway-profil", [&started] { started.run(); });
  return job.release()->deferred_.Promise();
}

ProfileJob::ProfileJob(Napi::Env env, ProfileOptions&& options, const Napi::Function& onProgress)
    : env_(env), options_(std::move(options)), onProgress_(Napi::Persistent(onProgress)), deferred_(Napi::Promise::Deferred::New(env)) {
  const Napi::String name = Napi::String::New(env, "spillway");
  if (napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this, wakeJavaScript, &wake_) != napi_ok) {
    throw Error(ErrorCode::Internal, "cannot create a thread-safe function");
  }
  napi_add_env_cleanup_hook(env_, environmentEnds, this);
  progress_.changed = [this] { wake(); };
}

ProfileJob::~ProfileJob() {
  progress_.stopped.store(true);
  if (thread_.joinable()) thread_.join();
  if (wake_ == nullptr) return;
  napi_release_threadsafe_function(wake_, napi_tsfn_abort);
  napi_remove_env_cleanup_hook(env_, environmentEnds, this);
}

void ProfileJob::environmentEnds(void* self) { delete static_cast<ProfileJob*>(self); }

void ProfileJob::run() {
  try {
    figures_ = measureMachine(options_, progress_);
  } catch (const Error& error) {
    failure_ = {errorCodeName(error.code()), error.what()};
  } catch (const std::bad_alloc&) {
    failure_ = {errorCodeName(ErrorCode::Memory), "out of memory"};
  } catch (const std::exception& error) {
    failure_ = {errorCodeName(ErrorCode::Internal), error.what()};
  }
  done_.store(true);
  wake();
}

void ProfileJob::wake() {
  if (!awake_.exchange(true)) napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
}

void ProfileJob::wakeJavaScript(napi_env env, napi_value, void* context, void*) {
  if (env == nullptr) return;  // the environment is ending, and `context` with it
  auto* self = static_cast<ProfileJob*>(context);
  try {
    const Napi::HandleScope scope(env);
    self->drain();
  } catch (const Napi::Error& error) {
    napi_fatal_exception(env, error.Value());
  } catch (...) {
    // Nothing of ours throws anything else but bad_alloc; there is nobody to tell.
  }
}

void ProfileJob::drain() {
  awake_.store(false);
  const bool done = done_.load();  // before progress is read, so that the last of it is reported
  std::optional<Napi::Error> thrown;
  try {
    reportProgress();
  } catch (const Napi::Error& error) {
    thrown = error;
    progress_.stopped.store(true);
  }
  if (done) settle();  // deletes this
  if (thrown) throw *thrown;
}

void ProfileJob::reportProgress() {
  size_t done = 0, total = 0;
  std::string what;
  progress_.get(done, total, what);
  if (total == 0) return;
  const Napi::Value answer = onProgress_.Call({Napi::Number::New(env_, static_cast<double>(done)), Napi::Number::New(env_, static_cast<double>(total)), Napi::String::New(env_, what)});
  if (answer.IsBoolean() && !answer.As<Napi::Boolean>().Value()) progress_.stopped.store(true);
}

void ProfileJob::settle() {
  const std::unique_ptr<ProfileJob> last(this);
  if (failure_) deferred_.Reject(errorValue(env_, failure_->code, failure_->message, nullptr));
  else deferred_.Resolve(toJavaScript(env_, figures_));
}

}  // namespace spillway
