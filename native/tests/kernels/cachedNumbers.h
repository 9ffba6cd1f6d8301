// Reads pages of the 8-bit and 4-bit cache anew, from the description in CacheLayout.h.
#pragma once
#include <cmath>
#include <limits>
#include <vector>

#include "../../kernels/cpu/CacheLayout.h"

namespace spillway {

struct Decoded {
  double value, scale;
};

inline double halfAt(const uint8_t* p) {
  const uint32_t bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

inline Decoded decode(const uint8_t* scales, uint32_t lane, int code) {
  const double scale = halfAt(scales + 2 * lane), minimum = halfAt(scales + 32 + 2 * lane);
  return {minimum + scale * code, scale};
}

inline Decoded keyAt(const CacheLayout& layout, const uint8_t* page, uint32_t head, uint32_t index, size_t d) {
  const uint8_t* block = page + cacheKeysOffset(layout, head) + index / 16 * cacheKeyBlockBytes(layout);
  const uint32_t lane = index % 16;
  const int code = layout.type == CacheType::Q8 ? block[d / 4 * 64 + 4 * lane + d % 4]
                                                : block[d / 8 * 64 + 4 * lane + d % 4] >> (d % 8 / 4 * 4) & 15;
  return decode(block + (cacheKeyLines(layout) + d / 64) * 64, lane, code);
}

inline Decoded valueAt(const CacheLayout& layout, const uint8_t* page, uint32_t head, uint32_t index, size_t d) {
  const uint8_t* block = page + cacheValuesOffset(layout, head) + index / 16 * cacheValueBlockBytes(layout);
  const uint8_t* quad = block + index % 16 / 4 * cacheValueLines(layout) * 64 + index % 4;
  const int code = layout.type == CacheType::Q8 ? quad[d / 16 * 64 + d % 16 * 4]
                                                : quad[d / 32 * 64 + d % 16 * 4] >> (d % 32 / 16 * 4) & 15;
  return decode(block + (4 * cacheValueLines(layout) + d / 64) * 64, index % 16, code);
}

// The Walsh-Hadamard transform of n numbers in blocks of the largest power of two that divides n; not normalised, so
// that twice is `size` times the numbers.
template <typename Number>
size_t transform(std::vector<Number>& numbers) {
  const size_t n = numbers.size(), size = n & (~n + 1);
  for (size_t half = 1; half < size; half *= 2)
    for (size_t i = 0; i < n; i++)
      if ((i & half) == 0) {
        const Number low = numbers[i], high = numbers[i + half];
        numbers[i] = low + high;
        numbers[i + half] = low - high;
      }
  return size;
}

// What turned keys are multiplied by, a power of two near the square root of what the transform multiplies squares by.
inline double turnedFactor(size_t n) {
  return std::exp2(-std::floor(std::log2(static_cast<double>(n & (~n + 1))) / 2));
}

// A group's keys as queries meet them: of 4 bits, turned back.
inline std::vector<double> keyGroupAt(const CacheLayout& layout, const uint8_t* page, uint32_t head, uint32_t index,
                                      size_t first, size_t n) {
  std::vector<double> keys(n);
  for (size_t i = 0; i < n; i++) keys[i] = keyAt(layout, page, head, index, first + i).value;
  if (layout.type != CacheType::Q4) return keys;
  const auto size = static_cast<double>(transform(keys));
  for (double& key : keys) key /= size * turnedFactor(n);
  return keys;
}

}  // namespace spillway
