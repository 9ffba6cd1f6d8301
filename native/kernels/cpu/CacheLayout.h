// Where keys and values stand inside a page of the KV cache.
//
// A page holds, one KV head after another: its keys, then its values; or, where keys stand apart, the keys of all heads
// before the values of all, so that either can be read without the other. Nothing in a page needs to be initialised:
// slots that were never stored are masked by lane, multiplied as integers by zero, or not read at all.
//
// F32 and F16:
// - Keys in blocks of 16 tokens, each block [headDim][16 tokens]: one vector holds the same element of 16 keys, so that
// the scores of 16 tokens
//   grow lane by lane and no horizontal sum is needed.
// - Values [pageTokens][valueStride], valueStride being headDim rounded up to 16 (the rest is written as zero, and has
// to be: a token's largest element is looked for among all).
//
// Q8 and Q4 (group-wise min/max, FlexGen section 4.2): the elements of a token's head in groups of 64, the last one
// shorter where headDim is no multiple; element = minimum + scale * code, codes of 8 or 4 bits, scale and minimum as
// halves. 4.5 bits an element at Q4 with full groups. Keys of 4 bits have been transformed before, each group by a
// Walsh-Hadamard transform (hadamard.h), and queries are when they meet them: what stands out in a few elements, as it
// does in keys, would otherwise make all of their group's steps wide. Keys as well as values are blocks of 16 tokens,
// each block lines of codes and then a line a group: [16 scales][16 minima]. A line is 64 bytes: 16 lanes of 4 bytes,
// the 4 terms that a lane's integer dot product takes at once.
// - Keys: a lane is a token, its 4 bytes are elements that follow each other. Line i holds elements 4i to 4i + 3 (Q8);
// 8i to 8i + 3 in the low and
//   8i + 4 to 8i + 7 in the high nibbles (Q4).
// - Values: a lane is an element, its 4 bytes are 4 tokens. [4 quads of tokens][lines]; line i holds elements 16i to
// 16i + 15 (Q8); 32i to 32i + 15
//   in the low and 32i + 16 to 32i + 31 in the high nibbles (Q4). Codes past headDim are never read into a result.
//
// Latent rows (F32 and F16, one head): [pageTokens][valueStride], keys and values at once.
//
// No two tokens share a byte, so that tokens of one page may be stored by several threads at once.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace spillway {

enum class CacheType : uint8_t { F32, F16, Q8, Q4 };

// A page holds keys and values of `pageTokens` consecutive positions of one row in one layer, all KV heads.
struct CacheLayout {
  CacheType type;
  uint32_t kvHeads;
  uint32_t headDim;        // 1 to kMaxHeadDim
  uint32_t pageTokens;     // a multiple of kKeyBlock, at most kMaxPageTokens
  bool latent = false;     // a token has one row, which is its key and its value
  bool keysApart = false;  // not of latent rows, nor on a device
};

constexpr uint32_t kKeyBlock = 16;
constexpr uint32_t kMaxHeadDim = 512;
constexpr uint32_t kMaxLatentDim = 1024;
constexpr uint32_t kMaxPageTokens = 4096;
constexpr uint32_t kCacheGroup = 64;
constexpr size_t kCacheLine = 64;

// How numbers are rounded into pages, on every device alike.
constexpr float kLargestHalf = 65504.0f;  // beyond it they are clamped
// For keys of 4 bits narrower ranges than a group's own are tried too: so many, each less by this share.
constexpr int kNarrowerRanges = 4;
constexpr float kNarrowerBy = 0.04f;

static inline bool isQuantised(CacheType type) { return type == CacheType::Q8 || type == CacheType::Q4; }
static inline size_t cacheElementBytes(const CacheLayout& layout) {
  return layout.type == CacheType::F16 ? 2 : 4;
}  // F32 and F16
static inline size_t cacheValueStride(const CacheLayout& layout) {
  return (static_cast<size_t>(layout.headDim) + 15) / 16 * 16;
}
static inline size_t cacheKeyElements(const CacheLayout& layout) {
  return static_cast<size_t>(layout.pageTokens) * layout.headDim;
}

// Q8 and Q4.
static inline size_t cacheGroups(const CacheLayout& layout) {
  return (static_cast<size_t>(layout.headDim) + kCacheGroup - 1) / kCacheGroup;
}
static inline size_t cacheKeyLines(const CacheLayout& layout) {  // of one block
  const size_t elements = layout.type == CacheType::Q8 ? 4 : 8;
  return (layout.headDim + elements - 1) / elements;
}
static inline size_t cacheValueLines(const CacheLayout& layout) {  // of one quad of tokens
  const size_t elements = layout.type == CacheType::Q8 ? 16 : 32;
  return (layout.headDim + elements - 1) / elements;
}
// A block of 16 tokens.
static inline size_t cacheKeyBlockBytes(const CacheLayout& layout) {
  if (isQuantised(layout.type)) return (cacheKeyLines(layout) + cacheGroups(layout)) * kCacheLine;
  return kKeyBlock * (layout.latent ? cacheValueStride(layout) : layout.headDim) * cacheElementBytes(layout);
}
static inline size_t cacheValueBlockBytes(const CacheLayout& layout) {
  if (isQuantised(layout.type)) return (4 * cacheValueLines(layout) + cacheGroups(layout)) * kCacheLine;
  return kKeyBlock * cacheValueStride(layout) * cacheElementBytes(layout);
}

// The keys of a KV head; where they stand apart a multiple of 64.
static inline size_t cacheKeyBytes(const CacheLayout& layout) {
  const size_t bytes = layout.latent ? 0 : layout.pageTokens / kKeyBlock * cacheKeyBlockBytes(layout);
  return layout.keysApart ? (bytes + 63) / 64 * 64 : bytes;
}
// Keys and values of a KV head; a multiple of 64.
static inline size_t cacheHeadBytes(const CacheLayout& layout) {
  return (cacheKeyBytes(layout) + layout.pageTokens / kKeyBlock * cacheValueBlockBytes(layout) + 63) / 64 * 64;
}
// From the beginning of a page to a KV head's keys, and to its values.
static inline size_t cacheKeysOffset(const CacheLayout& layout, uint32_t head) {
  return head * (layout.keysApart ? cacheKeyBytes(layout) : cacheHeadBytes(layout));
}
static inline size_t cacheValuesOffset(const CacheLayout& layout, uint32_t head) {
  if (!layout.keysApart) return head * cacheHeadBytes(layout) + cacheKeyBytes(layout);
  return layout.kvHeads * cacheKeyBytes(layout) + head * (cacheHeadBytes(layout) - cacheKeyBytes(layout));
}
// From the beginning of a KV head's values on, calls visit(offset, bytes) for those of one token: bytes that hold them,
// of whole lines where codes of several tokens share these.
template <typename Visit>
static inline void forValueBytes(const CacheLayout& layout, uint32_t index, Visit visit) {
  if (!isQuantised(layout.type)) {
    const size_t bytes = cacheValueStride(layout) * cacheElementBytes(layout);
    return visit(index * bytes, bytes);
  }
  const size_t block = index / kKeyBlock * cacheValueBlockBytes(layout), quad = cacheValueLines(layout) * kCacheLine;
  visit(block + index % kKeyBlock / 4 * quad, quad);
  visit(block + 4 * quad, cacheGroups(layout) * kCacheLine);
}

}  // namespace spillway
