#include "ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "Parking.h"
#include "Thread.h"

namespace spillway {

// One loop at a time. A thread owns an index from the moment it takes it off `open` until it takes it off `unfinished`, and the loop
// cannot end in between: so whoever owns an index may read the loop's fields, and whoever owns none touches nothing but the atomics.
struct ThreadPool::State {
  Body body = nullptr;
  void* context = nullptr;
  size_t count = 0;

  alignas(64) std::atomic<size_t> open{0};        // indices that nobody has taken yet
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

  bool takeIndex(size_t* index) {
    size_t left = open.load();
    while (left != 0) {
      if (open.compare_exchange_weak(left, left - 1)) {
        *index = count - left;
        return true;
      }
    }
    return false;
  }

  void finish(size_t indices) {
    if (unfinished.fetch_sub(indices) != indices) return;
    ended.fetch_add(1);
    if (callerSleeps.load()) callerParking.wake(ended, 1);
  }

  void runIndex(size_t index, unsigned worker) {
    try {
      body(context, index, worker);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
      const size_t dropped = open.exchange(0);  // nobody needs the rest
      if (dropped != 0) finish(dropped);        // this index is unfinished still, so the loop does not end here
    }
    finish(1);
  }

  void help(unsigned worker) {
    for (;;) {
      const uint32_t seen = loops.load();
      size_t index;
      while (takeIndex(&index)) runIndex(index, worker);
      if (stopping.load()) return;
      if (spinUntil([&] { return loops.load(std::memory_order_relaxed) != seen || stopping.load(std::memory_order_relaxed); })) continue;
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
  }
};

ThreadPool::ThreadPool(unsigned threads) : state_(std::make_unique<State>()) { state_->threads = threads; }

ThreadPool::~ThreadPool() { state_->stop(); }

unsigned ThreadPool::threads() const { return state_->threads; }

void ThreadPool::parallelFor(size_t count, Body body, void* context) {
  State& state = *state_;
  if (count <= 1 || state.threads <= 1) {
    for (size_t index = 0; index < count; index++) body(context, index, 0);
    return;
  }
  state.start();
  state.body = body;
  state.context = context;
  state.count = count;
  state.failed.store(false);
  state.unfinished.store(count);
  state.open.store(count);
  state.wakeHelpers(count - 1);

  size_t index;
  while (state.takeIndex(&index)) state.runIndex(index, 0);
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
