#include "CompletionChannel.h"

#include <utility>

namespace spillway {

void CompletionChannel::post(Completion&& completion, bool wake) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    posted_.push_back(std::move(completion));
    if (!wake || std::exchange(awake_, true)) return;
  }
  wake_();
}

void CompletionChannel::flush() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (posted_.empty() || std::exchange(awake_, true)) return;
  }
  wake_();
}

void CompletionChannel::notify() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(awake_, true)) return;
  }
  wake_();
}

void CompletionChannel::take(std::vector<Completion>& into) {
  into.clear();
  std::lock_guard<std::mutex> lock(mutex_);
  awake_ = false;
  into.swap(posted_);
}

}  // namespace spillway
