#include "Parking.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace spillway {

#ifdef __linux__

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t), "the kernel looks at the word itself");

void Parking::wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void Parking::wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

#else

void Parking::wait(std::atomic<uint32_t>& word, uint32_t expected) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return word.load() != expected; });
}

void Parking::wake(std::atomic<uint32_t>&, int) {
  std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
}

#endif

}  // namespace spillway
