// The part of attention that is compiled for each instruction set: everything that touches keys and values. Attention.h
// is the way in.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "CacheLayout.h"
#include "topK.h"

namespace spillway {

// So many blocks of 16 keys or values ahead memory is asked for, at most (attentionParts.h).
constexpr uint32_t kMostBlocksAhead = 8;

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

  float capScale;       // 0, or what products are multiplied by before the tanh that caps them
  float scale;          // of products, or of their tanh
  uint32_t window;      // 0: all keys up to the query's own
  const float* slopes;  // [groupHeads] or null
  bool roundToBfloat16;
  const float* sinks;      // [groupHeads] or null
  const float* distances;  // [groupHeads, distanceStride] or null: AttentionShape
  size_t distanceStride;
  const float* biases;  // [groupHeads, row's tokens, biasStride] of the first token, or null: AttentionRow
  size_t biasStride, biasHeadStride;
  uint32_t keys;  // 0, or queries see keys after them, up to this one: AttentionRow
  bool exact;     // products as good as in float32, whatever the cache

  float keep;            // top-k sparse attention where below 1: the share of the keys whose values a query takes
  uint32_t denseBefore;  // queries at positions under this one are a prompt's: they take all of them nevertheless

  uint32_t firstKey;  // keys before this position are not seen
  float*
      partials;  // null, or for each query maximum and sum, heads side by side; outputs are not divided by the sum then
  size_t partialStride;  // from token to token

  // Where a query is sparse and keys before firstKey are another device's: their scores, scaled and biased, by position
  // from 0, heads otherStride apart; or null.
  const float* otherScores;
  size_t otherStride, otherTokenStride;
  AttentionCut* cuts;  // null, or heads side by side, tokens partialStride / 2 apart: which keys the query keeps
  uint64_t* chosen;    // null, or of the KV head, a bit for each position: AttentionRow

  // The first blocks of 16 keys that are read after this block, as far as is known, or null: they are asked for.
  const uint8_t* next[kMostBlocksAhead];

  float* workspace;    // attentionWorkspaceFloats() of them, 64-byte aligned
  float* sparseSpace;  // attentionSparseFloats() of them likewise; null where nothing is sparse
};

struct AttentionKernels {
  // Rounded to the cache's type. With halves, also those of scales and minima, numbers beyond their range become the
  // largest half, so that no key turns into infinity.
  void (*storeToken)(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values);
  // One block, or blocks of several rows whose first keys are the same: these hold kQueriesPerBlock queries in all at
  // most (of prompts kPromptQueries, of kMostBlockRows rows), are all dense or all sparse, all of prompts or none, see
  // all keys before them, keep no partials, and have one workspace, the first one's.
  void (*attendBlocks)(const AttentionBlock* blocks, uint32_t count);
  // outputs[i][16 p + lane] = rows[i] . panels[p][][lane], of panels [panelCount, depth, 16].
  void (*dotPanels)(const float* rows, size_t count, size_t rowStride, const float* panels, size_t panelCount,
                    size_t depth, float* outputs, size_t outputStride);
};

// A block holds as many tokens as give this many queries, and at least one token.
constexpr uint32_t kQueriesPerBlock = 32;
// Where prompts' keys and values are rounded first (promptAttention.cpp), for all queries of a block: with 32 of them
// that takes half as long as multiplying, with 128 an eighth. With 256 attention of 1,000 tokens takes 3% less (Zen 4).
constexpr uint32_t kPromptQueries = 256;
// Rows that a block's tokens belong to, at most.
constexpr uint32_t kMostBlockRows = 32;
static_assert(kQueriesPerBlock <= kMostBlockRows, "each token of a block may be another row's");
// Positions that a query takes at once, from a multiple of it on: so many that what is done once a part, for its
// maximum and its sum, costs little.
constexpr uint32_t kPartTokens = 256;
// Queries that are worked on together, sharing the loads of keys and values, at most.
constexpr uint32_t kMostTileQueries = 8;

static inline uint32_t attentionBlockTokens(uint32_t queries, uint32_t groupHeads) {
  return groupHeads >= queries ? 1 : queries / groupHeads;
}

// What a query brings along where the cache is quantised, in floats: its elements as three signed bytes each, and two
// numbers a group; and while it is in a tile: a part's weights likewise, each group of elements its own. With 16-bit
// floats a prompt's have words and one number.
static inline size_t attentionQueryBytes(const CacheLayout& layout) {
  return (static_cast<size_t>(layout.headDim) + 15) / 16 * 16;
}
static inline size_t attentionQuantisedFloats(const CacheLayout& layout) {
  if (layout.type == CacheType::F16) return attentionQueryBytes(layout) / 2 + 1;
  return isQuantised(layout.type) ? 3 * attentionQueryBytes(layout) / 4 + 2 * cacheGroups(layout) : 0;
}
static inline size_t attentionWeightFloats(const CacheLayout& layout) {
  if (layout.type == CacheType::F16) return kPartTokens / 2 + 1;
  return isQuantised(layout.type) ? cacheGroups(layout) * (3 * kPartTokens / 4 + 2) : 0;
}
// Of a part: keys and values as words, and a number each.
static inline size_t attentionPartFloats(const CacheLayout& layout) {
  return layout.type == CacheType::F16 ? kPartTokens * (cacheValueStride(layout) + 2) : 0;
}

static inline size_t attentionWorkspaceFloats(const CacheLayout& layout, uint32_t groupHeads) {
  const uint32_t most = layout.type == CacheType::F16 ? kPromptQueries : kQueriesPerBlock;
  const size_t queries = (static_cast<size_t>(attentionBlockTokens(most, groupHeads)) * groupHeads + 15) / 16 * 16;
  const size_t stride = cacheValueStride(layout);
  // What prompts round of a part. Queries, the merged values, maximum and sum; then of a tile scores and values of one
  // part.
  return attentionPartFloats(layout) + queries * (2 * stride + 2 + attentionQuantisedFloats(layout)) +
         kMostTileQueries * (kPartTokens + stride + attentionWeightFloats(layout));
}

// For rows of up to `context` tokens: the scores of all keys for a tile of queries, from a multiple of 16 on, then
// positions and weights of those that one query keeps.
static inline size_t attentionSparseStride(size_t context) { return (context + 15) / 16 * 16; }
static inline size_t attentionSparseFloats(size_t context) {
  return attentionSparseStride(context) * (kMostTileQueries + 2);
}

// Whether keys and values are rounded for queries of prompts.
static inline bool roundsPrompts(const CacheLayout& layout, bool exact) {
  return layout.type == CacheType::F16 && !layout.latent && !exact;
}

// To which integers, at most: those of queries and keys let no sum of their products overflow.
static inline float mostRoundedKey(size_t headDim) {
  const double elements = static_cast<double>(headDim + headDim % 2);
  return static_cast<float>(static_cast<int32_t>(__builtin_sqrt(2147483647.0 / elements)));
}
constexpr float kMostRoundedValue = 511;

// Whether a query at that position keeps only some of its keys.
static inline bool isSparse(const AttentionBlock& block, uint32_t position) {
  return block.keep < 1.0f && position >= block.denseBefore;
}

}  // namespace spillway
