// One call of repack() (src/bindings/Addon.ts): a thread that converts, and the promise that it settles.
#pragma once
#include <napi.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "../model/repack.h"

namespace spillway {

// Owns itself: it is deleted when the promise is settled, or when its JavaScript environment ends, whichever comes first.
class RepackJob {
 public:
  static Napi::Value start(Napi::Env env, RepackOptions&& options, const Napi::Function& onProgress);
  ~RepackJob();  // stops the conversion and joins the thread

 private:
  RepackJob(Napi::Env env, RepackOptions&& options, const Napi::Function& onProgress);
  void run();    // on the thread
  void wake();   // from any thread; coalesced
  void drain();  // on the JavaScript thread, after a wake-up
  void reportProgress();
  void settle();
  static void wakeJavaScript(napi_env env, napi_value callback, void* context, void* data);
  static void environmentEnds(void* self);

  Napi::Env env_;
  RepackOptions options_;
  Napi::FunctionReference onProgress_;
  Napi::Promise::Deferred deferred_;
  napi_threadsafe_function wake_ = nullptr;
  LoadProgress progress_;
  std::atomic<uint64_t> totalBytes_{0};
  uint64_t reportedBytes_ = 0;
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

}  // namespace spillway
