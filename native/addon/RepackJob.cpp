#include "RepackJob.h"

#include <new>
#include <utility>

#include "../runtime/Error.h"
#include "../runtime/Thread.h"
#include "arguments.h"

namespace spillway {

Napi::Value RepackJob::start(Napi::Env env, RepackOptions&& options, const Napi::Function& onProgress) {
  std::unique_ptr<RepackJob> job(new RepackJob(env, std::move(options), onProgress));
  RepackJob& started = *job;
  started.thread_ = startThread("spillway-repack", [&started] { started.run(); });
  return job.release()->deferred_.Promise();
}

RepackJob::RepackJob(Napi::Env env, RepackOptions&& options, const Napi::Function& onProgress)
    : env_(env), options_(std::move(options)), onProgress_(Napi::Persistent(onProgress)), deferred_(Napi::Promise::Deferred::New(env)) {
  const Napi::String name = Napi::String::New(env, "spillway");
  if (napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this, wakeJavaScript, &wake_) != napi_ok) {
    throw Error(ErrorCode::Internal, "cannot create a thread-safe function");
  }
  napi_add_env_cleanup_hook(env_, environmentEnds, this);
  progress_.changed = [this] { wake(); };
}

RepackJob::~RepackJob() {
  progress_.stopped.store(true);
  if (thread_.joinable()) thread_.join();
  if (wake_ == nullptr) return;
  napi_release_threadsafe_function(wake_, napi_tsfn_abort);
  napi_remove_env_cleanup_hook(env_, environmentEnds, this);
}

void RepackJob::environmentEnds(void* self) { delete static_cast<RepackJob*>(self); }

void RepackJob::run() {
  try {
    repack(std::move(options_), progress_, totalBytes_);
  } catch (const FileError& error) {
    failure_ = {errorCodeName(error.code()), error.what(), std::make_shared<FileError>(error)};
  } catch (const Error& error) {
    failure_ = {errorCodeName(error.code()), error.what(), nullptr};
  } catch (const std::bad_alloc&) {
    failure_ = {errorCodeName(ErrorCode::Memory), "out of memory", nullptr};
  } catch (const std::exception& error) {
    failure_ = {errorCodeName(ErrorCode::Internal), error.what(), nullptr};
  }
  done_.store(true);
  wake();
}

void RepackJob::wake() {
  if (!awake_.exchange(true)) napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
}

void RepackJob::wakeJavaScript(napi_env env, napi_value, void* context, void*) {
  if (env == nullptr) return;  // the environment is ending, and `context` with it
  auto* self = static_cast<RepackJob*>(context);
  try {
    const Napi::HandleScope scope(env);
    self->drain();
  } catch (const Napi::Error& error) {
    napi_fatal_exception(env, error.Value());
  } catch (...) {
    // Nothing of ours throws anything else but bad_alloc; there is nobody to tell.
  }
}

void RepackJob::drain() {
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

void RepackJob::reportProgress() {
  const uint64_t bytes = progress_.bytes.load();
  if (std::exchange(reportedBytes_, bytes) == bytes) return;
  const Napi::Value answer = onProgress_.Call({Napi::Number::New(env_, static_cast<double>(bytes)), Napi::Number::New(env_, static_cast<double>(totalBytes_.load()))});
  if (answer.IsBoolean() && !answer.As<Napi::Boolean>().Value()) progress_.stopped.store(true);
}

void RepackJob::settle() {
  const std::unique_ptr<RepackJob> last(this);
  if (failure_) deferred_.Reject(errorValue(env_, failure_->code, failure_->message, failure_->file.get()));
  else deferred_.Resolve(env_.Undefined());
}

}  // namespace spillway
