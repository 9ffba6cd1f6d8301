// One call of profile() (src/bindings/Addon.ts): a thread that measures, and the promise that it settles.
#pragma once
#include <napi.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "../profile/measureMachine.h"

namespace spillway {

// Owns itself: it is deleted when the promise is settled, or when its JavaScript environment ends, whichever comes first.
class ProfileJob {
 public:
  static Napi::Value start(Napi::Env env, ProfileOptions&& options, const Napi::Function& onProgress);
  ~ProfileJob();  // stops measuring and joins the thread

 private:
  ProfileJob(Napi::Env env, ProfileOptions&& options, const Napi::Function& onProgress);
  void run();    // on the thread
  void wake();   // from any thread; coalesced
  void drain();  // on the JavaScript thread, after a wake-up
  void reportProgress();
  void settle();
  static void wakeJavaScript(napi_env env, napi_value callback, void* context, void* data);
  static void environmentEnds(void* self);

  Napi::Env env_;
  ProfileOptions options_;
  Napi::FunctionReference onProgress_;
  Napi::Promise::Deferred deferred_;
  napi_threadsafe_function wake_ = nullptr;
  ProfileProgress progress_;
  std::atomic<bool> awake_{false};  // a wake-up is under way

  // Set by the thread before `done_`.
  struct Failure {
    const char* code;
    std::string message;
  };
  std::optional<Failure> failure_;
  MachineFigures figures_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// ProfileOptions (src/bindings/Addon.ts) from a JavaScript value.
ProfileOptions parseProfileOptions(const Napi::Value& value);

}  // namespace spillway
