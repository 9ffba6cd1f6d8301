// What has completed, on its way to the one consumer (JavaScript). Any number of completions cost one wake-up at a
// time.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "Error.h"

namespace spillway {

using EventId = uint64_t;  // from 1, increasing in order of submission over all queues

// What a task hands over besides the fact that it is done.
struct TaskResult {
  virtual ~TaskResult() = default;
  virtual bool isAwaited() const { return true; }  // the consumer is to hear of it at once
};

struct Completion {
  EventId event = 0;
  double startSeconds = 0;  // monotonicSeconds()
  double endSeconds = 0;
  bool failed = false;
  ErrorCode code = ErrorCode::Internal;  // of a failed one
  std::string message;
  std::shared_ptr<const FileError> fileError;  // where it was one: its parts
  std::unique_ptr<TaskResult> result;
};

class CompletionChannel {
 public:
  // wake: called from any thread, without locks held, when there is something to take and no earlier wake-up is still
  // unanswered. It must not throw and must outlive the threads that post.
  explicit CompletionChannel(std::function<void()> wake) : wake_(std::move(wake)) {}

  // wake: whether the consumer has to hear of it now, or with the next wake-up.
  void post(Completion&& completion, bool wake = true);
  // A wake-up for what was posted without one, if there is any.
  void flush();
  // A wake-up for something that does not travel through the channel.
  void notify();
  // The consumer's answer to a wake-up: everything posted so far, in order. `into` is overwritten; its memory is
  // reused.
  void take(std::vector<Completion>& into);

 private:
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<Completion> posted_;
  bool awake_ = false;  // a wake-up is under way
};

}  // namespace spillway
