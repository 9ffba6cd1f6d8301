// Pages of the KV cache in 8 or 4 bits on the device: the CPU's own (kernels/cpu/CacheLayout.h), byte for byte, so that
// they move between tiers as they are. Tokens are rounded when they are stored. Decoding attends to the codes as they
// lie in memory; prompts, whose every key meets many queries, to halves that pages are turned back into for the time.
#pragma once
#include "../cpu/CacheLayout.h"
#include "gpu.h"

namespace spillway::cuda {

// The layout of the halves that quantised pages turn into.
inline CacheLayout plainLayout(const CacheLayout& layout) {
  return {CacheType::F16, layout.kvHeads, layout.headDim, layout.pageTokens};
}

// Where one KV head's codes and scales are; CacheLayout.h says what stands there. Lines are of 64 bytes.
struct QuantisedHead {
  const uint8_t* const* pages;
  uint32_t pageTokens, headDim, groups, keyLines, valueLines;  // valueLines: of one quad of tokens
  uint32_t keyBlockBytes, valueBlockBytes;
  size_t headOffset, valuesOffset;  // from a page's beginning to the head's keys, and to its values

  __device__ __forceinline__ const uint8_t* keyBlock(uint32_t position) const {
    return pages[position / pageTokens] + headOffset + size_t{position % pageTokens / kKeyBlock} * keyBlockBytes;
  }
  __device__ __forceinline__ const uint8_t* valueBlock(uint32_t position) const {
    return pages[position / pageTokens] + valuesOffset + size_t{position % pageTokens / kKeyBlock} * valueBlockBytes;
  }
};

__device__ __forceinline__ QuantisedHead quantisedHead(const CacheLayout& layout, const uint8_t* const* pages,
                                                       uint32_t kvHead) {
  constexpr uint32_t kLine = kCacheLine;
  QuantisedHead head;
  const uint32_t blocks = layout.pageTokens / kKeyBlock, perByte = layout.type == CacheType::Q4 ? 2 : 1;
  head.pages = pages;
  head.pageTokens = layout.pageTokens;
  head.headDim = layout.headDim;
  head.groups = (layout.headDim + kCacheGroup - 1) / kCacheGroup;
  head.keyLines = (layout.headDim + 4 * perByte - 1) / (4 * perByte);
  head.valueLines = (layout.headDim + 16 * perByte - 1) / (16 * perByte);
  head.keyBlockBytes = (head.keyLines + head.groups) * kLine;
  head.valueBlockBytes = (4 * head.valueLines + head.groups) * kLine;
  head.headOffset = size_t{kvHead} * blocks * (head.keyBlockBytes + head.valueBlockBytes);
  head.valuesOffset = head.headOffset + size_t{blocks} * head.keyBlockBytes;
  return head;
}

// Addresses of pages are in device memory; quantised page i becomes plain page i, all tokens of it, or nothing where
// the former is null. layout: the quantised pages'.
void dequantisePages(cudaStream_t stream, const CacheLayout& layout, const uint8_t* const* quantised,
                     uint8_t* const* plain, size_t pages);

}  // namespace spillway::cuda
