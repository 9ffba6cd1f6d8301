#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../../system/CompletionChannel.h"

namespace spillway {
namespace {

Completion completion(EventId event) {
  Completion result;
  result.event = event;
  return result;
}

TEST(CompletionChannel, WakesOnceUntilItIsAnswered) {
  int wakeUps = 0;
  CompletionChannel channel([&] { wakeUps++; });
  for (EventId event = 1; event <= 5; event++) channel.post(completion(event));
  channel.notify();
  EXPECT_EQ(wakeUps, 1);
  std::vector<Completion> taken;
  channel.take(taken);
  ASSERT_EQ(taken.size(), 5u);
  for (size_t i = 0; i < 5; i++) EXPECT_EQ(taken[i].event, i + 1);
  channel.notify();
  channel.post(completion(6));
  EXPECT_EQ(wakeUps, 2);
  channel.take(taken);
  EXPECT_EQ(taken.size(), 1u);
  channel.take(taken);
  EXPECT_TRUE(taken.empty());
}

TEST(CompletionChannel, LosesNothingAmongThreads) {
  std::atomic<int> wakeUps{0};
  CompletionChannel channel([&] { wakeUps++; });
  std::vector<std::thread> producers;
  for (int p = 0; p < 3; p++) {
    producers.emplace_back([&channel] {
      for (EventId event = 1; event <= 2000; event++) channel.post(completion(event));
    });
  }
  size_t received = 0;
  int answered = 0;
  std::vector<Completion> taken;
  while (received < 6000) {
    // Only an unanswered wake-up allows taking, as with a real consumer: a lost one would hang here.
    while (wakeUps.load() == answered) std::this_thread::yield();
    answered++;
    channel.take(taken);
    received += taken.size();
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(received, 6000u);
}

}  // namespace
}  // namespace spillway
