// Keys and values of halves and floats (attendPart.h says what a Tile is).
#pragma once
#include "attendPart.h"

namespace spillway::cuda {

__device__ __forceinline__ float elementOf(const float* values, size_t index) { return values[index]; }
__device__ __forceinline__ float elementOf(const uint16_t* values, size_t index) { return fromHalf(values[index]); }

// Keys in blocks [headDim][16], values a row each. From one block to the next lies a row more, so that the keys which a
// warp reads at once fall on different banks.
template <typename Element>
class PlainTile {
 public:
  __device__ __forceinline__ PlainTile(const CacheLayout& layout, const AttentionToken& token, uint32_t kvHead,
                                       uint32_t tileTokens, uint8_t* memory)
      : pages_(headPages(layout, token.pages, kvHead)),
        tokens_(tileTokens),
        keys_(reinterpret_cast<Element*>(memory)),
        values_(keys_ + tileTokens * (layout.headDim + 1)) {}
  __host__ __device__ static size_t bytes(uint32_t headDim, uint32_t tileTokens) {
    return tileTokens * (headDim + 1 + (headDim + 15) / 16 * 16) * sizeof(Element);
  }
  __host__ __device__ static uint32_t queryFloats(uint32_t headDim) { return (headDim + 3) / 4 * 4; }
  __device__ __forceinline__ uint32_t headDim() const { return pages_.headDim; }

  __device__ __forceinline__ void fetchKeys(uint32_t first, uint32_t begin, uint32_t end) const {
    cuda::fetchKeys(pages_, blocks(first, begin, end), reinterpret_cast<uint8_t*>(keys_),
                    (pages_.headDim + 1) * kKeyBlock * sizeof(Element), [](uint32_t piece) { return piece; });
  }
  __device__ __forceinline__ void fetchValues(uint32_t first, uint32_t begin, uint32_t end) const {
    cuda::fetchValues(pages_, blocks(first, begin, end), first, tokens_, begin, end,
                      reinterpret_cast<uint8_t*>(values_), pages_.valueStride * sizeof(Element));
  }
  __device__ __forceinline__ void takeQueries(const float* from, uint32_t heads, float* to) const {
    const uint32_t headDim = pages_.headDim, stride = queryFloats(headDim);
    for (uint32_t i = threadIdx.x; i < heads * headDim; i += kPartThreads)
      to[i / headDim * stride + i % headDim] = from[i];
  }
  // One fused multiply-add an element, in order, as on the CPU.
  template <uint32_t Count>
  __device__ __forceinline__ void score(uint32_t key, const float* queries, uint32_t firstHead, uint32_t step,
                                        uint32_t heads, float* scores) const {
    const uint32_t headDim = pages_.headDim, stride = queryFloats(headDim), whole = headDim / 4 * 4;
    const Element* from = keys_ + key / kKeyBlock * (headDim + 1) * kKeyBlock + key % kKeyBlock;
    const auto add = [&](uint32_t d, auto count) {
      constexpr uint32_t kElements = decltype(count)::value;
      float elements[kElements];
#pragma unroll
      for (uint32_t e = 0; e < kElements; e++) elements[e] = elementOf(from, size_t{d + e} * kKeyBlock);
#pragma unroll
      for (uint32_t i = 0; i < Count; i++) {
        const uint32_t head = firstHead + i * step;
        // Of those that are not: the last one once more, which nobody asks for.
        float query[kElements];
        loadFloats<kElements>(queries + (head < heads ? head : heads - 1) * stride + d, query);
#pragma unroll
        for (uint32_t e = 0; e < kElements; e++) scores[i] = fmaf(query[e], elements[e], scores[i]);
      }
    };
#pragma unroll 4
    for (uint32_t d = 0; d < whole; d += 4) add(d, std::integral_constant<uint32_t, 4>());
    for (uint32_t d = whole; d < headDim; d++) add(d, std::integral_constant<uint32_t, 1>());
  }
  __device__ __forceinline__ float value(uint32_t key, uint32_t d) const {
    return elementOf(values_, key * pages_.valueStride + d);
  }

 private:
  __device__ __forceinline__ TileBlocks blocks(uint32_t first, uint32_t begin, uint32_t end) const {
    return tileBlocks(pages_.pages, pages_.pageTokens, first, tokens_, begin, end);
  }

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
