// The part of attention that is compiled for each instruction set: everything that touches keys and values. Attention.h is the way in.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "CacheLayout.h"

namespace spillway {

// A few consecutive tokens of one row, and the query heads that share one KV head. Each (token, head) is one query.
struct AttentionBlock {
  CacheLayout layout;
  const uint8_t* const* pages;  // of the row, from position 0
  uint32_t kvHead;
  uint32_t groupHeads;  // query heads that share the KV head

  const float* queries;  // the first token's first head of the group; heads follow each other, headDim apart
  size_t queryStride;    // from token to token
  float* outputs;        // likewise
  size_t outputStride;
  uint32_t firstPosition;
  uint32_t tokens;

  float scale;
  uint32_t window;      // 0: all keys up to the query's own
  const float* slopes;  // [groupHeads] or null
  bool roundToBfloat16;

  float* workspace;  // attentionWorkspaceFloats() of them, 64-byte aligned
};

struct AttentionKernels {
  // Rounded to the cache's type. Finite values beyond the range of a half become the largest half, so that no key turns into infinity.
  void (*storeToken)(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values);
  void (*attendBlock)(const AttentionBlock& block);
};

// A block holds as many tokens as give this many queries, and at least one token.
constexpr uint32_t kQueriesPerBlock = 32;

static inline uint32_t attentionBlockTokens(uint32_t groupHeads) { return groupHeads >= kQueriesPerBlock ? 1 : kQueriesPerBlock / groupHeads; }

static inline size_t attentionWorkspaceFloats(const CacheLayout& layout, uint32_t groupHeads) {
  const size_t queries = (static_cast<size_t>(attentionBlockTokens(groupHeads)) * groupHeads + 15) / 16 * 16;
  const size_t stride = cacheValueStride(layout);
  // Queries, scores of one page, the page's partial and the merged values; then six numbers a query.
  return queries * (stride + layout.pageTokens + 2 * stride + 6);
}

}  // namespace spillway
