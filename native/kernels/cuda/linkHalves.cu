#include "linkHalves.h"

#include <algorithm>

#include "attentionTile.h"
#include "halfFloat.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;
// As many as cover the link's latency, and no more: others have the rest of the device.
constexpr unsigned kMostBlocks = 64;

__device__ __forceinline__ uint16_t crossing(float value) { return toHalf(clampFinite(value, kLargestHalf)); }

__global__ void sendHalvesKernel(const float* from, size_t n, uint16_t* to) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    to[i] = crossing(from[i]);
}

// Eight a thread.
__global__ void sendEightsKernel(const float4* from, size_t n, uint4* to) {
  const auto pair = [](float low, float high) -> uint32_t { return uint32_t{crossing(high)} << 16 | crossing(low); };
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x) {
    const float4 a = from[2 * i], b = from[2 * i + 1];
    to[i] = uint4{pair(a.x, a.y), pair(a.z, a.w), pair(b.x, b.y), pair(b.z, b.w)};
  }
}

// Of fewer than 2^32 elements. Two a thread where heads have an even number of them: such a pair has one query.
template <unsigned Each>
__global__ void receiveOutputsKernel(const uint16_t* from, const AttentionPartial* partials, size_t n, uint32_t headDim,
                                     float* to) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n / Each; i += size_t{gridDim.x} * blockDim.x) {
    const float unit = kOutputUnit * partials[static_cast<uint32_t>(i * Each) / headDim].sum;
    if constexpr (Each == 2) {
      const uint32_t word = reinterpret_cast<const uint32_t*>(from)[i];
      to[2 * i] = fromHalf(static_cast<uint16_t>(word)) * unit;
      to[2 * i + 1] = fromHalf(static_cast<uint16_t>(word >> 16)) * unit;
    } else {
      to[i] = fromHalf(from[i]) * unit;
    }
  }
}

unsigned blocksFor(size_t n) { return std::min(divideUp(n, kThreads), kMostBlocks); }

}  // namespace

void sendHalves(cudaStream_t stream, const float* from, size_t n, uint16_t* pinned) {
  const size_t places = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(pinned);
  if (places % sizeof(uint4) == 0 && n % 8 == 0)
    launch("sendHalves", sendEightsKernel, blocksFor(n / 8), kThreads, 0, stream, reinterpret_cast<const float4*>(from),
           n / 8, reinterpret_cast<uint4*>(pinned));
  else
    launch("sendHalves", sendHalvesKernel, blocksFor(n), kThreads, 0, stream, from, n, pinned);
}

void receiveOutputs(cudaStream_t stream, const uint16_t* pinned, const AttentionPartial* partials, size_t queries,
                    uint32_t headDim, float* to) {
  const size_t n = queries * headDim;
  if (headDim % 2 == 0 && reinterpret_cast<uintptr_t>(pinned) % sizeof(uint32_t) == 0)
    launch("receiveOutputs", receiveOutputsKernel<2>, blocksFor(n / 2), kThreads, 0, stream, pinned, partials, n,
           headDim, to);
  else
    launch("receiveOutputs", receiveOutputsKernel<1>, blocksFor(n), kThreads, 0, stream, pinned, partials, n, headDim,
           to);
}

}  // namespace spillway::cuda
