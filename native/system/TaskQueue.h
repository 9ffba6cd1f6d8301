// A thread that runs tasks one after another, in order of submission; each may wait for events of this or other queues.
// A runtime has one for each thing that works on its own: compute, disk reads, disk writes, the link to a device.
//
// The consumer is not woken for each task: waking it takes a processor away from the tasks, and it deals with several
// completions for little more than with one. It hears at once of failures and results, when half of what it has
// submitted is done, when the queue has to wait, and at the first completion 10 ms after it heard last.
//
// A queue may run ahead of a device: tasks that leave something under way there are launched one after the other, up
// to a depth, and a second thread waits for each of them, in order, and reports it.
//
// Where tasks of one queue wait for those of another that takes long, the order may be Order::Ready: a task that may
// begin overtakes those that may not yet. What it waits for has completed then, but for tasks of the same queue: given
// to the device any earlier it would hold up there all that is launched after it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "CompletionChannel.h"
#include "EventTable.h"
#include "Launch.h"
#include "Parking.h"

namespace spillway {

class TaskQueue {
 public:
  using Work = std::function<std::unique_ptr<TaskResult>()>;
  using DeviceWork = std::function<std::unique_ptr<TaskResult>(Launch&)>;

  enum class Order : uint8_t { Submitted, Ready };

  // Both must outlive the queue. ahead: how many tasks may have been launched and not yet reported; 0: each is done,
  // and reported, before the next begins.
  TaskQueue(const char* name, EventTable& events, CompletionChannel& channel, size_t ahead = 0,
            Order order = Order::Submitted);
  ~TaskQueue();  // stop() and join()
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // The task's event. Work may throw: Error keeps its code, anything else becomes Memory (bad_alloc) or Internal.
  // It is destroyed before its completion is posted, so what it holds is released by then.
  // Throws Error(InvalidArgument) for events that do not exist, and after stop().
  EventId submit(Work work, const std::vector<EventId>& after);

  // The same for work that begins on a device: it starts when all events in `after` have been launched, and is told
  // which of them are still under way. It completes when what it leaves under way has come to pass, and what it waited
  // for has completed: well if all of it did.
  EventId launch(DeviceWork work, const std::vector<EventId>& after);

  // Tasks that were submitted and have not started complete with code Cancelled; the running one, and what
  // has been launched, finishes.
  void cancelAll();

  // Takes no more tasks, cancels those that have not started, and lets the threads end; `last`, which must not throw,
  // is the last act. Does not wait: join() does.
  void stop(std::function<void()> last = {});
  void join();

  // Tasks that were started and are not yet reported, of a queue that runs ahead.
  size_t underWay() const;

 private:
  struct Task {
    EventId event = 0;
    std::vector<EventId> after;
    Work work;  // one of these two
    DeviceWork deviceWork;
    Launch launch;
    Completion completion;
  };
  EventId add(Task task, const std::vector<EventId>& after);
  void loop();
  bool takeNext(Task& task);
  bool mayBegin(const Task& task) const;
  void start(Task& task);
  void finish(Task& task);
  void handOver(Task&& task);
  void awaitRoom();
  void finishLoop();
  void endFinisher();
  bool worthAWakeUp(const Completion& completion);
  void wakeThread();

  EventTable& events_;
  CompletionChannel& channel_;
  std::mutex mutex_;
  std::deque<Task> tasks_;
  size_t outstanding_ = 0;  // submitted and not completed
  size_t refill_ = 0;       // of them: with no more left than this the consumer is told, to submit some more
  bool stopping_ = false;
  std::function<void()> last_;
  std::atomic<EventId> cancelledThrough_{0};
  std::atomic<uint32_t> changes_{0};
  std::atomic<bool> sleeps_{false};
  Parking parking_;

  // Of the thread that reports.
  double toldSeconds_ = 0;  // when the consumer was told last
  double endSeconds_ = 0;   // of the task before

  const Order order_;
  bool told_ = false;  // the consumer, that nothing may begin

  // Where the queue runs ahead.
  const size_t ahead_;
  mutable std::mutex underWayMutex_;
  std::condition_variable underWayChanged_;
  std::deque<Task> underWay_;
  bool ended_ = false;
  std::atomic<bool> waits_{false};  // the first thread, for events
  std::thread finisher_;
  std::thread thread_;
};

}  // namespace spillway
