// Where a thread sleeps until a word changes: a futex on Linux, a condition variable elsewhere.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#ifndef __linux__
#include <condition_variable>
#include <mutex>
#endif

namespace spillway {

class Parking {
 public:
  // Returns when `word` no longer is `expected`, or earlier: the caller looks again.
  void wait(std::atomic<uint32_t>& word, uint32_t expected);
  // To be called after the word was changed. Wakes at most `count` sleepers.
  void wake(std::atomic<uint32_t>& word, int count);

#ifndef __linux__
 private:
  std::mutex mutex_;
  std::condition_variable changed_;
#endif
};

// Tells the processor that this is a spinning loop.
inline void spinPause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until done() or for about 50 us, which is what falling asleep and being woken costs; tells whether done() held.
template <typename Done>
bool spinUntil(Done done) {
  constexpr std::chrono::microseconds kSpin(50);
  constexpr int kLooks = 32;  // between two looks at the clock
  const auto end = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kLooks; i++) {
      if (done()) return true;
      spinPause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

}  // namespace spillway
