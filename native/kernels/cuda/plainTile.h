// Keys and values of halves and floats (attendPart.h says what a Tile is).
#pragma once
#include "attendPart.h"

namespace spillway::cuda {

__device__ __forceinline__ float elementOf(const float* values, size_t index) { return values[index]; }
__device__ __forceinline__ float elementOf(const uint16_t* values, size_t index) { return fromHalf(values[index]); }

// Keys in blocks [headDim][16], values a row each.
template <typename Element>
class PlainTile {
 public:
  __device__ __forceinline__ PlainTile(const CacheLayout& layout, const AttentionToken& token, uint32_t kvHead,
                                       uint32_t tileTokens, uint8_t* memory)
      : pages_(headPages(layout, token.pages, kvHead)),
        tokens_(tileTokens),
        keys_(reinterpret_cast<Element*>(memory)),
        values_(keys_ + tileTokens * layout.headDim) {}
  __host__ __device__ static size_t bytes(uint32_t headDim, uint32_t tileTokens) {
    return tileTokens * (headDim + (headDim + 15) / 16 * 16) * sizeof(Element);
  }
  __host__ __device__ static uint32_t queryFloats(uint32_t headDim) { return headDim; }

  __device__ __forceinline__ void fetchKeys(uint32_t first, uint32_t begin, uint32_t end) const {
    cuda::fetchKeys(pages_, first, tokens_, begin, end, reinterpret_cast<uint8_t*>(keys_));
  }
  __device__ __forceinline__ void fetchValues(uint32_t first, uint32_t begin, uint32_t end) const {
    cuda::fetchValues(pages_, first, tokens_, begin, end, reinterpret_cast<uint8_t*>(values_),
                      pages_.valueStride * sizeof(Element));
  }
  __device__ __forceinline__ void takeQueries(const float* from, uint32_t heads, float* to) const {
    for (uint32_t i = threadIdx.x; i < heads * pages_.headDim; i += kPartThreads) to[i] = from[i];
  }
  // One fused multiply-add an element, in order, as on the CPU.
  template <uint32_t Count>
  __device__ __forceinline__ void score(uint32_t key, const float* queries, uint32_t firstHead, uint32_t step,
                                        uint32_t heads, float* scores) const {
    const uint32_t headDim = pages_.headDim;
    const Element* from = keys_ + (key / kKeyBlock * headDim) * kKeyBlock + key % kKeyBlock;
    for (uint32_t d = 0; d < headDim; d++) {
      const float element = elementOf(from, size_t{d} * kKeyBlock);
#pragma unroll
      for (uint32_t i = 0; i < Count; i++) {
        const uint32_t head = firstHead + i * step;
        if (head < heads) scores[i] = fmaf(queries[head * headDim + d], element, scores[i]);
      }
    }
  }
  __device__ __forceinline__ float value(uint32_t key, uint32_t d) const {
    return elementOf(values_, key * pages_.valueStride + d);
  }

 private:
  HeadPages pages_;
  uint32_t tokens_;
  Element *keys_, *values_;
};

// Values of single tokens, from where they lie.
template <typename Element>
class PlainValues {
 public:
  __device__ __forceinline__ PlainValues(const CacheLayout& layout, const AttentionToken& token, uint32_t kvHead)
      : pages_(headPages(layout, token.pages, kvHead)) {}
  __device__ __forceinline__ float value(uint32_t position, uint32_t d) const {
    const Element* values = reinterpret_cast<const Element*>(pages_.page(position) + pages_.valueOffset);
    return elementOf(values, size_t{position % pages_.pageTokens} * pages_.valueStride + d);
  }

 private:
  HeadPages pages_;
};

}  // namespace spillway::cuda
