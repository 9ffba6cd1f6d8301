// Small kernels, right ones and each with one mistake: what the emulator must find.
#pragma once
#include "../../kernels/cuda/gpu.h"

namespace spillway::cuda {

enum class Mistake {
  None,
  NoBarrier,        // between writing shared memory and reading what others wrote
  NoSecondBarrier,  // before shared memory is written again
  NoWarpSync,
  OffByOne,        // reads one element beyond the input
  SharedOffByOne,  // writes one element beyond shared memory
  NoCopyWait,
  LateCopyWait,  // waits for all copies but the one that is used
  CopyWithoutBarrier,
  DivergentBarriers,
  BarrierAfterReturn,
  ShuffleOutsideMask,
  MissingLane,
  PlainIncrement,  // y[0] += 1 by all threads
};

// y[i] = x[n - 1 - i] + x[i] rounds times, through shared memory; 64 threads, n = 64. Mistakes: None, NoBarrier,
// NoSecondBarrier, OffByOne, SharedOffByOne.
void reverseSum(cudaStream_t stream, Mistake mistake, const float* x, float* y, unsigned rounds);
// Each warp of 32 lanes rotates its 32 values by one through shared memory. Mistakes: None, NoWarpSync.
void rotateWarp(cudaStream_t stream, Mistake mistake, const float* x, float* y);
// y = sum of x over 4 tiles of 128, tiles copied asynchronously, two ahead. Mistakes: None, NoCopyWait, LateCopyWait,
// CopyWithoutBarrier.
void tileSum(cudaStream_t stream, Mistake mistake, const float* x, float* y);
// Barriers and warp operations; y: 64 floats. Mistakes: None, DivergentBarriers, BarrierAfterReturn,
// ShuffleOutsideMask, MissingLane, PlainIncrement.
void meet(cudaStream_t stream, Mistake mistake, float* y);

}  // namespace spillway::cuda
