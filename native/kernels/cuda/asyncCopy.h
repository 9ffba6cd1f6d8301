// Copies from global to shared memory that the thread does not wait for (cp.async, architecture 80 and later). Each
// thread waits for its own groups of copies; others see the data after a barrier that follows.
#pragma once
#include "gpu.h"

namespace spillway::cuda {

// 16 bytes to `to`: the first `bytes` (0 to 16) from `from`, the rest zeros. Both addresses are multiples of 16.
__device__ __forceinline__ void copy16Async(void* to, const void* from, unsigned bytes = 16) {
#if defined(__CUDA_ARCH__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(bytes) : "memory");
#elif !defined(__CUDACC__)
  emulator::queueCopy(to, from, bytes, 16 - bytes);
#endif
}

// What was asked for since the last one makes a group.
__device__ __forceinline__ void commitCopies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#elif !defined(__CUDACC__)
  emulator::commitCopies();
#endif
}

// Until at most `Left` of this thread's groups are under way.
template <int Left>
__device__ __forceinline__ void waitForCopies() {
#if defined(__CUDA_ARCH__)
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
#elif !defined(__CUDACC__)
  emulator::waitForCopies(Left);
#endif
}

}  // namespace spillway::cuda
