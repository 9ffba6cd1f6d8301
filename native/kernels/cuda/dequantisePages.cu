#include "quantisedGroup.h"

namespace spillway::cuda {
namespace {

// A warp a group; a lane takes elements 2 lane and 2 lane + 1. Elements that fill up a value's row are written as zeros, as storing does.
__global__ void dequantisePagesKernel(CacheLayout layout, uint32_t bits, const uint8_t* const* quantised, uint8_t* const* plain) {
  const QuantisedGroup own = ownGroup(layout, bits);
  if (!own.exists) return;
  const uint8_t* page = quantised[blockIdx.x / layout.kvHeads];
  uint16_t* to = reinterpret_cast<uint16_t*>(plain[blockIdx.x / layout.kvHeads]) + own.plainFirst;
  const uint32_t lane = threadIdx.x % kWarp;
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(page + own.scales);
  const float scale = fromHalf(scales[0]), minimum = fromHalf(scales[1]);
  const uint32_t padded = own.plainStep == 1 ? (own.elements + 15) / 16 * 16 : own.elements;
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t element = 2 * lane + i;
    const uint32_t q = bits == 4 ? page[own.values + lane] >> (4 * i) & 15u : page[own.values + element];
    // The scale's rounding may carry the largest half beyond the range of halves. A NaN stays one.
    const float x = fmaf(scale, static_cast<float>(q), minimum), kept = x > 65504.0f ? 65504.0f : x;
    if (element < padded) to[element * own.plainStep] = element < own.elements ? toHalf(kept) : uint16_t{0};
  }
}

}  // namespace

void dequantisePages(cudaStream_t stream, const CacheLayout& layout, uint32_t bits, const uint8_t* const* quantised, uint8_t* const* plain, size_t pages) {
  launch("dequantisePages", dequantisePagesKernel, groupGrid(layout, pages), kGroupsPerBlock * kWarp, 0, stream, layout, bits, quantised, plain);
}

}  // namespace spillway::cuda
