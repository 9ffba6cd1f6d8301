#include "BackgroundJob.h"

#include <new>
#include <utility>

#include "../system/Thread.h"
#include "arguments.h"

namespace spillway {

Napi::Value BackgroundJob::start(Napi::Env env, const char* threadName, std::unique_ptr<BackgroundWork> work,
                                 const Napi::Function& onProgress) {
  std::unique_ptr<BackgroundJob> job(new BackgroundJob(env, std::move(work), onProgress));
  BackgroundJob& started = *job;
  started.thread_ = startThread(threadName, [&started] { started.run(); });
  return job.release()->deferred_.Promise();
}

BackgroundJob::BackgroundJob(Napi::Env env, std::unique_ptr<BackgroundWork> work, const Napi::Function& onProgress)
    : env_(env),
      work_(std::move(work)),
      onProgress_(Napi::Persistent(onProgress)),
      deferred_(Napi::Promise::Deferred::New(env)) {
  const Napi::String name = Napi::String::New(env, "spillway");
  if (napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this, wakeJavaScript,
                                      &wake_) != napi_ok) {
    throw Error(ErrorCode::Internal, "cannot create a thread-safe function");
  }
  napi_add_env_cleanup_hook(env_, environmentEnds, this);
  work_->onChange([this] { wake(); });
}

BackgroundJob::~BackgroundJob() {
  work_->stop();
  if (thread_.joinable()) thread_.join();
  if (wake_ == nullptr) return;
  napi_release_threadsafe_function(wake_, napi_tsfn_abort);
  napi_remove_env_cleanup_hook(env_, environmentEnds, this);
}

void BackgroundJob::environmentEnds(void* self) { delete static_cast<BackgroundJob*>(self); }

void BackgroundJob::run() {
  try {
    work_->run();
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

void BackgroundJob::wake() {
  if (!awake_.exchange(true)) napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
}

void BackgroundJob::wakeJavaScript(napi_env env, napi_value, void* context, void*) {
  if (env == nullptr) return;  // the environment is ending, and `context` with it
  auto* self = static_cast<BackgroundJob*>(context);
  try {
    const Napi::HandleScope scope(env);
    self->drain();
  } catch (const Napi::Error& error) {
    napi_fatal_exception(env, error.Value());
  } catch (...) {
    // Nothing of ours throws anything else but bad_alloc; there is nobody to tell.
  }
}

void BackgroundJob::drain() {
  awake_.store(false);
  const bool done = done_.load();  // before progress is read, so that the last of it is reported
  std::optional<Napi::Error> thrown;
  try {
    if (!work_->report(env_, onProgress_)) work_->stop();
  } catch (const Napi::Error& error) {
    thrown = error;
    work_->stop();
  }
  if (done) settle();  // deletes this
  if (thrown) throw *thrown;
}

void BackgroundJob::settle() {
  const std::unique_ptr<BackgroundJob> last(this);
  if (failure_)
    deferred_.Reject(errorValue(env_, failure_->code, failure_->message, failure_->file.get()));
  else
    deferred_.Resolve(work_->result(env_));
}

bool wantsMore(const Napi::FunctionReference& onProgress, std::initializer_list<napi_value> arguments) {
  const Napi::Value answer = onProgress.Call(arguments);
  return !answer.IsBoolean() || answer.As<Napi::Boolean>().Value();
}

}  // namespace spillway
