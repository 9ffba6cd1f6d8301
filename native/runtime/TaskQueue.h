// A thread that runs tasks one after another, in order of submission; each may wait for events of this or other queues.
// A runtime has one for each thing that works on its own: compute now, disk reads, disk writes and copies later.
//
// The consumer is not woken for each task: waking it takes a processor away from the tasks, and it deals with several completions for little more
// than with one. It hears at once of failures and results, when half of what it has submitted is done, when the queue has to wait, and at the first
// completion 10 ms after it heard last.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "CompletionChannel.h"
#include "EventTable.h"
#include "Parking.h"

namespace spillway {

class TaskQueue {
 public:
  using Work = std::function<std::unique_ptr<TaskResult>()>;

  // Both must outlive the queue.
  TaskQueue(const char* name, EventTable& events, CompletionChannel& channel);
  ~TaskQueue();  // stop() and join()
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // The task's event. Work may throw: Error keeps its code, anything else becomes Memory (bad_alloc) or Internal.
  // It is destroyed before its completion is posted, so what it holds is released by then.
  // Throws Error(InvalidArgument) for events that do not exist, and after stop().
  EventId submit(Work work, const std::vector<EventId>& after);

  // Tasks that were submitted and have not started complete with code Cancelled, in order; the running one finishes.
  void cancelAll();

  // Takes no more tasks, cancels those that have not started, and lets the thread end; `last`, which must not throw, is its last act.
  // Does not wait: join() does.
  void stop(std::function<void()> last = {});
  void join();

 private:
  struct Task {
    EventId event = 0;
    std::vector<EventId> after;
    Work work;
  };
  void loop();
  void execute(Task& task);
  bool worthAWakeUp(const Completion& completion);
  void wakeThread();

  EventTable& events_;
  CompletionChannel& channel_;
  std::mutex mutex_;
  std::deque<Task> tasks_;
  size_t outstanding_ = 0;  // submitted and not completed
  size_t refill_ = 0;       // of them: with no more left than this the consumer is told, to submit some more
  double toldSeconds_ = 0;  // when it was told last; the thread's own
  bool stopping_ = false;
  std::function<void()> last_;
  std::atomic<EventId> cancelledThrough_{0};
  std::atomic<uint32_t> changes_{0};
  std::atomic<bool> sleeps_{false};
  Parking parking_;
  std::thread thread_;
};

}  // namespace spillway
