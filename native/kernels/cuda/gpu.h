// CUDA as the kernels use it: the real one under nvcc, and, where SPILLWAY_CUDA_RUNTIME says so, in host code that only
// calls the runtime; the tests' emulation of it elsewhere. The same source is compiled for both.
//
// Rules for every kernel:
// - A row's result does not depend on its company: every output is reduced in an order that depends on its own inputs
// and the shapes alone.
//   No floating-point atomics. nvcc runs with -fmad=false: operations are fused where the source says fmaf and nowhere
//   else.
// - Shared memory is taken dynamically, by sharedAs(), so that the emulation knows its extent.
// - What cannot be emulated (PTX) is one small function with a portable twin: halfFloat.h, asyncCopy.h, tensorCore.h,
// warpgroup.h.
// - Arguments were validated by the caller. Nothing is allocated, nothing waits: a function puts its kernels into the
// stream and returns.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "../../system/Error.h"

#if defined(__CUDACC__) || defined(SPILLWAY_CUDA_RUNTIME)
#include <cuda_runtime.h>
#else
#include "emulator.h"
#endif

namespace spillway::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr unsigned kWarp = 32;

// Throws Error(Memory) where the device has too little of it, Error(Internal) for anything else that CUDA complains of;
// `what` names the call.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // the error is told once
  throw Error(error == cudaErrorMemoryAllocation ? ErrorCode::Memory : ErrorCode::Internal,
              std::string("CUDA: ") + what + ": " + cudaGetErrorString(error));
}

#if !defined(SPILLWAY_CUDA_RUNTIME) || defined(__CUDACC__)
// The block's dynamic shared memory as a T; its size is what the launch said. Its address is a multiple of 1024, as
// warpgroups' operands need (not under emulation).
template <typename T>
__device__ __forceinline__ T* sharedAs() {
#if defined(__CUDACC__)
  extern __shared__ __align__(1024) unsigned char dynamicSharedMemory[];
  return reinterpret_cast<T*>(dynamicSharedMemory);
#else
  return static_cast<T*>(emulator::sharedMemory());
#endif
}

// kernel<<<grid, block, sharedBytes, stream>>>(arguments...). An empty grid is no work. Throws where the device refuses
// the launch; what goes wrong while the kernel runs is found by whoever waits for the stream.
template <typename... Parameters, typename... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t sharedBytes,
            cudaStream_t stream, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
#if defined(__CUDACC__)
  // Up to 48 KiB need no permission.
  if (sharedBytes > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(sharedBytes)),
          name);
  kernel<<<grid, block, sharedBytes, stream>>>(static_cast<Parameters>(arguments)...);
#else
  emulator::launch(name, grid, block, sharedBytes, stream, [=] { kernel(static_cast<Parameters>(arguments)...); });
#endif
  check(cudaGetLastError(), name);
}
#endif

constexpr unsigned divideUp(size_t a, size_t b) { return static_cast<unsigned>((a + b - 1) / b); }

}  // namespace spillway::cuda
