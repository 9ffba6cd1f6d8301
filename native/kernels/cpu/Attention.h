// Attention over paged keys and values.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../../system/Scratch.h"
#include "CacheLayout.h"
#include "Kernels.h"

namespace spillway {

// Bytes of a page; a multiple of 64. Throws Error(InvalidArgument) for a layout that no kernel handles: pageTokens not
// a multiple of 16 up to 4096, headDim outside 1 to 512, no KV head.
size_t cachePageBytes(const CacheLayout& layout);

// Writes one token's keys and values, [kvHeads * headDim] each, at `index` within a page: what is written depends on
// them alone, bitwise, and touches no byte of another token, so that several threads may store different tokens of a
// page. With Q8 and Q4 an element is off by at most half a step of its group, which is a 255th or a 15th of the group's
// range; finite numbers beyond +-65504 are clamped, with F16, too; NaN and infinity make their group NaN. For keys with
// Q4 that holds on average of a group's squares, and of the range after the transform (CacheLayout.h); they are clamped
// at +-8188.
void cacheStore(const Kernels& kernels, const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys,
                const float* values);

struct AttentionShape {
  uint32_t heads;  // query heads; a multiple of kvHeads
  float scale;
  uint32_t window;            // query at position p sees keys p - window + 1 to p; 0: all up to p
  const float* alibiSlopes;   // [heads] or null: score = q . k * scale + slope * (key position - query position)
  bool alibiRoundToBfloat16;  // Falcon: slope, key position and their product rounded to bfloat16; score = (q . k +
                              // bias) * scale
  // Below 1: top-k sparse attention (FlexGen, section 4.2). A query takes only the values of its ceil(keep * keys it
  // sees) keys of highest score, one at least: its own (newest) one always, of equal ones the later; softmax is over
  // those. Above 0.
  float keep = 1.0f;
  // Above 0 (Gemma 2), and without slopes: score = softCap * tanh(q . k * scale / softCap).
  float softCap = 0;
  // Attention sinks (gpt-oss), [heads], or null: a score beside those of the keys, which counts in the softmax's sum
  // and has no value. Not where partials are kept: whoever merges these adds it.
  const float* sinks = nullptr;
  // Biases by distance, [heads, distanceStride], or null: score = (q . k + distances[distanceStride / 2 + key position
  // - query position]) * scale. Not beside slopes or caps. The table reaches as far as rows do, and 16 numbers farther.
  const float* distances = nullptr;
  size_t distanceStride = 0;
};

// A range of consecutive tokens of one row. Their own keys and values are in the pages already.
struct AttentionRow {
  const float* queries;  // [tokens, queryStride], heads * headDim each
  float* outputs;        // [tokens, outputStride]; may be the queries
  uint32_t firstPosition;
  uint32_t tokens;  // 0: nothing happens
  const uint8_t* const*
      pages;  // page i holds positions i * pageTokens and on; pages wholly outside every window are not touched
  uint32_t denseBefore = 0;  // queries at positions under this one are the prompt's: dense whatever `keep` says
  // Where another device attends to the keys before this position: they count as not seen, and their pages are not
  // touched. At most firstPosition.
  uint32_t firstKey = 0;
  // Null, or [tokens, heads, 2]: of each query the maximum of its scores and the sum of exp(score - maximum). Outputs
  // are not divided by the sum then, so that they can be merged with what the other device has found.
  float* partials = nullptr;
  // Of queries that are sparse, where firstKey is not 0: the scores that the other device has found, scaled and biased,
  // [tokens, heads, otherStride] by position from 0 on: these keys compete with those here. And [tokens, heads]: which
  // keys each query keeps, to tell that device. Without them the keys here compete alone.
  const float* otherScores = nullptr;
  size_t otherStride = 0;
  AttentionCut* cuts = nullptr;
  // Of queries that are sparse all: null, or [kvHeads, chosenWords()], a bit for each position. The keys that they keep
  // are added to these, and nothing else happens: values are not read, outputs not written.
  uint64_t* chosen = nullptr;
  // Of an encoder's row, how many keys it has: queries see those after them, too, with a window as many as before
  // them. 0: none of these. Rows begin at position 0 then, and are a prompt's as a whole.
  uint32_t keys = 0;
  // What is added to scores before they are scaled, or null: [heads, tokens, biasStride], by the key's position, with
  // room up to a multiple of 16. Of a row of `keys`. Not beside slopes, caps or biases by distance.
  const float* biases = nullptr;
  size_t biasStride = 0;
};

// Words of the `chosen` of a range of tokens, for each KV head.
inline size_t chosenWords(uint32_t firstPosition, uint32_t tokens) {
  return (size_t{firstPosition} + tokens + 63) / 64;
}

// Softmax online, one partial for each 256 positions (kPartTokens), merged in order: a query's result depends on itself
// and the keys and values that it sees alone, bitwise. Slots that a query does not see may hold anything. Parallel over
// rows, KV heads and blocks of queries; query heads that share a KV head share its loads, and so do rows that follow
// one another and have their first pages in common. With quantised caches queries and weights are rounded to 16 bits,
// relative to the largest of a group of elements or of 256 positions, which is far less than what the cache has lost
// already; with Precision::Float32 to 23 bits, as good as float32. With 16-bit floats, for queries of prompts
// (denseBefore), queries, keys, values and weights are rounded to 16-bit integers (promptAttention.cpp says to how
// many); not with Precision::Float32. Takes attentionScratchBytes() from scratch at most, and gives it back.
void attend(const Compute& compute, const CacheLayout& layout, const AttentionShape& shape, const AttentionRow* rows,
            size_t rowCount, size_t queryStride, size_t outputStride, Scratch& scratch);

// What attend() takes for this many rows on this many threads, however long the rows are: 35 KiB a thread for
// 64-element heads, with 16-bit floats 245 KiB, and 24 bytes a row. Where attention is sparse, also the scores of rows
// of up to `sparseTokens` tokens: 40 bytes a token and thread.
size_t attentionScratchBytes(const CacheLayout& layout, uint32_t heads, size_t rowCount, unsigned threads,
                             size_t sparseTokens = 0);

}  // namespace spillway
