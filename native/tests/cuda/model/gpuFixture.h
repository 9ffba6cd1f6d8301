// Tiny models on a device: the emulated one here, a real one where the tests are built for it.
#pragma once
#include "../../model/storeFixture.h"
#include "../fixture.h"

namespace spillway::fixture {

constexpr uint64_t kAll = uint64_t(1) << 40;  // more than any block has

// Everything of these on the device, with pages from 0 on.
inline RuntimeOptions onGpu(RuntimeOptions options, uint64_t memoryBytes = uint64_t(8) << 20) {
  GpuOptions gpu;
  gpu.memoryBytes = memoryBytes;
  gpu.pinnedBytes = uint64_t(1) << 20;
  gpu.pages = options.pages;
  gpu.residentLayerBytes = kAll;
  options.pages = 0;
  options.gpu = gpu;
  return options;
}

// What is taken of the device's memory, by its own count; a real one counts in large pieces, and other processes may
// use it, too.
inline uint64_t takenBytes() {
  size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return total - free;
}
#if defined(SPILLWAY_CUDA_RUNTIME)
constexpr uint64_t kCountedBytes = uint64_t(4) << 20;
#else
constexpr uint64_t kCountedBytes = 0;
#endif

// The first `deviceBytes` of each layer on the device, the next `hostBytes` in host memory, the rest in the store.
inline RuntimeOptions split(const TinyStore& store, uint64_t deviceBytes, uint64_t hostBytes) {
  RuntimeOptions options = onGpu(store.options(hostBytes));
  options.gpu->residentLayerBytes = deviceBytes;
  options.gpu->buffers = 2;
  return options;
}

}  // namespace spillway::fixture
