// Attention over paged keys and values on the device. Pages lie as they do on the CPU (kernels/cpu/CacheLayout.h): a
// page moves between tiers as it is, and what either side has computed of a query merges. All pointers are device
// memory.
//
// A token's result depends on itself, the keys and values that it sees, and on which of the two functions computes it,
// not on its company, bitwise: tiles of keys begin at multiples of their size, and partial results merge in order of
// position. A NaN or an infinity among the values that a token does not see may reach it within prefillAttention();
// never from another row.
#pragma once
#include "../cpu/Attention.h"
#include "gpu.h"

namespace spillway::cuda {

// One token that attends; its own keys and values are in the pages already.
struct AttentionToken {
  const uint8_t* const*
      pages;  // page i holds positions i * pageTokens and on; pages wholly outside every window are not touched
  uint32_t position;
  uint32_t keys = 0;  // where the later ones are elsewhere: how many positions from 0 on are in pages here; 0: all up
                      // to its own. Nothing to prefillAttention()
};

// Consecutive tokens of one row, positions one by one.
struct AttentionRange {
  uint32_t firstToken;
  uint32_t tokens;
};

// A partial result of one query (token and head): sum of exp(score - maximum) over some keys, and those weights times
// the values. sum 0: no key.
struct AttentionPartial {
  float maximum, sum;
};

// Where partial results are kept: parts of one query side by side.
struct AttentionPartials {
  AttentionPartial* weights;  // [queries, parts]
  float* values;              // [queries, parts, headDim]
  uint32_t parts;
  // What was computed elsewhere, merged last: [queries] and [queries, headDim], or null.
  const AttentionPartial* otherWeights = nullptr;
  const float* otherValues = nullptr;
  const float* sinks = nullptr;  // AttentionShape's: their weights join the sums as parts are merged
};

// Tokens that see the same first keys, in the same pages, from position 0 on.
struct AttentionBundle {
  uint32_t firstMember, members;  // mostTogether() at most
  uint32_t keys;                  // in common: a multiple of kCommonKeys
};
constexpr uint32_t kCommonKeys = 64;

// Which of the tokens at hand, 32768 at most, are looked at together while they attend to what they have in common: so
// their keys are loaded once for many queries. No bit depends on it.
struct CommonKeys {
  const AttentionBundle* bundles = nullptr;
  const uint32_t* members = nullptr;  // of all bundles: indices of tokens
  const uint32_t* keys =
      nullptr;         // [tokens]: those that it has in common with others of its bundle, 0 without one. Null: of all
  uint32_t count = 0;  // bundles, at most 65535
  uint32_t parts = 0;  // that the most keys in common reach
};

// Keys that one part covers.
constexpr uint32_t kPartTokens = 256;
inline uint32_t attentionParts(uint32_t lastPosition) { return lastPosition / kPartTokens + 1; }

// Writes tokens' keys and values, [kvHeads * headDim] each, to their places in the pages, the same bytes as
// cacheStore(), whatever the layout's type: numbers beyond the range of a half become the largest half. keys, values:
// [tokens, stride].
void storeTokens(cudaStream_t stream, const CacheLayout& layout, const AttentionToken* tokens, size_t count,
                 const float* keys, const float* values, size_t stride);

// Tokens of a bundle, at most; under 2 where a layout is better off without.
uint32_t mostTogether(const CacheLayout& layout, const AttentionShape& shape);

// Each token over its keys here: partial results, not merged. As decodeAttention() otherwise.
void attendParts(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                 const AttentionToken* tokens, size_t count, const float* queries, size_t queryStride,
                 const AttentionPartials& partials, const CommonKeys& common = {});

// Decoding: each token by itself, over its keys in parts of kPartTokens that run in parallel, then merged. In float,
// any layout, codes of 8 and 4 bits as they lie in the pages. queries: [count, queryStride], outputs: [count,
// outputStride], heads * headDim used of each; outputs may be the queries. shape.alibiSlopes is device memory.
// partials: for count * heads queries and attentionParts(the largest position) parts.
void decodeAttention(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                     const AttentionToken* tokens, size_t count, const float* queries, size_t queryStride,
                     float* outputs, size_t outputStride, const AttentionPartials& partials);

// Whether prefillAttention() takes this layout: halves, heads of 16 to 256 elements in multiples of 16. Others go
// through decodeAttention(); quantised pages become halves before (QuantisedPages.h).
bool hasPrefillAttention(const CacheLayout& layout);
// Prompts: 64 queries at a time against tiles of keys, on tensor cores: queries and weights are rounded to halves.
// tokens as above, ranges: [rangeCount], none longer than mostTokens; outputs must not overlap the queries.
void prefillAttention(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                      const AttentionToken* tokens, const AttentionRange* ranges, size_t rangeCount,
                      uint32_t mostTokens, const float* queries, size_t queryStride, float* outputs,
                      size_t outputStride);

// Merges each query's parts, in order, by their log-sum-exp. queries = tokens * heads; outputs: [tokens, outputStride].
void combineSplits(cudaStream_t stream, const AttentionPartials& partials, size_t tokens, uint32_t heads,
                   uint32_t headDim, float* outputs, size_t outputStride);

}  // namespace spillway::cuda
