#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../../system/ThreadPool.h"

namespace spillway {
namespace {

TEST(ThreadPool, RunsEveryIndexOnceWithAWorkerOfItsOwn) {
  for (unsigned threads : {1u, 2u, 5u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (size_t count : {0, 1, 2, 3, 64, 1000}) {
      std::vector<std::atomic<int>> runs(count);
      std::vector<std::atomic<int>> inside(threads);
      std::atomic<bool> shared{false};
      pool.parallelFor(count, [&](size_t index, unsigned worker) {
        ASSERT_LT(worker, threads);
        if (inside[worker].fetch_add(1) != 0) shared = true;
        runs[index]++;
        inside[worker]--;
      });
      for (size_t i = 0; i < count; i++)
        ASSERT_EQ(runs[i], 1) << "index " << i << " of " << count << " on " << threads << " threads";
      EXPECT_FALSE(shared);
    }
  }
}

TEST(ThreadPool, ThatIsReducedRunsEveryIndexOnTheThreadsThatAreLeft) {
  ThreadPool pool(5);
  // Nobody ends an index before so many workers have one: a busy machine may let them wait for their turn.
  const auto workers = [&](size_t least) {
    std::mutex mutex;
    std::condition_variable come;
    std::set<unsigned> seen;
    size_t runs = 0;
    pool.parallelFor(64, [&](size_t, unsigned worker) {
      std::unique_lock<std::mutex> lock(mutex);
      seen.insert(worker);
      runs++;
      come.notify_all();
      come.wait(lock, [&] { return seen.size() >= least; });
    });
    EXPECT_EQ(runs, 64u);
    return seen;
  };
  EXPECT_EQ(workers(5).size(), 5u);
  for (const unsigned threads : {3u, 4u, 1u, 0u}) {
    pool.reduce(threads);
    const unsigned left = std::min(std::max(1u, threads), 3u);
    EXPECT_EQ(pool.threads(), left);
    for (const unsigned worker : workers(left)) EXPECT_LT(worker, left);
  }
}

// Loops of a few indices right after each other: the moment at which a late helper could mistake one loop for the next.
TEST(ThreadPool, ManySmallLoopsKeepApart) {
  ThreadPool pool(4);
  std::vector<size_t> results(7);
  for (size_t loop = 0; loop < 20000; loop++) {
    const size_t count = loop % results.size() + 1;
    pool.parallelFor(count, [&](size_t index, unsigned) { results[index] = loop + index; });
    for (size_t i = 0; i < count; i++) ASSERT_EQ(results[i], loop + i);
  }
}

TEST(ThreadPool, LoopsAfterAPauseFindSleepingHelpers) {
  ThreadPool pool(3);
  for (int loop = 0; loop < 20; loop++) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> sum{0};
    pool.parallelFor(100, [&](size_t index, unsigned) { sum += static_cast<int>(index); });
    ASSERT_EQ(sum, 4950);
  }
}

TEST(ThreadPool, RethrowsAnExceptionAndGoesOn) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; round++) {
    std::atomic<int> runs{0};
    try {
      pool.parallelFor(1000, [&](size_t index, unsigned) {
        runs++;
        if (index % 10 == 3) throw std::runtime_error("index " + std::to_string(index));
      });
      FAIL() << "expected an exception";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 6), "index ");
    }
    EXPECT_LE(runs, 1000);
    std::atomic<int> after{0};
    pool.parallelFor(10, [&](size_t, unsigned) { after++; });
    ASSERT_EQ(after, 10);
  }
}

// A thread that the system took away holds back its own index and no other.
TEST(ThreadPool, ASlowIndexDelaysOnlyItself) {
  ThreadPool pool(4);
  std::atomic<int> others{0};
  std::atomic<bool> allOthersDone{false};
  pool.parallelFor(200, [&](size_t index, unsigned) {
    if (index != 0) {
      others++;
      return;
    }
    for (int wait = 0; wait < 60000 && others != 199; wait++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    allOthersDone = others == 199;
  });
  EXPECT_TRUE(allOthersDone);
}

TEST(ThreadPool, AnUnusedPoolEnds) {
  for (int i = 0; i < 100; i++) ThreadPool pool(8);
}

TEST(ThreadPool, APoolEndsRightAfterALoop) {
  for (int i = 0; i < 200; i++) {
    ThreadPool pool(4);
    std::atomic<int> runs{0};
    pool.parallelFor(8, [&](size_t, unsigned) { runs++; });
    ASSERT_EQ(runs, 8);
  }
}

}  // namespace
}  // namespace spillway
