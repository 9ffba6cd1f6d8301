// pread and pwrite on a few threads; the thread that waits takes part.
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "IoQueue.h"

namespace spillway {

class IoThreads final : public IoQueue {
 public:
  static constexpr unsigned kMostThreads = 4;  // the waiting one included; more bring no disk further

  explicit IoThreads(unsigned depth);
  ~IoThreads() override;

  IoBackend backend() const override;
  void start(unsigned tag, const IoRequest& request) override;
  void submit() noexcept override {}
  IoResult wait() noexcept override;

 private:
  struct Job {
    unsigned tag;
    IoRequest request;
  };
  void help();
  bool takeJob(Job* job);  // with the mutex held
  void stop();

  std::mutex mutex_;
  std::condition_variable started_;
  std::condition_variable ended_;
  bool stopping_ = false;
  std::vector<Job> open_;  // [first_, size) are not begun; room for `depth` is reserved, so nothing here allocates
  size_t first_ = 0;
  std::vector<IoResult> done_;
  std::vector<std::thread> helpers_;
};

}  // namespace spillway
