#include "plantedKernels.h"

#include "../../kernels/cuda/asyncCopy.h"

namespace spillway::cuda {
namespace {

__global__ void reverseSumKernel(Mistake mistake, const float* x, float* y, unsigned rounds) {
  float* shared = sharedAs<float>();
  const unsigned i = threadIdx.x;
  float value = x[mistake == Mistake::OffByOne ? i + 1 : i];
  for (unsigned round = 0; round < rounds; round++) {
    shared[mistake == Mistake::SharedOffByOne ? i + 1 : i] = value;
    if (mistake != Mistake::NoBarrier) __syncthreads();
    value += shared[blockDim.x - 1 - i];
    if (mistake != Mistake::NoSecondBarrier) __syncthreads();
  }
  y[i] = value;
}

__global__ void rotateWarpKernel(Mistake mistake, const float* x, float* y) {
  float* shared = sharedAs<float>();
  const unsigned i = threadIdx.x, first = i / 32 * 32;
  shared[i] = x[i];
  if (mistake != Mistake::NoWarpSync) __syncwarp();
  y[i] = shared[first + (i + 1) % 32];
}

__global__ void tileSumKernel(Mistake mistake, const float* x, float* y) {
  constexpr unsigned kTiles = 4, kStages = 2, kTile = 128;
  float* shared = sharedAs<float>();
  const unsigned i = threadIdx.x;  // 32 threads of 16 bytes
  float sum = 0;
  for (unsigned tile = 0; tile < kTiles + kStages - 1; tile++) {
    if (tile < kTiles) copy16Async(shared + tile % kStages * kTile + 4 * i, x + tile * kTile + 4 * i);
    commitCopies();
    if (tile + 1 < kStages) continue;
    const unsigned used = tile + 1 - kStages;
    if (mistake == Mistake::LateCopyWait)
      waitForCopies<2>();
    else if (mistake != Mistake::NoCopyWait)
      waitForCopies<1>();
    if (mistake != Mistake::CopyWithoutBarrier) __syncthreads();
    // What another thread has copied.
    for (unsigned j = 0; j < 4; j++) sum += shared[used % kStages * kTile + 4 * (31 - i) + j];
    __syncthreads();
  }
  y[i] = sum;
}

__global__ void meetKernel(Mistake mistake, float* y) {
  const unsigned i = threadIdx.x;
  float value = static_cast<float>(i);
  if (mistake == Mistake::DivergentBarriers && i % 2 == 1) {
    __syncthreads();
    value += 1;
  } else if (mistake == Mistake::DivergentBarriers) {
    __syncthreads();
    value -= 1;
  }
  if (mistake == Mistake::BarrierAfterReturn && i == 5) return;
  __syncthreads();
  if (mistake == Mistake::MissingLane && i % 32 == 7) {
    y[i] = value;
    return;
  }
  if (mistake == Mistake::ShuffleOutsideMask) {
    if (i % 32 < 16) value = __shfl_sync(0x0000ffffu, value, 20);
  } else {
    value = __shfl_xor_sync(kAllLanes, value, 1);
  }
  if (mistake == Mistake::PlainIncrement)
    y[0] += 1;
  else
    y[i] = value;
}

}  // namespace

void reverseSum(cudaStream_t stream, Mistake mistake, const float* x, float* y, unsigned rounds) {
  launch("reverseSum", reverseSumKernel, 1, 64, 64 * sizeof(float), stream, mistake, x, y, rounds);
}
void rotateWarp(cudaStream_t stream, Mistake mistake, const float* x, float* y) {
  launch("rotateWarp", rotateWarpKernel, 1, 64, 64 * sizeof(float), stream, mistake, x, y);
}
void tileSum(cudaStream_t stream, Mistake mistake, const float* x, float* y) {
  launch("tileSum", tileSumKernel, 1, 32, 2 * 128 * sizeof(float), stream, mistake, x, y);
}
void meet(cudaStream_t stream, Mistake mistake, float* y) { launch("meet", meetKernel, 1, 64, 0, stream, mistake, y); }

}  // namespace spillway::cuda
