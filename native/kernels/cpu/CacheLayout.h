// Where keys and values stand inside a page of the KV cache.
//
// A page holds, one KV head after another: its keys, then its values.
// - Keys in blocks of 16 tokens, each block [headDim][16 tokens]: one vector holds the same element of 16 keys, so that the scores of 16 tokens
//   grow lane by lane and no horizontal sum is needed.
// - Values [pageTokens][valueStride], valueStride being headDim rounded up to 16 (the rest is written as zero and never read into a result).
// Nothing in a page needs to be initialised: slots that were never stored are masked by lane or not read at all.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace spillway {

enum class CacheType : uint8_t { F32, F16 };

// A page holds keys and values of `pageTokens` consecutive positions of one row in one layer, all KV heads.
struct CacheLayout {
  CacheType type;
  uint32_t kvHeads;
  uint32_t headDim;     // 1 to kMaxHeadDim
  uint32_t pageTokens;  // a multiple of kKeyBlock
};

constexpr uint32_t kKeyBlock = 16;
constexpr uint32_t kMaxHeadDim = 512;

static inline size_t cacheElementBytes(const CacheLayout& layout) { return layout.type == CacheType::F16 ? 2 : 4; }
static inline size_t cacheValueStride(const CacheLayout& layout) { return (static_cast<size_t>(layout.headDim) + 15) / 16 * 16; }
static inline size_t cacheKeyElements(const CacheLayout& layout) { return static_cast<size_t>(layout.pageTokens) * layout.headDim; }
// From one KV head to the next; a multiple of 64.
static inline size_t cacheHeadBytes(const CacheLayout& layout) {
  const size_t elements = cacheKeyElements(layout) + static_cast<size_t>(layout.pageTokens) * cacheValueStride(layout);
  return (elements * cacheElementBytes(layout) + 63) / 64 * 64;
}

}  // namespace spillway
