// One long call of JavaScript's: a thread that works, and the promise that it settles.
#pragma once
#include <napi.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "../system/Error.h"

namespace spillway {

// What a job does. It outlives the thread.
class BackgroundWork {
 public:
  virtual ~BackgroundWork() = default;
  virtual void run() = 0;                                 // on the thread; may throw
  virtual void stop() = 0;                                // from any thread: run() is to end soon
  virtual void onChange(std::function<void()> wake) = 0;  // before run(): `wake` is to be called, from any thread, when
                                                          // there is progress to report
  // On the JavaScript thread. False where JavaScript wants no more.
  virtual bool report(Napi::Env env, const Napi::FunctionReference& onProgress) = 0;
  virtual Napi::Value result(Napi::Env env) = 0;  // once run() has returned
};

// Owns itself: it is deleted when the promise is settled, or when its JavaScript environment ends, whichever comes
// first.
class BackgroundJob {
 public:
  // threadName: at most 15 characters.
  static Napi::Value start(Napi::Env env, const char* threadName, std::unique_ptr<BackgroundWork> work,
                           const Napi::Function& onProgress);
  ~BackgroundJob();  // stops the work and joins the thread

 private:
  BackgroundJob(Napi::Env env, std::unique_ptr<BackgroundWork> work, const Napi::Function& onProgress);
  void run();    // on the thread
  void wake();   // from any thread; coalesced
  void drain();  // on the JavaScript thread, after a wake-up
  void settle();
  static void wakeJavaScript(napi_env env, napi_value callback, void* context, void* data);
  static void environmentEnds(void* self);

  Napi::Env env_;
  std::unique_ptr<BackgroundWork> work_;
  Napi::FunctionReference onProgress_;
  Napi::Promise::Deferred deferred_;
  napi_threadsafe_function wake_ = nullptr;
  std::atomic<bool> awake_{false};  // a wake-up is under way

  // Set by the thread before `done_`.
  struct Failure {
    const char* code;
    std::string message;
    std::shared_ptr<const FileError> file;
  };
  std::optional<Failure> failure_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Calls JavaScript's callback; false where it answers so.
bool wantsMore(const Napi::FunctionReference& onProgress, std::initializer_list<napi_value> arguments);

}  // namespace spillway
