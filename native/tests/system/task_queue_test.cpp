#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../../system/Clock.h"
#include "../../system/Error.h"
#include "../../system/TaskQueue.h"

namespace spillway {
namespace {

struct Number : TaskResult {
  explicit Number(int value) : value(value) {}
  int value;
};

// Collects completions as JavaScript would: woken, it takes all there are.
class Consumer {
 public:
  CompletionChannel channel{[this] {
    std::lock_guard<std::mutex> lock(mutex_);
    wakeUps_++;
    woken_.notify_all();
  }};

  // Until `count` completions have come in all.
  const std::vector<Completion>& await(size_t count) {
    while (all_.size() < count) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        woken_.wait(lock, [&] { return wakeUps_ > answered_; });
        answered_ = wakeUps_;
      }
      std::vector<Completion> taken;
      channel.take(taken);
      for (Completion& completion : taken) all_.push_back(std::move(completion));
    }
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakeUps_ = 0;
  int answered_ = 0;
  std::vector<Completion> all_;
};

// Lets a task be held and released from outside.
class Gate {
 public:
  void open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

std::unique_ptr<TaskResult> nothing() { return nullptr; }

TEST(TaskQueue, RunsTasksInOrderAndHandsOverTheirResults) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("test", events, consumer.channel);
  const double before = monotonicSeconds();
  for (int i = 0; i < 500; i++) {
    EXPECT_EQ(queue.submit([i] { return std::make_unique<Number>(i); }, {}), static_cast<EventId>(i + 1));
  }
  const auto& completions = consumer.await(500);
  double last = before;
  for (int i = 0; i < 500; i++) {
    const Completion& completion = completions[static_cast<size_t>(i)];
    EXPECT_EQ(completion.event, static_cast<EventId>(i + 1));
    EXPECT_FALSE(completion.failed);
    EXPECT_EQ(dynamic_cast<const Number&>(*completion.result).value, i);
    EXPECT_LE(last, completion.startSeconds);
    EXPECT_LE(completion.startSeconds, completion.endSeconds);
    last = completion.endSeconds;
  }
  EXPECT_LE(last, monotonicSeconds());
}

TEST(TaskQueue, ExceptionsBecomeCodedFailures) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("test", events, consumer.channel);
  queue.submit([]() -> std::unique_ptr<TaskResult> { throw Error(ErrorCode::Cancelled, "stopped"); }, {});
  queue.submit([]() -> std::unique_ptr<TaskResult> { throw FileError("a.gguf", "layer 3 q.weight", "an end", "more"); },
               {});
  queue.submit([]() -> std::unique_ptr<TaskResult> { throw std::bad_alloc(); }, {});
  queue.submit([]() -> std::unique_ptr<TaskResult> { throw std::logic_error("odd"); }, {});
  queue.submit([]() -> std::unique_ptr<TaskResult> { throw 7; }, {});
  queue.submit(nothing, {});
  const auto& completions = consumer.await(6);
  const ErrorCode codes[] = {ErrorCode::Cancelled, ErrorCode::File, ErrorCode::Memory, ErrorCode::Internal,
                             ErrorCode::Internal};
  for (size_t i = 0; i < 5; i++) {
    EXPECT_TRUE(completions[i].failed);
    EXPECT_EQ(completions[i].code, codes[i]) << i;
    EXPECT_FALSE(completions[i].message.empty());
  }
  ASSERT_NE(completions[1].fileError, nullptr);
  EXPECT_EQ(completions[1].fileError->field, "layer 3 q.weight");
  EXPECT_FALSE(completions[5].failed);
}

TEST(TaskQueue, ATaskWaitsForEventsOfAnotherQueue) {
  Consumer consumer;
  EventTable events;
  TaskQueue loads("loads", events, consumer.channel);
  TaskQueue computes("computes", events, consumer.channel);
  for (int round = 0; round < 200; round++) {
    std::atomic<bool> loaded{false};
    std::atomic<bool> early{false};
    const EventId load = loads.submit(
        [&]() -> std::unique_ptr<TaskResult> {
          std::this_thread::sleep_for(std::chrono::microseconds(round));
          loaded = true;
          return nullptr;
        },
        {});
    computes.submit(
        [&]() -> std::unique_ptr<TaskResult> {
          if (!loaded) early = true;
          return nullptr;
        },
        {load});
    consumer.await(static_cast<size_t>(round) * 2 + 2);
    ASSERT_FALSE(early);
  }
}

TEST(TaskQueue, AFailureFailsWhatDependsOnItAndNothingElse) {
  Consumer consumer;
  EventTable events;
  TaskQueue loads("loads", events, consumer.channel);
  TaskQueue computes("computes", events, consumer.channel);
  const EventId bad = loads.submit([]() -> std::unique_ptr<TaskResult> { throw Error(ErrorCode::File, "gone"); }, {});
  const EventId dependent = computes.submit(nothing, {bad});
  const EventId second = loads.submit(nothing, {dependent});
  const EventId fine = computes.submit(nothing, {});
  consumer.await(4);
  const EventId late = computes.submit(nothing, {fine, bad});  // long after the failure
  std::map<EventId, const Completion*> byEvent;
  for (const Completion& completion : consumer.await(5)) byEvent[completion.event] = &completion;
  EXPECT_EQ(byEvent[bad]->code, ErrorCode::File);
  for (EventId event : {dependent, second, late}) {
    EXPECT_TRUE(byEvent[event]->failed);
    EXPECT_EQ(byEvent[event]->code, ErrorCode::Dependency);
  }
  EXPECT_FALSE(byEvent[fine]->failed);
}

TEST(TaskQueue, CancelAllSparesWhatRunsAndWhatComesLater) {
  Consumer consumer;
  EventTable events;
  TaskQueue loads("loads", events, consumer.channel);
  TaskQueue computes("computes", events, consumer.channel);
  Gate gate, started;
  const EventId running = loads.submit(
      [&]() -> std::unique_ptr<TaskResult> {
        started.open();
        gate.pass();
        return nullptr;
      },
      {});
  started.pass();
  const EventId queued = loads.submit(nothing, {});
  const EventId waiting = computes.submit(nothing, {running});  // at the head of its queue, waiting for an event
  computes.cancelAll();
  EXPECT_EQ(consumer.await(1)[0].event, waiting);  // although what it waits for still runs
  loads.cancelAll();
  const EventId later = loads.submit(nothing, {});
  gate.open();
  std::map<EventId, const Completion*> byEvent;
  for (const Completion& completion : consumer.await(4)) byEvent[completion.event] = &completion;
  EXPECT_FALSE(byEvent[running]->failed);
  EXPECT_FALSE(byEvent[later]->failed);
  for (EventId event : {queued, waiting}) EXPECT_EQ(byEvent[event]->code, ErrorCode::Cancelled);
}

TEST(TaskQueue, WorkIsDestroyedBeforeItsCompletionIsPosted) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("test", events, consumer.channel);
  for (size_t i = 0; i < 200; i++) {
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = held;
    queue.submit([held = std::move(held)] { return nothing(); }, {});
    consumer.await(i + 1);
    ASSERT_TRUE(watch.expired());
  }
}

TEST(TaskQueue, StopCancelsTheRestRunsItsLastActAndRefusesMore) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("test", events, consumer.channel);
  Gate gate, started;
  queue.submit(
      [&]() -> std::unique_ptr<TaskResult> {
        started.open();
        gate.pass();
        return nullptr;
      },
      {});
  started.pass();
  queue.submit(nothing, {});
  bool last = false;
  queue.stop([&] { last = true; });
  queue.stop([] { FAIL() << "the second stop"; });
  EXPECT_THROW(queue.submit(nothing, {}), Error);
  gate.open();
  queue.join();
  EXPECT_TRUE(last);
  const auto& completions = consumer.await(2);
  EXPECT_FALSE(completions[0].failed);
  EXPECT_EQ(completions[1].code, ErrorCode::Cancelled);
}

TEST(TaskQueue, EventsThatDoNotExistAreRefused) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("test", events, consumer.channel);
  EXPECT_THROW(queue.submit(nothing, {0}), Error);
  EXPECT_THROW(queue.submit(nothing, {1}), Error);
  EXPECT_EQ(queue.submit(nothing, {}), 1u);
  EXPECT_THROW(queue.submit(nothing, {3}), Error);
  consumer.await(1);
}

// A consumer that keeps 64 tasks submitted is woken when half of them are done, not for each.
TEST(TaskQueue, TheConsumerIsWokenToSubmitMoreNotForEachTask) {
  constexpr size_t kAhead = 64, kTasks = 3200;
  std::atomic<size_t> wakeUps{0};
  CompletionChannel channel([&] { wakeUps++; });
  EventTable events;
  TaskQueue queue("test", events, channel);
  // Long enough that the consumer could answer each of them.
  const auto work = []() -> std::unique_ptr<TaskResult> {
    for (const double end = monotonicSeconds() + 20e-6; monotonicSeconds() < end;) {}
    return nullptr;
  };
  size_t submitted = 0, completed = 0, answered = 0;
  std::vector<Completion> taken;
  while (completed < kTasks) {
    while (submitted < kTasks && submitted - completed < kAhead) submitted++, queue.submit(work, {});
    while (wakeUps.load() == answered) std::this_thread::yield();
    answered++;
    channel.take(taken);
    completed += taken.size();
  }
  EXPECT_EQ(completed, kTasks);
  EXPECT_LT(wakeUps.load(), kTasks / 4);
}

TEST(TaskQueue, AQueueThatWaitsSaysFirstWhatIsDone) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("test", events, consumer.channel);
  for (size_t round = 0; round < 50; round++) {
    // The second task waits for an event that comes only when the consumer has heard of the first, and there is plenty
    // to do after it.
    const EventId promised = events.create();
    queue.submit(nothing, {});
    queue.submit(nothing, {promised});
    for (int i = 0; i < 14; i++) queue.submit(nothing, {});
    consumer.await(16 * round + 1);
    events.complete(promised, false);
    consumer.await(16 * round + 16);
  }
}

// Producers, cancellations and cross-dependencies at once: every task completes exactly once.
class TaskQueueStorm : public testing::TestWithParam<TaskQueue::Order> {};

TEST_P(TaskQueueStorm, IsSurvived) {
  Consumer consumer;
  EventTable events;
  TaskQueue first("first", events, consumer.channel, 0, GetParam());
  TaskQueue second("second", events, consumer.channel, 0, GetParam());
  constexpr int kTasks = 1500;
  const auto produce = [&](TaskQueue& queue) {
    for (int i = 0; i < kTasks; i++) {
      const EventId last = events.last();
      queue.submit(nothing, last > 3 ? std::vector<EventId>{last, last - 3} : std::vector<EventId>{});
      if (i % 400 == 399) queue.cancelAll();
    }
  };
  std::thread one([&] { produce(first); });
  std::thread two([&] { produce(second); });
  const auto& completions = consumer.await(2 * kTasks);
  one.join();
  two.join();
  std::vector<int> seen(2 * kTasks + 1);
  for (const Completion& completion : completions) seen[completion.event]++;
  for (size_t event = 1; event < seen.size(); event++) ASSERT_EQ(seen[event], 1) << event;
}

INSTANTIATE_TEST_SUITE_P(Orders, TaskQueueStorm, testing::Values(TaskQueue::Order::Submitted, TaskQueue::Order::Ready),
                         [](const auto& order) {
                           return order.param == TaskQueue::Order::Ready ? "Ready" : "Submitted";
                         });

TEST(TaskQueueReady, WhatMayBeginOvertakesWhatWaitsAndNothingElse) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("ready", events, consumer.channel, 0, TaskQueue::Order::Ready);
  const EventId one = events.create(), two = events.create();
  const EventId waitsForTwo = queue.submit(nothing, {two});
  const EventId waitsForOne = queue.submit(nothing, {one});
  const EventId behind = queue.submit(nothing, {waitsForOne});
  const EventId free = queue.submit(nothing, {});
  const EventId alsoFree = queue.submit(nothing, {free});
  const auto order = [&](size_t count) {
    std::vector<EventId> found;
    for (const Completion& completion : consumer.await(count)) found.push_back(completion.event);
    return found;
  };
  EXPECT_EQ(order(2), (std::vector<EventId>{free, alsoFree}));
  events.complete(one, false);
  EXPECT_EQ(order(4), (std::vector<EventId>{free, alsoFree, waitsForOne, behind}));
  const EventId late = queue.submit(nothing, {});  // while the thread waits for an event
  EXPECT_EQ(order(5).back(), late);
  events.complete(two, true);
  EXPECT_EQ(order(6).back(), waitsForTwo);
  EXPECT_EQ(consumer.await(6).back().code, ErrorCode::Dependency);
}

TEST(TaskQueueReady, CancellingReachesWhatWaits) {
  Consumer consumer;
  EventTable events;
  TaskQueue queue("ready", events, consumer.channel, 0, TaskQueue::Order::Ready);
  const EventId never = events.create();
  for (int i = 0; i < 3; i++) queue.submit(nothing, {never});
  queue.cancelAll();
  for (const Completion& completion : consumer.await(3)) EXPECT_EQ(completion.code, ErrorCode::Cancelled);
  queue.submit(nothing, {never});
  queue.stop();
  EXPECT_EQ(consumer.await(4).back().code, ErrorCode::Cancelled);
}

// What a device would say: a fence comes to pass when the test opens it.
class TestFence : public Fence {
 public:
  explicit TestFence(bool breaks = false) : breaks_(breaks) {}
  void await() override {
    gate.pass();
    if (breaks_) throw Error(ErrorCode::Internal, "the device has failed");
  }
  Gate gate;

 private:
  bool breaks_;
};

// A queue ahead of a device, and tasks that leave fences there.
struct Ahead {
  static constexpr size_t kDepth = 3;
  explicit Ahead(Consumer& consumer, EventTable& events, TaskQueue::Order order = TaskQueue::Order::Submitted)
      : queue("ahead", events, consumer.channel, kDepth, order) {}
  ~Ahead() {
    for (const auto& fence : fences) fence->gate.open();
  }
  EventId launch(const std::vector<EventId>& after, bool breaks = false) {
    fences.push_back(std::make_shared<TestFence>(breaks));
    return queue.launch(
        [this, fence = fences.back()](Launch& launch) -> std::unique_ptr<TaskResult> {
          before = launch.before.size();
          launch.left = fence;
          launched++;
          return nullptr;
        },
        after);
  }
  void awaitLaunched(size_t count) {
    while (launched.load() < count) std::this_thread::yield();
  }
  std::vector<std::shared_ptr<TestFence>> fences;
  std::atomic<size_t> launched{0}, before{0};
  TaskQueue queue;  // ends first
};

TEST(TaskQueueAhead, LaunchesUpToItsDepthAndReportsWhenFencesHaveComeToPass) {
  Consumer consumer;
  EventTable events;
  Ahead ahead(consumer, events);
  for (size_t i = 0; i < 5; i++) ahead.launch({});
  ahead.awaitLaunched(3);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(ahead.launched, 3u);
  EXPECT_EQ(ahead.queue.underWay(), 3u);
  ahead.fences[1]->gate.open();  // out of turn: nothing is reported before the first
  ahead.fences[0]->gate.open();
  ahead.awaitLaunched(5);
  EXPECT_EQ(ahead.launched, 5u);
  for (const auto& fence : ahead.fences) fence->gate.open();
  const auto& completions = consumer.await(5);
  double last = 0;
  for (size_t i = 0; i < 5; i++) {
    EXPECT_EQ(completions[i].event, i + 1);
    EXPECT_FALSE(completions[i].failed);
    EXPECT_LE(last, completions[i].startSeconds);  // a device does one after the other
    EXPECT_LE(completions[i].startSeconds, completions[i].endSeconds);
    last = completions[i].endSeconds;
  }
}

TEST(TaskQueueAhead, WorkOnTheDeviceIsLaunchedBehindWhatIsUnderWayAndTheHostWaits) {
  Consumer consumer;
  EventTable events;
  Ahead one(consumer, events), two(consumer, events);
  TaskQueue host("host", events, consumer.channel);
  std::atomic<bool> onHost{false};
  const EventId first = one.launch({});
  const EventId second = two.launch({first});
  host.submit([&] { return onHost = true, nothing(); }, {first});
  two.awaitLaunched(1);
  EXPECT_EQ(two.before, 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(onHost);
  two.fences[0]->gate.open();
  one.fences[0]->gate.open();
  std::map<EventId, const Completion*> byEvent;
  for (const Completion& completion : consumer.await(3)) byEvent[completion.event] = &completion;
  EXPECT_TRUE(onHost);
  EXPECT_LE(byEvent[first]->endSeconds, byEvent[second]->startSeconds);  // although it was launched before that
  two.launch({first});
  two.awaitLaunched(2);
  EXPECT_EQ(two.before, 0u);  // what is done need not be waited for
}

TEST(TaskQueueAhead, AFailureOnTheDeviceIsThatOfTheTaskAndFailsWhatWasLaunchedBehindIt) {
  Consumer consumer;
  EventTable events;
  Ahead one(consumer, events), two(consumer, events);
  const EventId bad = one.launch({}, true);
  const EventId behind = one.launch({bad});
  const EventId across = two.launch({behind});
  const EventId free = two.launch({});
  one.awaitLaunched(2);
  two.awaitLaunched(2);
  for (Ahead* ahead : {&two, &one}) {
    for (const auto& fence : ahead->fences) fence->gate.open();
  }
  std::map<EventId, const Completion*> byEvent;
  for (const Completion& completion : consumer.await(4)) byEvent[completion.event] = &completion;
  EXPECT_EQ(byEvent[bad]->code, ErrorCode::Internal);
  EXPECT_EQ(byEvent[bad]->message, "the device has failed");
  for (const EventId event : {behind, across}) {
    EXPECT_TRUE(byEvent[event]->failed);
    EXPECT_EQ(byEvent[event]->code, ErrorCode::Dependency);
  }
  EXPECT_FALSE(byEvent[free]->failed);
}

TEST(TaskQueueAhead, CancellingAndStoppingLetWhatIsLaunchedFinish) {
  for (const bool stops : {false, true}) {
    Consumer consumer;
    EventTable events;
    Ahead ahead(consumer, events);
    for (size_t i = 0; i < 5; i++) ahead.launch({});
    ahead.awaitLaunched(3);
    std::atomic<bool> last{false};
    if (stops)
      ahead.queue.stop([&] { last = true; });
    else
      ahead.queue.cancelAll();
    EXPECT_FALSE(last);
    for (const auto& fence : ahead.fences) fence->gate.open();
    const auto& completions = consumer.await(5);
    for (size_t i = 0; i < 5; i++) {
      EXPECT_EQ(completions[i].failed, i >= 3) << i;
      if (i >= 3) {
        EXPECT_EQ(completions[i].code, ErrorCode::Cancelled);
      }
    }
    EXPECT_EQ(ahead.launched, 3u);
    if (!stops) continue;
    ahead.queue.join();
    EXPECT_TRUE(last);
    EXPECT_EQ(ahead.queue.underWay(), 0u);
  }
}

// On a stream it would hold up whatever is launched after it.
TEST(TaskQueueReady, WhatWaitsForAnotherQueueIsNotLaunchedBeforeThatIsDone) {
  Consumer consumer;
  EventTable events;
  Ahead other(consumer, events), ready(consumer, events, TaskQueue::Order::Ready);
  const EventId loads = other.launch({});
  other.awaitLaunched(1);
  const EventId waits = ready.launch({loads});
  const EventId first = ready.launch({}), second = ready.launch({first});
  ready.awaitLaunched(2);
  ready.fences[1]->gate.open();
  ready.fences[2]->gate.open();
  EXPECT_EQ(consumer.await(2)[1].event, second);
  EXPECT_EQ(ready.launched, 2u);
  other.fences[0]->gate.open();
  ready.awaitLaunched(3);
  ready.fences[0]->gate.open();
  EXPECT_EQ(consumer.await(4).back().event, waits);
}

// What it waits for comes only when the consumer has heard of what was under way, and there is plenty to do after it.
TEST(TaskQueueAhead, AQueueThatWaitsSaysWhatBecomesDoneMeanwhile) {
  Consumer consumer;
  EventTable events;
  Ahead ahead(consumer, events);
  for (size_t round = 0; round < 30; round++) {
    const EventId promised = events.create();
    ahead.launch({});
    ahead.launch({promised});
    for (int i = 0; i < 14; i++) ahead.queue.submit(nothing, {});
    ahead.awaitLaunched(2 * round + 1);
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    for (const auto& fence : ahead.fences) fence->gate.open();
    consumer.await(16 * round + 1);
    events.complete(promised, false);
    consumer.await(16 * round + 16);
  }
}

// Producers, cancellations and dependencies across queues that run ahead and one that does not.
TEST(TaskQueueAhead, SurvivesAStorm) {
  Consumer consumer;
  EventTable events;
  Ahead one(consumer, events), two(consumer, events, TaskQueue::Order::Ready);
  TaskQueue host("host", events, consumer.channel);
  constexpr int kTasks = 600;
  const auto produce = [&](Ahead& ahead) {
    for (int i = 0; i < kTasks; i++) {
      const EventId last = events.last();
      const std::vector<EventId> after = last > 3 ? std::vector<EventId>{last, last - 3} : std::vector<EventId>{};
      if (i % 5 == 0)
        host.submit(nothing, after);
      else
        ahead.launch(after, i % 97 == 0);
      if (i % 5 != 0) ahead.fences.back()->gate.open();
      if (i % 250 == 249) ahead.queue.cancelAll();
    }
  };
  std::thread first([&] { produce(one); });
  std::thread second([&] { produce(two); });
  const auto& completions = consumer.await(2 * kTasks);
  first.join();
  second.join();
  std::vector<int> seen(2 * kTasks + 1);
  for (const Completion& completion : completions) seen[completion.event]++;
  for (size_t event = 1; event < seen.size(); event++) ASSERT_EQ(seen[event], 1) << event;
}

}  // namespace
}  // namespace spillway
