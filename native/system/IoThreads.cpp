#include "IoThreads.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "DirectFile.h"
#include "Error.h"
#include "Thread.h"

namespace spillway {

namespace {

int64_t carryOut(const IoRequest& request) {
  const off_t offset = static_cast<off_t>(request.offset);
  const ssize_t moved = request.writing ? ::pwrite(request.descriptor, request.memory, request.bytes, offset)
                                        : ::pread(request.descriptor, request.memory, request.bytes, offset);
  return moved < 0 ? -errno : moved;
}

}  // namespace

IoThreads::IoThreads(unsigned depth) {
  open_.reserve(depth);
  done_.reserve(depth);
  const unsigned helpers = std::min(depth, kMostThreads) - 1;
  helpers_.reserve(helpers);
  try {
    while (helpers_.size() < helpers) helpers_.push_back(startThread("spillway-disk", [this] { help(); }));
  } catch (const Error&) {
    // The system refuses more threads; those that there are, at least the one that waits, do all the work.
  } catch (...) {
    stop();
    throw;
  }
}

IoThreads::~IoThreads() { stop(); }

IoBackend IoThreads::backend() const { return IoBackend::Threads; }

void IoThreads::start(unsigned tag, const IoRequest& request) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (first_ == open_.size()) {
      open_.clear();
      first_ = 0;
    } else if (open_.size() == open_.capacity()) {
      open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(first_));
      first_ = 0;
    }
    open_.push_back({tag, request});
  }
  started_.notify_one();
}

IoResult IoThreads::wait() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (!done_.empty()) {
      const IoResult result = done_.front();
      done_.erase(done_.begin());
      return result;
    }
    Job job;
    if (takeJob(&job)) {
      lock.unlock();
      return {job.tag, carryOut(job.request)};
    }
    ended_.wait(lock);
  }
}

bool IoThreads::takeJob(Job* job) {
  if (first_ == open_.size()) return false;
  *job = open_[first_++];
  return true;
}

void IoThreads::help() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    Job job;
    if (takeJob(&job)) {
      lock.unlock();
      const int64_t result = carryOut(job.request);
      lock.lock();
      done_.push_back({job.tag, result});
      ended_.notify_one();
      continue;
    }
    if (stopping_) return;
    started_.wait(lock);
  }
}

void IoThreads::stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  started_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
  helpers_.clear();
}

}  // namespace spillway
