#include "ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "Error.h"
#include "Parking.h"
#include "Thread.h"

namespace spillway {

namespace {

constexpr uint64_t kMost = UINT32_MAX;  // indices of a loop

// Indices [next, end) of a loop that are meant for one thread, in one word.
class Share {
 public:
  void set(size_t next, size_t end) { word_.store(wordOf(next, end), std::memory_order_release); }
  bool takeFirst(size_t* index) {
    return take([](uint64_t next, uint64_t end) { return wordOf(next + 1, end); },
                [index](uint64_t next, uint64_t) { *index = next; });
  }
  bool takeLast(size_t* index) {
    return take([](uint64_t next, uint64_t end) { return wordOf(next, end - 1); },
                [index](uint64_t, uint64_t end) { *index = end - 1; });
  }
  // Takes all that are left; tells how many.
  size_t drop() {
    const uint64_t word = word_.exchange(0);
    return (word & kMost) - (word >> 32);
  }

 private:
  static uint64_t wordOf(uint64_t next, uint64_t end) { return next << 32 | end; }
  template <typename Rest, typename Taken>
  bool take(Rest rest, Taken taken) {
    uint64_t word = word_.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t next = word >> 32, end = word & kMost;
      if (next == end) return false;
      if (word_.compare_exchange_weak(word, rest(next, end))) return taken(next, end), true;
    }
  }

  alignas(64) std::atomic<uint64_t> word_{0};
};

}  // namespace

// One loop at a time. A thread owns an index from the moment it takes it out of a share until it takes it off
// `unfinished`, and the loop cannot end in between: so whoever owns an index may read the loop's fields, and whoever
// owns none touches nothing but the atomics. (A thread that is late may find a share as it was in an earlier loop: what
// it takes then is an index of the present one nevertheless.)
struct ThreadPool::State {
  std::mutex turn;  // of whoever calls
  Body body = nullptr;
  void* context = nullptr;

  std::vector<Share> shares;                      // one a thread: indices that nobody has taken yet
  alignas(64) std::atomic<size_t> unfinished{0};  // indices that are not done yet
  alignas(64) std::atomic<uint32_t> loops{0};     // changes when a loop starts; helpers sleep on it
  std::atomic<uint32_t> sleepers{0};
  std::atomic<uint32_t> ended{0};  // changes when a loop ends; the caller sleeps on it
  std::atomic<bool> callerSleeps{false};
  std::atomic<bool> stopping{false};
  std::atomic<bool> failed{false};  // set once a loop, by whoever may write `failure`
  std::exception_ptr failure;

  Parking helperParking;
  Parking callerParking;
  unsigned threads = 1;
  std::vector<std::thread> helpers;

  explicit State(unsigned count) : shares(count), threads(count) {}

  // From the thread's own share, in order; then from the ends of the others', so that all threads end at nearly the
  // same time.
  bool takeIndex(unsigned worker, size_t* index) {
    if (shares[worker].takeFirst(index)) return true;
    for (unsigned other = 1; other < threads; other++) {
      if (shares[(worker + other) % threads].takeLast(index)) return true;
    }
    return false;
  }

  void finish(size_t indices) {
    if (unfinished.fetch_sub(indices) != indices) return;
    ended.fetch_add(1);
    if (callerSleeps.load()) callerParking.wake(ended, 1);
  }

  // Runs indices until none is left to take. They are taken off `unfinished` together: the threads do not contend for
  // it at each.
  void work(unsigned worker) {
    size_t index, done = 0;
    for (; takeIndex(worker, &index); done++) {
      try {
        body(context, index, worker);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
        for (Share& share : shares) done += share.drop();  // nobody needs the rest
      }
    }
    if (done != 0) finish(done);
  }

  void help(unsigned worker) {
    for (;;) {
      const uint32_t seen = loops.load();
      work(worker);
      if (stopping.load()) return;
      if (spinUntil([&] {
            return loops.load(std::memory_order_relaxed) != seen || stopping.load(std::memory_order_relaxed);
          }))
        continue;
      sleepers.fetch_add(1);
      if (loops.load() == seen && !stopping.load()) helperParking.wait(loops, seen);
      sleepers.fetch_sub(1);
    }
  }

  void wakeHelpers(size_t wanted) {
    loops.fetch_add(1);
    if (sleepers.load() != 0) helperParking.wake(loops, static_cast<int>(std::min<size_t>(wanted, INT_MAX)));
  }

  void start() {
    while (helpers.size() + 1 < threads) {
      const unsigned worker = static_cast<unsigned>(helpers.size()) + 1;
      helpers.push_back(startThread(("spillway-" + std::to_string(worker)).c_str(), [this, worker] { help(worker); }));
    }
  }

  void stop() {
    stopping.store(true);
    wakeHelpers(INT_MAX);
    for (std::thread& helper : helpers) helper.join();
    helpers.clear();
    stopping.store(false);
  }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>(threads)) {}

ThreadPool::~ThreadPool() { state_->stop(); }

unsigned ThreadPool::threads() const { return state_->threads; }

void ThreadPool::reduce(unsigned threads) {
  if (threads >= state_->threads) return;
  state_->stop();  // the next loop starts those that are left
  state_->threads = std::max(1u, threads);
}

void ThreadPool::parallelFor(size_t count, Body body, void* context) {
  State& state = *state_;
  if (count <= 1 || state.threads <= 1) {
    for (size_t index = 0; index < count; index++) body(context, index, 0);
    return;
  }
  if (count > kMost)
    throw Error(ErrorCode::InvalidArgument,
                "a parallel loop of " + std::to_string(count) + " indices, of at most " + std::to_string(kMost));
  std::lock_guard<std::mutex> turn(state.turn);
  state.start();
  state.body = body;
  state.context = context;
  state.failed.store(false);
  state.unfinished.store(count);
  for (unsigned worker = 0; worker < state.threads; worker++) {
    state.shares[worker].set(count * worker / state.threads, count * (worker + 1) / state.threads);
  }
  state.wakeHelpers(count - 1);
  state.work(0);
  if (!spinUntil([&] { return state.unfinished.load(std::memory_order_acquire) == 0; })) {
    state.callerSleeps.store(true);
    for (;;) {
      const uint32_t ended = state.ended.load();
      if (state.unfinished.load() == 0) break;
      state.callerParking.wait(state.ended, ended);
    }
    state.callerSleeps.store(false);
  }
  if (state.failed.load()) {
    std::exception_ptr failure = std::move(state.failure);
    state.failure = nullptr;
    std::rethrow_exception(failure);
  }
}

}  // namespace spillway
