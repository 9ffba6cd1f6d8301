#include "TaskQueue.h"

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "Clock.h"
#include "Error.h"
#include "Thread.h"

namespace spillway {

namespace {

constexpr double kMostQuietSeconds = 0.010;

void fail(Completion& completion, ErrorCode code, std::string message) {
  completion.failed = true;
  completion.code = code;
  completion.message = std::move(message);
}

}  // namespace

TaskQueue::TaskQueue(const char* name, EventTable& events, CompletionChannel& channel) : events_(events), channel_(channel) {
  thread_ = startThread(name, [this] { loop(); });
}

TaskQueue::~TaskQueue() {
  stop();
  join();
}

EventId TaskQueue::submit(Work work, const std::vector<EventId>& after) {
  Task task;
  task.after = events_.stillToAwait(after);
  task.work = std::move(work);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) throw Error(ErrorCode::InvalidArgument, "the runtime is closed");
    tasks_.emplace_back();
    tasks_.back() = std::move(task);
    tasks_.back().event = events_.create();
    task.event = tasks_.back().event;
    refill_ = ++outstanding_ / 2;
  }
  wakeThread();
  return task.event;
}

void TaskQueue::cancelAll() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelledThrough_.store(events_.last());
  }
  events_.poke();
}

void TaskQueue::stop(std::function<void()> last) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    stopping_ = true;
    last_ = std::move(last);
    cancelledThrough_.store(events_.last());
  }
  events_.poke();
  wakeThread();
}

void TaskQueue::join() {
  if (thread_.joinable()) thread_.join();
}

void TaskQueue::wakeThread() {
  changes_.fetch_add(1);
  if (sleeps_.load()) parking_.wake(changes_, 1);
}

void TaskQueue::loop() {
  for (;;) {
    const uint32_t seen = changes_.load();
    Task task;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!tasks_.empty()) {
        task = std::move(tasks_.front());
        tasks_.pop_front();
      } else if (stopping_) {
        break;
      }
    }
    if (task.event != 0) {
      execute(task);
    } else if (!spinUntil([&] { return changes_.load(std::memory_order_relaxed) != seen; })) {
      sleeps_.store(true);
      if (changes_.load() == seen) parking_.wait(changes_, seen);
      sleeps_.store(false);
    }
  }
  if (last_) std::exchange(last_, nullptr)();
}

bool TaskQueue::worthAWakeUp(const Completion& completion) {
  bool few;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    few = --outstanding_ <= refill_;
  }
  if (!few && !completion.failed && completion.result == nullptr && completion.endSeconds - toldSeconds_ < kMostQuietSeconds) return false;
  toldSeconds_ = completion.endSeconds;
  return true;
}

void TaskQueue::execute(Task& task) {
  Completion completion;
  completion.event = task.event;
  EventId culprit = 0;
  if (!events_.completed(task.after)) channel_.flush();  // what the task waits for may be up to the consumer
  const auto outcome = events_.await(task.after, &culprit, [&] { return task.event <= cancelledThrough_.load(); });
  completion.startSeconds = monotonicSeconds();
  if (outcome == EventTable::Outcome::Interrupted) {
    fail(completion, ErrorCode::Cancelled, "cancelled before it started");
  } else if (outcome == EventTable::Outcome::Failed) {
    fail(completion, ErrorCode::Dependency, "event " + std::to_string(culprit) + ", which this task waits for, failed");
  } else {
    try {
      completion.result = task.work();
    } catch (const FileError& error) {
      fail(completion, error.code(), error.what());
      completion.fileError = std::make_shared<FileError>(error);
    } catch (const Error& error) {
      fail(completion, error.code(), error.what());
    } catch (const std::bad_alloc&) {
      fail(completion, ErrorCode::Memory, "out of memory");
    } catch (const std::exception& error) {
      fail(completion, ErrorCode::Internal, error.what());
    } catch (...) {
      fail(completion, ErrorCode::Internal, "an unknown exception");
    }
  }
  completion.endSeconds = monotonicSeconds();
  task.work = nullptr;
  // Posted first: whoever waits for this event completes, and is posted, later.
  const bool failed = completion.failed;
  const bool wake = worthAWakeUp(completion);
  channel_.post(std::move(completion), wake);
  events_.complete(task.event, failed);
}

}  // namespace spillway
