#include "TaskQueue.h"

#include <algorithm>
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
  completion.fileError = nullptr;
}

void failDependent(Completion& completion, EventId culprit) {
  fail(completion, ErrorCode::Dependency, "event " + std::to_string(culprit) + ", which this task waits for, failed");
}

// What it throws becomes the completion's failure.
template <typename Body>
void guard(Completion& completion, Body body) {
  try {
    body();
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

}  // namespace

TaskQueue::TaskQueue(const char* name, EventTable& events, CompletionChannel& channel, size_t ahead, Order order)
    : events_(events), channel_(channel), order_(order), ahead_(ahead) {
  if (ahead_ != 0) finisher_ = startThread("spillway-done", [this] { finishLoop(); });
  try {
    thread_ = startThread(name, [this] { loop(); });
  } catch (...) {
    endFinisher();
    throw;
  }
}

TaskQueue::~TaskQueue() {
  stop();
  join();
}

EventId TaskQueue::submit(Work work, const std::vector<EventId>& after) {
  Task task;
  task.work = std::move(work);
  return add(std::move(task), after);
}

EventId TaskQueue::launch(DeviceWork work, const std::vector<EventId>& after) {
  Task task;
  task.deviceWork = std::move(work);
  return add(std::move(task), after);
}

EventId TaskQueue::add(Task task, const std::vector<EventId>& after) {
  task.after = events_.stillToAwait(after);
  EventId event;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) throw Error(ErrorCode::InvalidArgument, "the runtime is closed");
    tasks_.emplace_back();
    tasks_.back() = std::move(task);
    event = tasks_.back().event = events_.create();
    refill_ = ++outstanding_ / 2;
  }
  if (order_ == Order::Ready) events_.poke();  // it may wait for any change
  wakeThread();
  return event;
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

bool TaskQueue::mayBegin(const Task& task) const {
  if (task.event <= cancelledThrough_.load()) return true;
  std::vector<EventId> after = task.after;
  if (task.deviceWork) {
    std::lock_guard<std::mutex> lock(underWayMutex_);
    for (const Task& own : underWay_) after.erase(std::remove(after.begin(), after.end(), own.event), after.end());
  }
  return events_.reached(after, EventTable::Until::Completed);
}

// Returns false, without one, where there are no more to come.
bool TaskQueue::takeNext(Task& task) {
  for (;;) {
    if (ahead_ != 0) awaitRoom();
    const uint32_t seen = events_.changes();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (tasks_.empty()) return !stopping_;
      const auto next = order_ == Order::Submitted
                            ? tasks_.begin()
                            : std::find_if(tasks_.begin(), tasks_.end(), [this](Task& each) { return mayBegin(each); });
      if (next != tasks_.end()) {
        task = std::move(*next);
        tasks_.erase(next);
        break;
      }
    }
    waits_.store(true);
    if (!std::exchange(told_, true)) channel_.flush();
    events_.awaitChange(seen);
  }
  waits_.store(false);
  told_ = false;
  return true;
}

void TaskQueue::loop() {
  for (;;) {
    const uint32_t seen = changes_.load();
    Task task;
    if (!takeNext(task)) break;
    if (task.event != 0) {
      start(task);
      if (ahead_ != 0)
        handOver(std::move(task));
      else
        finish(task);
    } else if (!spinUntil([&] { return changes_.load(std::memory_order_relaxed) != seen; })) {
      sleeps_.store(true);
      if (changes_.load() == seen) parking_.wait(changes_, seen);
      sleeps_.store(false);
    }
  }
  endFinisher();
  if (last_) std::exchange(last_, nullptr)();
}

bool TaskQueue::worthAWakeUp(const Completion& completion) {
  bool few;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    few = --outstanding_ <= refill_;
  }
  if (!few && !completion.failed && (completion.result == nullptr || !completion.result->isAwaited()) &&
      completion.endSeconds - toldSeconds_ < kMostQuietSeconds)
    return false;
  toldSeconds_ = completion.endSeconds;
  return true;
}

void TaskQueue::start(Task& task) {
  Completion& completion = task.completion;
  completion.event = task.event;
  EventId culprit = 0;
  const auto until = task.deviceWork ? EventTable::Until::Launched : EventTable::Until::Completed;
  if (!events_.reached(task.after, until)) {
    // What the task waits for may be up to the consumer.
    waits_.store(true);
    channel_.flush();
  }
  auto outcome = events_.await(task.after, until, &culprit, [&] { return task.event <= cancelledThrough_.load(); });
  waits_.store(false);
  if (outcome == EventTable::Outcome::Done && task.deviceWork)
    outcome = events_.fences(task.after, task.launch.before, &culprit);
  completion.startSeconds = monotonicSeconds();
  if (outcome == EventTable::Outcome::Interrupted)
    fail(completion, ErrorCode::Cancelled, "cancelled before it started");
  else if (outcome == EventTable::Outcome::Failed)
    failDependent(completion, culprit);
  else
    guard(completion, [&] { completion.result = task.deviceWork ? task.deviceWork(task.launch) : task.work(); });
  if (completion.failed) task.launch.left = nullptr;
  if (task.launch.left != nullptr) events_.launched(task.event, task.launch.left);
}

void TaskQueue::finish(Task& task) {
  Completion& completion = task.completion;
  if (task.launch.left != nullptr) guard(completion, [&] { task.launch.left->await(); });
  if (!task.launch.before.empty()) {
    // They were launched earlier, so they end without this one. A device that has failed fails everything: the blame is
    // theirs.
    EventId culprit = 0;
    if (events_.await(task.after, EventTable::Until::Completed, &culprit, [] { return false; }) ==
        EventTable::Outcome::Failed)
      failDependent(completion, culprit);
  }
  completion.endSeconds = monotonicSeconds();
  // The device began when it was done with what came before.
  completion.startSeconds = std::max(completion.startSeconds, endSeconds_);
  for (const auto& fence : task.launch.before)
    completion.startSeconds = std::max(completion.startSeconds, fence->endSeconds);
  completion.startSeconds = std::min(completion.startSeconds, completion.endSeconds);
  endSeconds_ = completion.endSeconds;
  if (task.launch.left != nullptr) task.launch.left->endSeconds = completion.endSeconds;
  if (completion.failed) completion.result = nullptr;
  task.work = nullptr;
  task.deviceWork = nullptr;
  task.launch = {};
  // Posted first: whoever waits for this event completes, and is posted, later.
  const EventId event = task.event;
  const bool failed = completion.failed;
  const bool wake = worthAWakeUp(completion);
  channel_.post(std::move(completion), wake);
  events_.complete(event, failed);
}

void TaskQueue::awaitRoom() {
  std::unique_lock<std::mutex> lock(underWayMutex_);
  underWayChanged_.wait(lock, [this] { return underWay_.size() < ahead_; });
}

void TaskQueue::handOver(Task&& task) {
  {
    std::lock_guard<std::mutex> lock(underWayMutex_);
    underWay_.push_back(std::move(task));
  }
  underWayChanged_.notify_all();
}

size_t TaskQueue::underWay() const {
  std::lock_guard<std::mutex> lock(underWayMutex_);
  return underWay_.size();
}

void TaskQueue::endFinisher() {
  if (!finisher_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(underWayMutex_);
    ended_ = true;
  }
  underWayChanged_.notify_all();
  finisher_.join();
}

void TaskQueue::finishLoop() {
  for (;;) {
    Task* task;
    {
      std::unique_lock<std::mutex> lock(underWayMutex_);
      underWayChanged_.wait(lock, [this] { return !underWay_.empty() || ended_; });
      if (underWay_.empty()) return;
      task = &underWay_.front();
    }
    finish(*task);
    bool none;
    {
      std::lock_guard<std::mutex> lock(underWayMutex_);
      underWay_.pop_front();
      none = underWay_.empty();
    }
    underWayChanged_.notify_all();
    // What the first thread waits for may be up to the consumer, who has to hear of all that came before.
    if (none && waits_.load()) channel_.flush();
  }
}

}  // namespace spillway
