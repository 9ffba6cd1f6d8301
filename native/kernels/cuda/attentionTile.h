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

// Layout: of the members of CacheLayout those that are read here.
template <typename Layout>
__device__ __forceinline__ HeadPages headPages(const Layout& layout, const uint8_t* const* pages, uint32_t kvHead) {
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

constexpr uint32_t kMostTileTokens = 64;

// Where a tile's blocks of 16 tokens lie. Their pages' addresses are loaded all at once: one after another, each would
// be waited for.
struct TileBlocks {
  static constexpr uint32_t kMost = kMostTileTokens / kKeyBlock;
  const uint8_t* page[kMost];  // null of a block that has no key to be fetched
  uint32_t inPage[kMost];      // which of its page's blocks it is
};

// Of `tokens` positions from `first` on, multiples of 16; keys before `begin` or from `end` on are not fetched.
__device__ __forceinline__ TileBlocks tileBlocks(const uint8_t* const* pages, uint32_t pageTokens, uint32_t first,
                                                 uint32_t tokens, uint32_t begin, uint32_t end) {
  TileBlocks blocks;
  uint32_t page = first / pageTokens, inPage = first % pageTokens / kKeyBlock;
#pragma unroll
  for (uint32_t block = 0; block < TileBlocks::kMost; block++) {
    const uint32_t position = first + block * kKeyBlock;
    const bool fetched = block * kKeyBlock < tokens && position < end && position + kKeyBlock > begin;
    blocks.page[block] = fetched ? pages[page] : nullptr;
    blocks.inPage[block] = inPage;
    if (++inPage * kKeyBlock == pageTokens) {
      inPage = 0;
      page++;
    }
  }
  return blocks;
}

// Keys of a tile, as blocks [headDim][16], `strideBytes` apart. placeOf(piece): where 16 bytes of a block come to lie.
template <typename PlaceOf>
__device__ __forceinline__ void fetchKeys(const HeadPages& head, const TileBlocks& blocks, uint8_t* to,
                                          uint32_t strideBytes, PlaceOf placeOf) {
  const uint32_t blockBytes = head.headDim * kKeyBlock * head.elementBytes;
#pragma unroll
  for (uint32_t block = 0; block < TileBlocks::kMost; block++) {
    if (blocks.page[block] == nullptr) continue;
    const uint8_t* from = blocks.page[block] + head.headOffset + size_t{blocks.inPage[block]} * blockBytes;
    for (uint32_t piece = threadIdx.x; 16 * piece < blockBytes; piece += blockDim.x)
      copy16Async(to + block * strideBytes + 16 * placeOf(piece), from + 16 * piece);
  }
}

// Values likewise, `rowBytes` apart. Rows before `begin` or from `end` on become zeros: they meet weights of zero, and
// a page's memory may be NaN.
__device__ __forceinline__ void fetchValues(const HeadPages& head, const TileBlocks& blocks, uint32_t first,
                                            uint32_t tokens, uint32_t begin, uint32_t end, uint8_t* to,
                                            uint32_t rowBytes) {
  const uint32_t usedBytes = head.valueStride * head.elementBytes, pieces = usedBytes / 16;
  const uint32_t stepTokens = blockDim.x / pieces, stepPieces = blockDim.x % pieces;
#pragma unroll
  for (uint32_t block = 0; block < TileBlocks::kMost; block++) {
    if (block * kKeyBlock >= tokens) continue;
    const uint8_t* from = blocks.page[block] + head.valueOffset + size_t{blocks.inPage[block]} * kKeyBlock * usedBytes;
    for (uint32_t token = threadIdx.x / pieces, piece = threadIdx.x % pieces; token < kKeyBlock;) {
      const uint32_t inTile = block * kKeyBlock + token, position = first + inTile;
      uint8_t* at = to + inTile * rowBytes + 16 * piece;
      if (position >= begin && position < end)
        copy16Async(at, from + token * usedBytes + 16 * piece);
      else
        *reinterpret_cast<uint4*>(at) = uint4{0, 0, 0, 0};
      token += stepTokens;
      piece += stepPieces;
      if (piece >= pieces) {
        piece -= pieces;
        token++;
      }
    }
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
