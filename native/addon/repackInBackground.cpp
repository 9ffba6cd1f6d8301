#include "repackInBackground.h"

#include <atomic>
#include <utility>

#include "BackgroundJob.h"

namespace spillway {
namespace {

class RepackWork final : public BackgroundWork {
 public:
  explicit RepackWork(RepackOptions&& options) : options_(std::move(options)) {}
  void run() override { repack(std::move(options_), progress_, totalBytes_); }
  void stop() override { progress_.stopped.store(true); }
  void onChange(std::function<void()> wake) override { progress_.changed = std::move(wake); }
  bool report(Napi::Env env, const Napi::FunctionReference& onProgress) override {
    const uint64_t bytes = progress_.bytes.load();
    if (std::exchange(reportedBytes_, bytes) == bytes) return true;
    return wantsMore(onProgress, {Napi::Number::New(env, static_cast<double>(bytes)),
                                  Napi::Number::New(env, static_cast<double>(totalBytes_.load()))});
  }
  Napi::Value result(Napi::Env env) override { return env.Undefined(); }

 private:
  RepackOptions options_;
  LoadProgress progress_;
  std::atomic<uint64_t> totalBytes_{0};
  uint64_t reportedBytes_ = 0;
};

}  // namespace

Napi::Value repackInBackground(Napi::Env env, RepackOptions&& options, const Napi::Function& onProgress) {
  return BackgroundJob::start(env, "spillway-repack", std::make_unique<RepackWork>(std::move(options)), onProgress);
}

}  // namespace spillway
