#include "quantisedGroup.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

// A warp a group; a lane takes elements 2 lane and 2 lane + 1.
__global__ void quantisePagesKernel(CacheLayout layout, uint32_t bits, const uint8_t* const* plain, uint8_t* const* quantised) {
  const QuantisedGroup own = ownGroup(layout, bits);
  if (!own.exists) return;
  const uint16_t* from = reinterpret_cast<const uint16_t*>(plain[blockIdx.x / layout.kvHeads]) + own.plainFirst;
  uint8_t* page = quantised[blockIdx.x / layout.kvHeads];
  const uint32_t lane = threadIdx.x % kWarp;
  float x[2];
  float largest = -INFINITY, negatedSmallest = -INFINITY;
  bool finite = true;
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t element = 2 * lane + i;
    x[i] = element < own.elements ? fromHalf(from[element * own.plainStep]) : 0.0f;
    if (element >= own.elements) continue;
    finite = finite && fabsf(x[i]) < INFINITY;
    largest = fmaxf(largest, x[i]);
    negatedSmallest = fmaxf(negatedSmallest, -x[i]);
  }
  largest = warpMaximum(largest);
  const float smallest = -warpMaximum(negatedSmallest);
  finite = !__any_sync(kAllLanes, !finite);

  const float most = static_cast<float>((1u << bits) - 1);
  const uint16_t scaleBits = finite ? toHalf((largest - smallest) / most) : uint16_t{0x7e00};
  const float scale = fromHalf(scaleBits);
  uint32_t q[2];
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    // The rounded scale may be too small for the largest value.
    const float steps = scale > 0.0f ? rintf((x[i] - smallest) / scale) : 0.0f;
    q[i] = 2 * lane + i < own.elements ? static_cast<uint32_t>(fminf(fmaxf(steps, 0.0f), most)) : 0;
  }
  if (bits == 4) {
    page[own.values + lane] = static_cast<uint8_t>(q[1] << 4 | q[0]);
  } else {
    page[own.values + 2 * lane] = static_cast<uint8_t>(q[0]);
    page[own.values + 2 * lane + 1] = static_cast<uint8_t>(q[1]);
  }
  if (lane == 0) {
    uint16_t* scales = reinterpret_cast<uint16_t*>(page + own.scales);
    scales[0] = scaleBits;
    scales[1] = finite ? toHalf(smallest) : uint16_t{0x7e00};
  }
}

}  // namespace

void quantisePages(cudaStream_t stream, const CacheLayout& layout, uint32_t bits, const uint8_t* const* plain, uint8_t* const* quantised, size_t pages) {
  launch("quantisePages", quantisePagesKernel, groupGrid(layout, pages), kGroupsPerBlock * kWarp, 0, stream, layout, bits, plain, quantised);
}

}  // namespace spillway::cuda
