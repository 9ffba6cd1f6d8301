#include "QuantisedPages.h"
#include "halfFloat.h"

namespace spillway::cuda {
namespace {

constexpr uint32_t kThreads = 128;

// The scale's rounding may carry the largest half beyond the range of halves. A NaN stays one.
__device__ __forceinline__ uint16_t toKept(float x) {
  return toHalf(x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x);
}

// In place, one round for each bit of the index: the transform undone, but for a factor.
__device__ __forceinline__ void hadamard64(float (&x)[kCacheGroup], uint32_t bits) {
#pragma unroll
  for (uint32_t bit = 0; bit < 6; bit++) {
    if (bit >= bits) continue;
#pragma unroll
    for (uint32_t i = 0; i < kCacheGroup; i++) {
      if ((i >> bit & 1) != 0) continue;
      const float low = x[i], high = x[i | 1u << bit];
      x[i] = low + high;
      x[i | 1u << bit] = low - high;
    }
  }
}

// A token's group of keys: sixteen threads side by side take the tokens of a block, as they lie in either page.
template <int Bits>
__device__ __forceinline__ void dequantiseKeys(const uint8_t* block, uint32_t token, uint32_t keyLines, uint32_t g,
                                               uint32_t count, uint16_t* to) {
  constexpr uint32_t kElements = 32 / Bits;  // of a word
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(block + (keyLines + g) * kCacheLine) + token;
  const float scale = fromHalf(scales[0]), minimum = fromHalf(scales[kKeyBlock]);
  const uint32_t* words = reinterpret_cast<const uint32_t*>(block + g * kCacheGroup / kElements * kCacheLine) + token;
  float x[kCacheGroup];
#pragma unroll
  for (uint32_t w = 0; w < kCacheGroup / kElements; w++) {
    const uint32_t word = w * kElements < count ? words[w * (kCacheLine / 4)] : 0;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
#pragma unroll
      for (uint32_t high = 0; high < 8 / Bits; high++)
        x[w * kElements + 4 * high + i] =
            fmaf(scale, static_cast<float>(word >> (8 * i + 4 * high) & ((1u << Bits) - 1)), minimum);
  }
  float factor = 1;
  if (Bits == 4) {
    const uint32_t bits = static_cast<uint32_t>(__ffs(static_cast<int>(count))) - 1;
    hadamard64(x, bits);
    factor = 1.0f / static_cast<float>(1u << (bits + 1) / 2);
  }
#pragma unroll
  for (uint32_t d = 0; d < kCacheGroup; d++)
    if (d < count) to[d * kKeyBlock] = toKept(x[d] * factor);
}

// blockIdx.x: page and KV head; blockIdx.y: keys or values.
template <int Bits>
__global__ __launch_bounds__(kThreads) void dequantisePagesKernel(CacheLayout layout, const uint8_t* const* quantised,
                                                                  uint8_t* const* plain) {
  const uint32_t page = blockIdx.x / layout.kvHeads, kvHead = blockIdx.x % layout.kvHeads, headDim = layout.headDim;
  if (quantised[page] == nullptr) return;
  const QuantisedHead from = quantisedHead(layout, quantised + page, kvHead);
  const uint32_t valueStride = (headDim + 15) / 16 * 16, blocks = layout.pageTokens / kKeyBlock;
  const size_t keyElements = size_t{layout.pageTokens} * headDim,
               headElements = (keyElements + size_t{layout.pageTokens} * valueStride + 31) / 32 * 32;
  uint16_t* keys = reinterpret_cast<uint16_t*>(plain[page]) + kvHead * headElements;
  if (blockIdx.y == 0) {
    for (uint32_t i = threadIdx.x; i < blocks * from.groups * kKeyBlock; i += kThreads) {
      const uint32_t token = i % kKeyBlock, g = i / kKeyBlock % from.groups, block = i / kKeyBlock / from.groups,
                     first = g * kCacheGroup;
      const uint32_t count = headDim - first < kCacheGroup ? headDim - first : kCacheGroup;
      dequantiseKeys<Bits>(from.keyBlock(block * kKeyBlock), token, from.keyLines, g, count,
                           keys + (size_t{block} * headDim + first) * kKeyBlock + token);
    }
    return;
  }
  // An element of a quad of tokens a thread. Elements that fill up a value's row are written as zeros, as storing does.
  for (uint32_t i = threadIdx.x; i < blocks * 4 * valueStride; i += kThreads) {
    const uint32_t d = i % valueStride, quad = i / valueStride % 4, block = i / valueStride / 4;
    const uint8_t* at = from.valueBlock(block * kKeyBlock);
    uint16_t* to = keys + keyElements + (size_t{block} * kKeyBlock + 4 * quad) * valueStride + d;
    const uint32_t line = quad * from.valueLines + d * Bits / 128, shift = Bits == 4 ? d % 32 / 16 * 4 : 0;
    const uint32_t word = d < headDim ? reinterpret_cast<const uint32_t*>(at + line * kCacheLine)[d % 16] >> shift : 0;
    const uint16_t* scales =
        reinterpret_cast<const uint16_t*>(at + (4 * from.valueLines + d / kCacheGroup) * kCacheLine) + 4 * quad;
#pragma unroll
    for (uint32_t t = 0; t < 4; t++) {
      const float x = d < headDim ? fmaf(fromHalf(scales[t]), static_cast<float>(word >> 8 * t & ((1u << Bits) - 1)),
                                         fromHalf(scales[kKeyBlock + t]))
                                  : 0.0f;
      to[t * valueStride] = toKept(x);
    }
  }
}

}  // namespace

void dequantisePages(cudaStream_t stream, const CacheLayout& layout, const uint8_t* const* quantised,
                     uint8_t* const* plain, size_t pages) {
  const auto kernel = layout.type == CacheType::Q8 ? dequantisePagesKernel<8> : dequantisePagesKernel<4>;
  launch("dequantisePages", kernel, dim3(static_cast<unsigned>(pages * layout.kvHeads), 2), kThreads, 0, stream, layout,
         quantised, plain);
}

}  // namespace spillway::cuda
