// Attention over paged keys and values.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../../runtime/Scratch.h"
#include "Kernels.h"

namespace spillway {

enum class CacheType : uint8_t { F32, F16 };

// A page holds keys and values of `pageTokens` consecutive positions of one row in one layer, all KV heads. Layout inside a page is private to Attention.
struct CacheLayout {
  CacheType type;
  uint32_t kvHeads;
  uint32_t headDim;
  uint32_t pageTokens;
};
size_t cachePageBytes(const CacheLayout& layout);  // a multiple of 64

// Writes one token's keys and values, [kvHeads * headDim] each, at `index` within a page.
void cacheStore(const Kernels& kernels, const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values);

struct AttentionShape {
  uint32_t heads;  // query heads; a multiple of kvHeads
  float scale;
  uint32_t window;            // query at position p sees keys p - window + 1 to p; 0: all up to p
  const float* alibiSlopes;   // [heads] or null
  bool alibiRoundToBfloat16;  // Falcon: slope and slope * position rounded to bfloat16; the bias is added before `scale` is applied
};

// A range of consecutive tokens of one row. Their own keys and values are in the pages already.
struct AttentionRow {
  const float* queries;         // [tokens, queryStride], heads * headDim each
  float* outputs;               // [tokens, outputStride]
  uint32_t firstPosition;
  uint32_t tokens;
  const uint8_t* const* pages;  // page i holds positions i * pageTokens and on; pages wholly outside every window are not touched
};

// Softmax online, one partial a page, pages merged in order of position: bitwise the same whatever the chunking and the company.
// Parallel over rows, KV heads and blocks of queries; query heads that share a KV head share its loads.
void attend(const Compute& compute, const CacheLayout& layout, const AttentionShape& shape, const AttentionRow* rows, size_t rowCount,
            size_t queryStride, size_t outputStride, Scratch& scratch);

}  // namespace spillway
