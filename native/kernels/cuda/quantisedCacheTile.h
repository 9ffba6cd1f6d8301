// Keys and values as codes of 8 and 4 bits (attendPart.h says what a Tile is); numbers of them are made in registers.
// With a key's codes c, scale s and minimum m in a group of elements
//   q . k = sum over groups of s (q . c) + m sum(q)
// Queries of 4-bit keys are transformed as these were.
#pragma once
#include "QuantisedPages.h"
#include "attendPart.h"
#include "hadamard.h"

namespace spillway::cuda {

// An element of a token in a block of 16.
template <int Bits>
__device__ __forceinline__ float quantisedValue(const QuantisedHead& head, const uint8_t* block, uint32_t token,
                                                uint32_t d) {
  constexpr uint32_t kLine = kCacheLine;
  const uint32_t line = token / 4 * head.valueLines + d * Bits / 128;
  const uint32_t code =
      block[line * kLine + d % 16 * 4 + token % 4] >> (Bits == 4 ? d % 32 / 16 * 4 : 0) & ((1u << Bits) - 1);
  const uint16_t* scales =
      reinterpret_cast<const uint16_t*>(block + (4 * head.valueLines + d / kCacheGroup) * kLine) + token;
  return fmaf(fromHalf(scales[0]), static_cast<float>(code), fromHalf(scales[kKeyBlock]));
}

// Blocks of 16 tokens, each as in its page. In shared memory an odd number of lines lies from one to the next, so that
// two that are read at once fall on different banks.
template <int Bits>
class QuantisedCacheTile {
 public:
  static constexpr uint32_t kWordElements = 32 / Bits, kMask = (1u << Bits) - 1, kLine = kCacheLine;

  __device__ __forceinline__ QuantisedCacheTile(const CacheLayout& layout, const AttentionToken& token, uint32_t kvHead,
                                                uint32_t tileTokens, uint8_t* memory)
      : head_(quantisedHead(layout, token.pages, kvHead)),
        tokens_(tileTokens),
        keyStride_(oddLines(head_.keyBlockBytes / kLine)),
        valueStride_(head_.valueBlockBytes),
        keys_(memory),
        values_(memory + tileTokens / kKeyBlock * keyStride_) {}
  __host__ __device__ static size_t bytes(uint32_t headDim, uint32_t tileTokens) {
    const uint32_t groups = (headDim + kCacheGroup - 1) / kCacheGroup,
                   keyLines = (headDim + kWordElements - 1) / kWordElements;
    const uint32_t valueLines = (headDim + 4 * kWordElements - 1) / (4 * kWordElements);
    return tileTokens / kKeyBlock * (oddLines(keyLines + groups) + size_t{4 * valueLines + groups} * kLine);
  }
  // Whole words of elements, and each group's sum.
  __host__ __device__ static uint32_t queryFloats(uint32_t headDim) {
    return ((headDim + 7) / 8 * 8 + (headDim + kCacheGroup - 1) / kCacheGroup + 3) / 4 * 4;
  }
  __device__ __forceinline__ uint32_t headDim() const { return head_.headDim; }

  __device__ __forceinline__ void fetchKeys(uint32_t first, uint32_t begin, uint32_t end) const {
    fetch(first, begin, end, head_.headOffset, head_.keyBlockBytes, keys_, keyStride_);
  }
  __device__ __forceinline__ void fetchValues(uint32_t first, uint32_t begin, uint32_t end) const {
    fetch(first, begin, end, head_.valuesOffset, head_.valueBlockBytes, values_, valueStride_);
  }

  // A warp a group.
  __device__ __forceinline__ void takeQueries(const float* from, uint32_t heads, float* to) const {
    const uint32_t headDim = head_.headDim, padded = (headDim + 7) / 8 * 8, lane = threadIdx.x % kWarp;
    for (uint32_t index = threadIdx.x / kWarp; index < heads * head_.groups; index += kPartWarps) {
      const uint32_t head = index / head_.groups, g = index % head_.groups, first = g * kCacheGroup;
      const uint32_t count = headDim - first < kCacheGroup ? headDim - first : kCacheGroup;
      float x[2];
#pragma unroll
      for (uint32_t i = 0; i < 2; i++)
        x[i] = lane + 32 * i < count ? from[size_t{head} * headDim + first + lane + 32 * i] : 0.0f;
      if (Bits == 4) {
        const uint32_t bits = hadamardBits(count);
        hadamard(x, bits);
#pragma unroll
        for (int i = 0; i < 2; i++) x[i] *= hadamardQueryFactor(bits);
      }
      float* query = to + head * queryFloats(headDim);
#pragma unroll
      for (uint32_t i = 0; i < 2; i++)
        if (first + lane + 32 * i < padded) query[first + lane + 32 * i] = x[i];
      const float sum = warpSum(x[0] + x[1]);
      if (lane == 0) query[padded + g] = sum;
    }
  }

  template <uint32_t Count>
  __device__ __forceinline__ void score(uint32_t key, const float* queries, uint32_t firstHead, uint32_t step,
                                        uint32_t heads, float* scores) const {
    const uint32_t headDim = head_.headDim, padded = (headDim + 7) / 8 * 8, stride = queryFloats(headDim),
                   token = key % kKeyBlock;
    const uint8_t* block = keys_ + key / kKeyBlock * keyStride_;
    const uint32_t* words = reinterpret_cast<const uint32_t*>(block) + token;
    for (uint32_t g = 0; g < head_.groups; g++) {
      constexpr uint32_t kGroupWords = kCacheGroup / kWordElements;
      const uint32_t end = (g + 1) * kGroupWords < head_.keyLines ? (g + 1) * kGroupWords : head_.keyLines;
      float sums[Count] = {};
      for (uint32_t w = g * kGroupWords; w < end; w++) {
        const uint32_t word = words[w * (kLine / 4)];
        // Four elements in the low parts of the bytes, four in the high ones.
#pragma unroll
        for (uint32_t four = 0; four < kWordElements; four += 4) {
          float codes[4];
#pragma unroll
          for (uint32_t e = 0; e < 4; e++) codes[e] = static_cast<float>(word >> (e * 8 + four) & kMask);
#pragma unroll
          for (uint32_t i = 0; i < Count; i++) {
            const uint32_t head = firstHead + i * step;
            // Of those that are not: the last one once more, which nobody asks for.
            float query[4];
            loadFloats<4>(queries + (head < heads ? head : heads - 1) * stride + w * kWordElements + four, query);
#pragma unroll
            for (uint32_t e = 0; e < 4; e++) sums[i] = fmaf(query[e], codes[e], sums[i]);
          }
        }
      }
      const uint16_t* scales = reinterpret_cast<const uint16_t*>(block + (head_.keyLines + g) * kLine) + token;
      const float scale = fromHalf(scales[0]), minimum = fromHalf(scales[kKeyBlock]);
#pragma unroll
      for (uint32_t i = 0; i < Count; i++) {
        const uint32_t head = firstHead + i * step;
        if (head < heads)
          scores[i] = fmaf(scale, sums[i], fmaf(minimum, queries[head * stride + padded + g], scores[i]));
      }
    }
  }

  __device__ __forceinline__ float value(uint32_t key, uint32_t d) const {
    return quantisedValue<Bits>(head_, values_ + key / kKeyBlock * valueStride_, key % kKeyBlock, d);
  }

 private:
  __host__ __device__ static uint32_t oddLines(uint32_t lines) { return (lines | 1u) * kLine; }

  __device__ __forceinline__ void fetch(uint32_t first, uint32_t begin, uint32_t end, size_t offset,
                                        uint32_t blockBytes, uint8_t* to, uint32_t stride) const {
    const TileBlocks blocks = tileBlocks(head_.pages, head_.pageTokens, first, tokens_, begin, end);
#pragma unroll
    for (uint32_t block = 0; block < TileBlocks::kMost; block++) {
      const uint8_t* from = blocks.page[block] + offset + size_t{blocks.inPage[block]} * blockBytes;
      const uint32_t bytes = blocks.page[block] == nullptr ? 0 : blockBytes;
      for (uint32_t at = 16 * threadIdx.x; at < bytes; at += 16 * kPartThreads)
        copy16Async(to + block * stride + at, from + at);
    }
  }

  QuantisedHead head_;
  uint32_t tokens_, keyStride_, valueStride_;
  uint8_t *keys_, *values_;
};

// Values of single tokens, from where they lie.
template <int Bits>
class QuantisedValues {
 public:
  __device__ __forceinline__ QuantisedValues(const CacheLayout& layout, const AttentionToken& token, uint32_t kvHead)
      : head_(quantisedHead(layout, token.pages, kvHead)) {}
  __device__ __forceinline__ float value(uint32_t position, uint32_t d) const {
    return quantisedValue<Bits>(head_, head_.valueBlock(position), position % kKeyBlock, d);
  }

 private:
  QuantisedHead head_;
};

}  // namespace spillway::cuda
