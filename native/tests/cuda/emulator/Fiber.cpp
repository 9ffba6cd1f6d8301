#include "Fiber.h"

#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SPILLWAY_EMULATOR_ASAN 1
#endif

#if defined(__x86_64__)
// Saves what a called function must keep, leaves the stack pointer at `from`, and goes on where `to` left off.
extern "C" void spillway_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl spillway_emulator_switch
.hidden spillway_emulator_switch
.type spillway_emulator_switch, @function
spillway_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size spillway_emulator_switch, .-spillway_emulator_switch
.section .note.GNU-stack,"",@progbits
.text
)");
#endif

namespace spillway::emulator {
namespace {

Fiber* running = nullptr;
void (*starting)() = nullptr;
#if defined(__x86_64__)
void* hostStackPointer;
#else
ucontext_t hostContext;
#endif
#if defined(SPILLWAY_EMULATOR_ASAN)
const void* hostStack;
size_t hostStackBytes;
void* hostSanitizerStack;
#endif

// The first frame on a fresh stack.
void enter() {
#if defined(SPILLWAY_EMULATOR_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &hostStack, &hostStackBytes);
#endif
  starting();
  __builtin_trap();
}

}  // namespace

Fiber::Fiber() : stack_(new unsigned char[kStackBytes]) {}

void Fiber::reset(void (*entry)()) {
  starting = entry;
  sanitizerStack_ = nullptr;
#if defined(SPILLWAY_EMULATOR_ASAN)
  __asan_unpoison_memory_region(stack_.get(), kStackBytes);
#endif
#if defined(__x86_64__)
  // As if enter() had been called: at its first instruction the stack pointer is 8 above a multiple of 16.
  uintptr_t* top =
      reinterpret_cast<uintptr_t*>(reinterpret_cast<uintptr_t>(stack_.get() + kStackBytes - 64) & ~uintptr_t{15});
  top[0] = reinterpret_cast<uintptr_t>(&enter);
  top[1] = 0;
  for (int i = 1; i <= 6; i++) top[-i] = 0;
  stackPointer_ = top - 6;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.get();
  context_.uc_stack.ss_size = kStackBytes;
  context_.uc_link = nullptr;
  makecontext(&context_, enter, 0);
#endif
}

void Fiber::resume() {
  running = this;
#if defined(SPILLWAY_EMULATOR_ASAN)
  __sanitizer_start_switch_fiber(&hostSanitizerStack, stack_.get(), kStackBytes);
#endif
#if defined(__x86_64__)
  spillway_emulator_switch(&hostStackPointer, stackPointer_);
#else
  swapcontext(&hostContext, &context_);
#endif
#if defined(SPILLWAY_EMULATOR_ASAN)
  __sanitizer_finish_switch_fiber(hostSanitizerStack, nullptr, nullptr);
#endif
  running = nullptr;
}

void Fiber::suspend() {
  Fiber* self = running;
#if defined(SPILLWAY_EMULATOR_ASAN)
  __sanitizer_start_switch_fiber(&self->sanitizerStack_, hostStack, hostStackBytes);
#endif
#if defined(__x86_64__)
  spillway_emulator_switch(&self->stackPointer_, hostStackPointer);
#else
  swapcontext(&self->context_, &hostContext);
#endif
#if defined(SPILLWAY_EMULATOR_ASAN)
  __sanitizer_finish_switch_fiber(self->sanitizerStack_, &hostStack, &hostStackBytes);
#endif
}

}  // namespace spillway::emulator
