// Pages of a KV cache to measure with.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../kernels/cpu/Attention.h"
#include "Workbench.h"

namespace spillway {

// Heads of the size that models have; enough of them for many threads.
constexpr uint32_t kProfileKvHeads = 8;
constexpr uint32_t kProfileHeadDim = 128;

inline CacheType cacheTypeOf(const std::string& kind) {
  return kind == "f32" ? CacheType::F32 : kind == "q8" ? CacheType::Q8 : kind == "q4" ? CacheType::Q4 : CacheType::F16;
}

// Numbers of about the size that keys, values and queries have; always the same.
inline std::vector<float> plainNumbers(size_t count) {
  std::vector<float> numbers(count);
  uint32_t state = 1;
  for (float& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = (static_cast<float>(state >> 8) / 8388608.0f - 1.0f) * 2.0f;
  }
  return numbers;
}

// Fills the memory with pages; all hold the same tokens, which no kernel notices. Returns them.
std::vector<const uint8_t*> fillPages(Workbench& bench, const CacheLayout& layout);

}  // namespace spillway
