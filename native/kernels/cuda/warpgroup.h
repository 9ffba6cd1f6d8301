// The tensor cores as architecture 9.0 drives them (wgmma): products that a warpgroup, four warps of which the first
// has a multiple of four for its number, starts and goes on beside; their second operand is in shared memory. Nobody
// writes what a product reads before the wait that covers it.
#pragma once
#include "tensorCore.h"

// Compiled for exactly that architecture (sm_90a), or emulated.
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SPILLWAY_WARPGROUPS
#endif

namespace spillway::cuda {

constexpr unsigned kWarpgroup = 4 * kWarp;
constexpr unsigned kWarpgroupOutputs = 64, kWarpgroupRows = 128;  // of a product

#if !defined(__CUDACC__)
struct WarpgroupLane {
  float* d;
  const uint32_t* a;
  const uint8_t* rows;
  unsigned step;
};

// a as in completeMma.
inline void completeWarpgroup(void* const lanes[32]) {
  float a[16][16];
  Eight b[16], product[16];
  const auto half = [](uint32_t word, int i) { return halfToFloat(static_cast<uint16_t>(word >> (16 * i))); };
  for (int lane = 0; lane < 32; lane++) {
    const WarpgroupLane& mine = *static_cast<const WarpgroupLane*>(lanes[lane]);
    for (int i = 0; i < 2; i++)
      for (int r = 0; r < 4; r++) a[lane / 4 + 8 * (r % 2)][lane % 4 * 2 + i + 8 * (r / 2)] = half(mine.a[r], i);
  }
  const WarpgroupLane& any = *static_cast<const WarpgroupLane*>(lanes[0]);
  for (unsigned first = 0; first < kWarpgroupRows; first += 8) {
    for (unsigned i = 0; i < 8; i++)
      for (unsigned piece = 0; piece < 2; piece++) {
        const uint8_t* halves = any.rows + rowPlace(first + i, 2 * any.step + piece);
        for (unsigned k = 0; k < 8; k++)
          b[8 * piece + k][i] = halfToFloat(reinterpret_cast<const uint16_t*>(halves)[k]);
      }
    multiplyMatrices(a, b, product);
    for (int lane = 0; lane < 32; lane++) {
      float* d = static_cast<const WarpgroupLane*>(lanes[lane])->d + first / 8 * 4;
      for (int i = 0; i < 4; i++) d[i] += product[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
    }
  }
}
#endif

// Before the first product, and after registers that it uses were written.
__device__ __forceinline__ void beginProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

// The products that were started since the last one make a group, if only an empty one.
__device__ __forceinline__ void commitProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#elif !defined(__CUDACC__)
  emulator::commitProducts();
#endif
}

// Until at most `Left` groups of products are under way.
template <int Left>
__device__ __forceinline__ void waitForProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Left) : "memory");
#elif !defined(__CUDACC__)
  emulator::waitForProducts(Left);
#endif
}

// What this thread wrote to shared memory, or had copied there, is seen by products that start after a barrier.
__device__ __forceinline__ void showToProducts() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// What a warpgroup's threads may have of the registers: all of it says so at the same place, some less than the kernel
// was launched with, so that others may have more.
template <unsigned Registers>
__device__ __forceinline__ void keepRegisters() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}
template <unsigned Registers>
__device__ __forceinline__ void takeRegisters() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
#endif
}

#define SPILLWAY_EIGHT(i)                                                                                     \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

// d[64 x 128] = a[64 x 16] b[16 x 128], plus d if `adds`, by a whole warpgroup; halves, summed in float. a: each warp's
// 16 rows, as in mma16x8x16. d[4 j + i]: rows as in mma16x8x16, columns 8 j and on. b: 16 halves of each of 128 rows of
// 32, those of step 0 or 1, in shared memory as rowPlace() says.
__device__ __forceinline__ void startProduct(float (&d)[kWarpgroupRows / 2], const uint32_t (&a)[4],
                                             const uint8_t* rows, unsigned step, bool adds) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  // Eight rows lie 512 bytes apart from the next.
  const uint64_t b = uint64_t{2} << 62 | uint64_t{512 / 16} << 32 | uint64_t{1} << 16 |
                     (static_cast<uint32_t>(__cvta_generic_to_shared(rows)) + 32 * step) >> 4;
  asm volatile(
      "{\n"
      ".reg .pred adds;\n"
      "setp.ne.b32 adds, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, adds, 1, 1, 0;\n"
      "}"
      : SPILLWAY_EIGHT(0), SPILLWAY_EIGHT(8), SPILLWAY_EIGHT(16), SPILLWAY_EIGHT(24), SPILLWAY_EIGHT(32),
        SPILLWAY_EIGHT(40), SPILLWAY_EIGHT(48), SPILLWAY_EIGHT(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(adds)));
#elif !defined(__CUDACC__)
  // Everything is read when the product is waited for: as late as it may be.
  emulator::queueProduct([&d, &a, rows, step, adds] {
    if (!adds)
      for (float& each : d) each = 0;
    WarpgroupLane mine{d, a, rows, step};
    emulator::collective(kAllLanes, emulator::WarpOperation::Matrix, &mine, completeWarpgroup);
  });
#endif
}

#undef SPILLWAY_EIGHT

}  // namespace spillway::cuda
