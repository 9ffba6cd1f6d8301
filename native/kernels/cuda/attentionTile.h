// What both attention kernels share: fetching a tile of keys or values into shared memory, and what a score becomes.
#pragma once
#include "Attention.h"
#include "asyncCopy.h"
#include "halfFloat.h"
#include "softCap.h"

namespace spillway::cuda {

constexpr float kLowest =
    -3.402823466e+38f;  // where a maximum starts: differences to it are never NaN, unlike those to -infinity
constexpr float kHidden = -INFINITY;

// A KV head's part of the pages, as bytes.
struct HeadPages {
  const uint8_t* const* pages;
  uint32_t pageTokens, headDim, valueStride, elementBytes;
  size_t headOffset, valueOffset;  // from a page's beginning to the head's keys, and to its values

  __device__ __forceinline__ const uint8_t* page(uint32_t position) const { return pages[position / pageTokens]; }
};

__device__ __forceinline__ HeadPages headPages(const CacheLayout& layout, const uint8_t* const* pages,
                                               uint32_t kvHead) {
  const uint32_t elementBytes = layout.type == CacheType::F16 ? 2 : 4, valueStride = (layout.headDim + 15) / 16 * 16;
  const size_t keyBytes = size_t{layout.pageTokens} * layout.headDim * elementBytes;
  const size_t headBytes = (keyBytes + size_t{layout.pageTokens} * valueStride * elementBytes + 63) / 64 * 64;
  return {pages,
          layout.pageTokens,
          layout.headDim,
          valueStride,
          elementBytes,
          kvHead * headBytes,
          kvHead * headBytes + keyBytes};
}

// Keys of `tokens` positions (a multiple of 16) from `first` on, as blocks [headDim][16]. Blocks before `begin` or from
// `end` on are left out.
__device__ __forceinline__ void fetchKeys(const HeadPages& head, uint32_t first, uint32_t tokens, uint32_t begin,
                                          uint32_t end, uint8_t* to) {
  const uint32_t blockBytes = head.headDim * kKeyBlock * head.elementBytes;
  for (uint32_t block = 0; block < tokens / kKeyBlock; block++) {
    const uint32_t position = first + block * kKeyBlock;
    if (position + kKeyBlock <= begin || position >= end) continue;
    const uint8_t* from =
        head.page(position) + head.headOffset + size_t{position % head.pageTokens / kKeyBlock} * blockBytes;
    for (uint32_t at = 16 * threadIdx.x; at < blockBytes; at += 16 * blockDim.x)
      copy16Async(to + block * blockBytes + at, from + at);
  }
}

// Values likewise, `rowBytes` apart. Rows before `begin` or from `end` on become zeros: they meet weights of zero, and
// a page's memory may be NaN.
__device__ __forceinline__ void fetchValues(const HeadPages& head, uint32_t first, uint32_t tokens, uint32_t begin,
                                            uint32_t end, uint8_t* to, uint32_t rowBytes) {
  const uint32_t usedBytes = head.valueStride * head.elementBytes, pieces = usedBytes / 16;
  for (uint32_t i = threadIdx.x; i < tokens * pieces; i += blockDim.x) {
    const uint32_t token = i / pieces, at = i % pieces * 16, position = first + token;
    const bool seen = position >= begin && position < end;
    const uint8_t* from = head.page(seen ? position : begin) + head.valueOffset +
                          size_t{(seen ? position : begin) % head.pageTokens} * usedBytes;
    copy16Async(to + token * rowBytes + at, from + at, seen ? 16 : 0);
  }
}

__device__ __forceinline__ float roundToBfloat16(float x) {
  const uint32_t bits = __float_as_uint(x);
  return __uint_as_float((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u);
}

// The score of a key at `key` for a query at `position`, from their product.
__device__ __forceinline__ float finishScore(const AttentionShape& shape, uint32_t head, float product, uint32_t key,
                                             uint32_t position) {
  if (shape.alibiSlopes == nullptr) {
    const float score = product * shape.scale;
    return shape.softCap == 0 ? score : softCapped(score, shape.softCap);
  }
  const float slope = shape.alibiSlopes[head];
  if (shape.alibiRoundToBfloat16) {
    const float bias = roundToBfloat16(roundToBfloat16(slope) * roundToBfloat16(static_cast<float>(key)));
    return (product + bias) * shape.scale;
  }
  return fmaf(slope, static_cast<float>(key) - static_cast<float>(position), product * shape.scale);
}

// The first key that a query at this position sees.
__device__ __forceinline__ uint32_t firstVisible(const AttentionShape& shape, uint32_t position) {
  return shape.window != 0 && position >= shape.window ? position - shape.window + 1 : 0;
}

}  // namespace spillway::cuda
