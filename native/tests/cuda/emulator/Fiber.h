// A stack of its own, and switching to and from it.
#pragma once
#include <stddef.h>

#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace spillway::emulator {

class Fiber {
 public:
  static constexpr size_t kStackBytes = 256 * 1024;

  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next resume() starts `entry` from its beginning on this stack, whatever stood there. `entry` must not return:
  // its last act is a suspend().
  void reset(void (*entry)());
  void resume();          // from the host's stack
  static void suspend();  // from the running fiber's, back to resume()

 private:
  std::unique_ptr<unsigned char[]> stack_;
#if defined(__x86_64__)
  void* stackPointer_ = nullptr;
#else
  ucontext_t context_;
#endif
  void* sanitizerStack_ = nullptr;
};

}  // namespace spillway::emulator
