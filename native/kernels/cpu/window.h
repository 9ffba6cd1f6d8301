// The window of attention: how many positions a query sees at most, and where they begin.
#pragma once
#include <stdint.h>

namespace spillway {

// 0: a query at position p sees all positions up to p; W: the last W of them; W | kChunked: those from the last
// multiple of W on (LLaMA 4).
constexpr uint32_t kChunked = 1u << 31;

static inline bool isChunked(uint32_t window) { return (window & kChunked) != 0; }
static inline uint32_t windowTokens(uint32_t window) { return window & ~kChunked; }

// The first position that a query sees.
static inline uint32_t firstSeen(uint32_t window, uint32_t position) {
  if (isChunked(window)) return position - position % windowTokens(window);
  return window != 0 && position >= window ? position - window + 1 : 0;
}

}  // namespace spillway
