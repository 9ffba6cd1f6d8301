// Where a warp finds its group in a plain and in a quantised page: group g of a token's keys (side 0) or values (side 1) of one KV head.
#pragma once
#include "QuantisedPages.h"
#include "halfFloat.h"

namespace spillway::cuda {

constexpr uint32_t kGroupsPerBlock = 8;  // a warp each

struct QuantisedGroup {
  bool exists;
  uint32_t elements;                 // 64, or what is left of the head
  size_t plainFirst, plainStep;      // in halves from the page's beginning
  size_t values, scales;             // in bytes from the page's beginning
};

// blockIdx.x: page and KV head; blockIdx.y: eight (side, token, group).
__device__ __forceinline__ QuantisedGroup ownGroup(const CacheLayout& layout, uint32_t bits) {
  const uint32_t groups = quantisedGroups(layout), index = blockIdx.y * kGroupsPerBlock + threadIdx.x / kWarp, kvHead = blockIdx.x % layout.kvHeads;
  const uint32_t side = index / (layout.pageTokens * groups), token = index / groups % layout.pageTokens, group = index % groups, first = group * kCacheGroup;
  QuantisedGroup own;
  own.exists = side < 2;
  own.elements = layout.headDim - first < kCacheGroup ? layout.headDim - first : kCacheGroup;
  const size_t valueStride = (layout.headDim + 15) / 16 * 16, keyElements = size_t{layout.pageTokens} * layout.headDim;
  const size_t headElements = (keyElements + layout.pageTokens * valueStride + 31) / 32 * 32;
  own.plainFirst = kvHead * headElements;
  if (side == 0)
    own.plainFirst += (size_t{token / kKeyBlock} * layout.headDim + first) * kKeyBlock + token % kKeyBlock;
  else
    own.plainFirst += keyElements + token * valueStride + first;
  own.plainStep = side == 0 ? kKeyBlock : 1;
  const size_t sideBegin = (2 * kvHead + side) * quantisedSideBytes(layout, bits), place = size_t{token} * groups + group;
  own.values = sideBegin + place * kCacheGroup * bits / 8;
  own.scales = sideBegin + size_t{layout.pageTokens} * groups * kCacheGroup * bits / 8 + place * 4;
  return own;
}

inline dim3 groupGrid(const CacheLayout& layout, size_t pages) {
  return dim3(static_cast<unsigned>(pages * layout.kvHeads), divideUp(size_t{2} * layout.pageTokens * quantisedGroups(layout), kGroupsPerBlock));
}

}  // namespace spillway::cuda
