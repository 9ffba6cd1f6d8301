#include "compressRows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "Matmul.h"
#include "floatFormats.h"

namespace spillway {
namespace {

constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits

// The nearest integer, of a byte; anything for values that are not finite, whose group's scale is not finite either.
uint8_t nearest(float value) { return static_cast<uint8_t>(bitsOfFloat(value + kMagic)); }

void putHalf(uint16_t half, uint8_t* at) { std::memcpy(at, &half, sizeof half); }

// One comparison after the other, not one within the other, so that the compiler may use vectors. NaN stays.
float within(float value, float least, float most) {
  const float atLeast = value < least ? least : value;
  return atLeast > most ? most : atLeast;
}

// ---- Q4_G64.

constexpr size_t kGroup4 = 64;
constexpr float kMost4 = 15.0f;
// Ranges that are tried: the group's own, and each time less of it by this share at both ends together.
constexpr int kRanges = 4;
constexpr float kNarrower = 0.08f;
constexpr int kRefits = 2;

// weight = minimum + q * scale; both are halves.
struct Affine {
  float minimum, scale;
};

Affine rounded(float minimum, float scale) {
  return {halfToFloat(floatToHalf(minimum)), halfToFloat(floatToHalf(scale))};
}

// What a group loses with each weight at its nearest code, and the sums from which the best scale and minimum for these
// codes follow.
struct Fit {
  float squaredError, codes, codesSquared, products;
};

// Eight partial sums, in a fixed order, so that the compiler may use vectors and every machine gets the same bits.
Fit fitOf(const float* values, Affine affine) {
  constexpr size_t kLanes = 8;
  const float inverse = affine.scale > 0 ? 1 / affine.scale : 0.0f;
  float error[kLanes] = {}, codes[kLanes] = {}, squares[kLanes] = {}, products[kLanes] = {};
  for (size_t i = 0; i < kGroup4; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; lane++) {
      const float value = values[i + lane];
      const float code = (within((value - affine.minimum) * inverse, 0, kMost4) + kMagic) - kMagic,
                  off = affine.minimum + affine.scale * code - value;
      error[lane] += off * off;
      codes[lane] += code;
      squares[lane] += code * code;
      products[lane] += value * code;
    }
  }
  const auto total = [](const float (&sums)[kLanes]) {
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
  };
  return {total(error), total(codes), total(squares), total(products)};
}

// The scale and minimum that lose least of a group of finite values, among those found from a few ranges: weights at
// the nearest codes of the range, then the straight line through (code, weight) by least squares, nearest codes again.
// The whole range is one of them, so that nothing is worse than that.
Affine bestAffine(const float* values, float least, float most) {
  Affine best = rounded(least, 0);
  best = rounded(least, (most - best.minimum) / kMost4);
  if (!std::isfinite(best.minimum) || !std::isfinite(best.scale) || !(best.scale > 0)) return best;
  const float range = most - least;
  float sum = 0;
  for (size_t i = 0; i < kGroup4; i++) sum += values[i];
  float leastError = std::numeric_limits<float>::infinity();
  for (int narrowed = 0; narrowed < kRanges; narrowed++) {
    const float cut = 0.5f * kNarrower * static_cast<float>(narrowed) * range;
    Affine affine = narrowed == 0 ? best : rounded(least + cut, (range - 2 * cut) / kMost4);
    for (int refit = 0; refit <= kRefits; refit++) {
      const Fit fit = fitOf(values, affine);
      if (fit.squaredError < leastError) leastError = fit.squaredError, best = affine;
      const float spread = kGroup4 * fit.codesSquared - fit.codes * fit.codes;
      if (!(spread > 0)) break;
      const float scale = (kGroup4 * fit.products - sum * fit.codes) / spread;
      affine = rounded((sum - scale * fit.codes) / kGroup4, scale);
    }
  }
  return best;
}

void compress4(const float* values, uint8_t* block) {
  float least = values[0], most = values[0], sum = 0;
  for (size_t i = 0; i < kGroup4; i++) {
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
    sum += values[i] * 0.0f;  // NaN where a value is not finite
  }
  const Affine affine = bestAffine(values, least + sum, most + sum);
  putHalf(floatToHalf(affine.scale), block);
  putHalf(floatToHalf(affine.minimum), block + 2);
  const float inverse = affine.scale > 0 && std::isfinite(affine.scale) ? 1 / affine.scale : 0.0f;
  for (size_t i = 0; i < kGroup4 / 2; i++) {
    const auto codeOf = [&](float value) { return nearest(within((value - affine.minimum) * inverse, 0, kMost4)); };
    const uint8_t low = codeOf(values[i]), high = codeOf(values[kGroup4 / 2 + i]);
    block[4 + i] = static_cast<uint8_t>((low & 15) | (high << 4));
  }
}

// ---- Q8_0 and Q8_R.

// The scale of a group, or of a row: the half with which the largest of the values is 127, NaN where one is not finite.
// Sizes are compared as integers, in whose order they are, so that the compiler may use vectors.
uint16_t scale8(const float* values, size_t count) {
  constexpr int32_t kInfinity = 0x7f800000;
  int32_t largest = 0;
  for (size_t i = 0; i < count; i++)
    largest = std::max(largest, static_cast<int32_t>(bitsOfFloat(values[i]) & 0x7fffffffu));
  if (largest >= kInfinity) return floatToHalf(std::numeric_limits<float>::quiet_NaN());
  return floatToHalf(floatFromBits(static_cast<uint32_t>(largest)) / 127);
}

constexpr size_t kGroup8 = 32;

void compress8(const float* values, uint16_t scale, uint8_t* block) {
  putHalf(scale, block);
  const float step = halfToFloat(scale);
  const float inverse = step > 0 && std::isfinite(step) ? 1 / step : 0.0f;
  for (size_t i = 0; i < kGroup8; i++) {
    block[2 + i] = nearest(within(values[i] * inverse, -127, 127));
  }
}

}  // namespace

bool isCompressedType(WeightType type) {
  return type == WeightType::Q4_G64 || type == WeightType::Q8_0 || type == WeightType::Q8_R;
}

void compressRow(WeightType type, const float* values, size_t inputs, uint8_t* row) {
  const size_t elements = weightBlockElements(type);
  const uint16_t ofRow = type == WeightType::Q8_R ? scale8(values, inputs) : uint16_t{0};
  for (size_t k = 0; k < inputs; k += elements, row += weightBlockBytes(type)) {
    if (type == WeightType::Q4_G64)
      compress4(values + k, row);
    else
      compress8(values + k, type == WeightType::Q8_R ? ofRow : scale8(values + k, kGroup8), row);
  }
}

void compressRows(WeightType from, const uint8_t* rows, size_t count, size_t inputs, WeightType type,
                  uint8_t* compressed) {
  std::vector<float> values(inputs);
  for (size_t r = 0; r < count; r++) {
    unpackFileRow(from, rows + r * weightRowBytes(from, inputs), inputs, values.data());
    compressRow(type, values.data(), inputs, compressed + r * weightRowBytes(type, inputs));
  }
}

}  // namespace spillway
