// Queries and weights as integers that codes of 8 and 4 bits are multiplied by (quantisedAttention.cpp). Included by
// sources that are compiled for each instruction set.
#pragma once
#include "attentionParts.h"
#include "cacheWords.h"
#include "simdBytes.h"

namespace spillway::SPILLWAY_ISA {

// The largest integer of so many bytes, chosen so that rounding and cutting never carry beyond a byte.
constexpr float mostOf(int digits) { return digits == 1 ? 127.0f : digits == 2 ? 127.0f * 256 : 63.0f * 65536; }

// What a query brings along (attentionQuantisedFloats). Elements are bytes, the lowest digits first, or words
// (cacheWords.h).
struct QuantisedQuery {
  int8_t* elements;   // [digits][attentionQueryBytes()]
  float *step, *sum;  // [groups]: what a unit of `elements` is worth; sum of what they are worth
};

static inline QuantisedQuery queryAt(const CacheLayout& layout, const Workspace& work, uint32_t q) {
  const size_t groups = cacheGroups(layout);
  float* next = work.quantised + q * attentionQuantisedFloats(layout);
  return {reinterpret_cast<int8_t*>(next + 2 * groups), next, next + groups};
}

// A part's weights of the query at place `i` of a tile (attentionWeightFloats).
struct QuantisedWeights {
  int8_t* elements;      // [groups][digits][kPartTokens]
  float *step, *minima;  // [groups]: what a unit is worth; sum of weights times minima
};

static inline QuantisedWeights weightsAt(const CacheLayout& layout, const Workspace& work, uint32_t i) {
  const size_t groups = cacheGroups(layout);
  float* next = work.weights + i * attentionWeightFloats(layout);
  return {reinterpret_cast<int8_t*>(next + 2 * groups), next, next + groups};
}

// Each x * inverse, rounded, as what codes are multiplied by; `to`: the lowest digit of the first of them. Returns
// these integers. Signed bytes: value = low + 256 middle + 65536 high, `digitStride` bytes apart; with two of them low
// + 256 middle.
template <int Digits>
static inline f32x16 storeOperands(f32x16 x, f32x16 inverse, int8_t* to, size_t digitStride) {
  const f32x16 magic = set1(12582912.0f);  // 1.5 * 2^23: the sum is a whole number, in the low bits
  const f32x16 shifted = add(mul(x, inverse), magic);
  i32x16 rest = sub(asInt(shifted), asInt(magic));
  if constexpr (kMultipliesWords<Digits>) {
    storeWords(to, rest);
  } else {
    SPILLWAY_UNROLL(3)
    for (int digit = 0; digit < Digits; digit++) {
      const i32x16 low = shiftRight<24>(shiftLeft<24>(rest));
      storeBytes(to + digit * digitStride, low);
      rest = shiftRight<8>(sub(rest, low));
    }
  }
  return sub(shifted, magic);
}
// Bytes of memory that an operand takes within its lowest digit.
template <int Digits>
constexpr size_t kOperandBytes = kMultipliesWords<Digits> ? 2 : 1;

// What a unit of the integers is worth where the largest number is `most`, and how many units 1 is.
struct Step {
  float step, inverse;
};
template <int Digits>
static inline Step stepOf(float most) {
  if (!(most >= kLeastScaled)) return {0.0f, 0.0f};
  return {most / mostOf(Digits), mostOf(Digits) / most};
}

// Weights of Q queries in one part, for each group: times the tokens' scales, as integers; and times their minima,
// summed. Of the blocks of tokens that some query sees; where one does not see a token, its integers are zero, so
// that what the block holds does not matter.
template <int Digits, int Q>
static void prepareWeights(const CacheLayout& layout, const Workspace& work, const Part& part,
                           const TileRanges<Q>& ranges) {
  const uint32_t fromBlock = ranges.fromBlock, toBlock = ranges.toBlock;
  const size_t lines = 4 * cacheValueLines(layout);
  float scaled[Q][kPartTokens];
  for (size_t g = 0; g < cacheGroups(layout); g++) {
    f32x16 most[Q], minima[Q];
    for (int q = 0; q < Q; q++) most[q] = minima[q] = zero();
    for (uint32_t b = fromBlock; b < toBlock; b++) {
      const uint16_t* halves = reinterpret_cast<const uint16_t*>(part.values[b] + (lines + g) * kCacheLine);
      const f32x16 scale = loadHalf(halves), minimum = loadHalf(halves + 16);
      SPILLWAY_UNROLL(8)
      for (int q = 0; q < Q; q++) {
        const Range range = ranges.of[q];
        const f32x16 weight = load(work.scores + q * kPartTokens + b * kKeyBlock);
        f32x16 ofScale = mul(weight, scale), ofMinimum = mul(weight, minimum);
        if (b * kKeyBlock < range.begin || (b + 1) * kKeyBlock > range.end) {
          ofScale = seenOf(range, b * kKeyBlock, ofScale);
          ofMinimum = seenOf(range, b * kKeyBlock, ofMinimum);
        }
        store(&scaled[q][b * kKeyBlock], ofScale);
        most[q] = max(ofScale, most[q]);
        minima[q] = add(minima[q], ofMinimum);
      }
    }
    for (int q = 0; q < Q; q++) {
      const QuantisedWeights weights = weightsAt(layout, work, static_cast<uint32_t>(q));
      const Step step = stepOf<Digits>(reduceMax(most[q]));
      weights.step[g] = step.step;
      weights.minima[g] = reduceAdd(minima[q]);
      int8_t* to = weights.elements + g * Digits * kPartTokens;
      for (uint32_t b = fromBlock; b < toBlock; b++)
        storeOperands<Digits>(load(&scaled[q][b * kKeyBlock]), set1(step.inverse),
                              to + b * kKeyBlock * kOperandBytes<Digits>, kPartTokens);
    }
  }
}

}  // namespace spillway::SPILLWAY_ISA
