// Scores to weights: capped, scaled, biased, hidden where a query does not see; softmax. Included by sources that are
// compiled for each instruction set (simd.h).
#pragma once
#include "tanh.h"

namespace spillway::SPILLWAY_ISA {

constexpr float kLowest =
    -3.402823466e+38f;  // where a maximum starts: differences to it are never NaN, unlike those to -infinity
constexpr float kInfinity = __builtin_inff();

// The part of some positions that a query sees, counted from the first of them.
struct Range {
  uint32_t begin, end;
};

// Positions rounded as PyTorch does when a bfloat16 tensor meets integers: to nearest even, positions themselves first.
// Not for NaN.
static inline f32x16 roundToBfloat16(f32x16 x) {
  const i32x16 bits = asInt(x);
  const i32x16 minusOdd = shiftRight<31>(shiftLeft<15>(bits));  // 0 or -1: the lowest bit that is kept
  return asFloat(shiftLeft<16>(shiftRight<16>(sub(add(bits, set1Int(0x7fff)), minusOdd))));
}

alignas(64) static const float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// x, of the positions from `first` on, zero where they are outside the range.
static inline f32x16 seenOf(Range range, uint32_t first, f32x16 x) {
  const f32x16 position = add(load(kLanes), set1(static_cast<float>(first)));
  x = selectLess(position, set1(static_cast<float>(range.begin)), zero(), x);
  return selectLess(position, set1(static_cast<float>(range.end)), x, zero());
}

struct ScoreRule {
  float scale;
  bool biased, rounded;
  float slope;
  float position;          // of the query
  float capScale;          // AttentionBlock::capScale
  const float* distances;  // what the query's scores get for each key, by the key's position, or null
};

// Scales and biases a vector of 16 scores, the first of them at position `first`; those outside [begin, end) become
// -infinity.
static inline f32x16 finishScores(const ScoreRule& rule, f32x16 score, float first, float begin, float end) {
  const f32x16 position = add(load(kLanes), set1(first));
  if (rule.rounded) {
    // Falcon: the bias grows from position 0 and is added before scaling. Its rounding makes the absolute position
    // matter.
    const f32x16 bias = roundToBfloat16(mul(roundToBfloat16(set1(rule.slope)), roundToBfloat16(position)));
    score = mul(add(score, bias), set1(rule.scale));
  } else if (rule.biased) {
    // Relative to the query, so that small differences stay exact far from position 0; softmax does not see the shift.
    score = fma(set1(rule.slope), sub(position, set1(rule.position)), mul(score, set1(rule.scale)));
  } else {
    score = mul(score, set1(rule.scale));
  }
  const f32x16 hidden = set1(-kInfinity);
  score = selectLess(position, set1(begin), hidden, score);
  return selectLess(position, set1(end), score, hidden);
}

// e^x for x <= 0, in fewer steps than exp(): below 2^-126.5 the result is zero. NaN stays NaN.
static inline f32x16 expOfNegative(f32x16 v) {
  const f32x16 x = max(set1(-88.02969f), v);  // -127 ln 2, for which the factor below comes out as zero
  const f32x16 magic = set1(
      12582912.0f +
      127);  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits, here with the exponent's bias
  const f32x16 shifted = fma(x, set1(1.44269504f), magic);
  const f32x16 n = sub(shifted, magic);
  f32x16 r = fma(n, set1(-0x1.62e43p-1f), x);  // ln 2 in two parts, the first with zeros at its end
  r = fma(n, set1(0x1.05c61p-29f), r);
  f32x16 q = set1(0x1.6d113cp-10f);  // the polynomial of exp() in simd.h
  q = fma(q, r, set1(0x1.120ba2p-7f));
  q = fma(q, r, set1(0x1.55551ap-5f));
  q = fma(q, r, set1(0x1.5554dcp-3f));
  q = fma(q, r, set1(0.5f));
  return mul(add(set1(1.0f), fma(mul(r, r), q, r)), asFloat(shiftLeft<23>(asInt(shifted))));
}

// Soft caps are few models': their code stands apart, so that what all scores go through stays small. What is not
// finite stays as it is, so that it shows.
__attribute__((noinline)) static void capAll(float capScale, float* scores, Range range) {
  const f32x16 scale = set1(capScale), infinity = set1(kInfinity);
  for (uint32_t t = range.begin / 16 * 16; t < range.end; t += 16) {
    const f32x16 score = load(scores + t);
    store(scores + t, selectLess(abs(score), infinity, tanh(mul(score, scale)), score));
  }
}

// Biases by distance are few models', too.
__attribute__((noinline)) static void addDistances(const ScoreRule& rule, float* scores, uint32_t start, Range range) {
  for (uint32_t t = range.begin / 16 * 16; t < range.end; t += 16)
    store(scores + t, add(load(scores + t), load(rule.distances + start + t)));
}

// whole(t) for the vectors of 16 positions of which a query sees all, part(t) for the others, in order from `t` to
// `end`, which is range.end or more. So the loop over whole vectors has few instructions, and no branches.
template <typename Whole, typename Part>
static inline void eachVector(Range range, uint32_t t, uint32_t end, const Whole& whole, const Part& part) {
  for (; t < end && t < range.begin; t += 16) part(t);
  SPILLWAY_UNROLL(4)
  for (; t + 16 <= range.end; t += 16) whole(t);
  for (; t < end; t += 16) part(t);
}

// Caps, scales and biases scores in place, from the block of 16 on where `range` begins. Returns their maximum, lane by
// lane.
static inline f32x16 finishAll(const ScoreRule& rule, float* scores, uint32_t start, Range range) {
  if (rule.capScale != 0) capAll(rule.capScale, scores, range);
  const f32x16 scale = set1(rule.scale);
  f32x16 best = set1(kLowest);
  const auto finished = [&](uint32_t t, f32x16 score) {
    store(scores + t, score);
    best = max(score, best);
  };
  const auto scaled = [&](uint32_t t) { finished(t, mul(load(scores + t), scale)); };
  const auto ruled = [&](uint32_t t) {
    finished(t, finishScores(rule, load(scores + t), static_cast<float>(start + t),
                             static_cast<float>(start + range.begin), static_cast<float>(start + range.end)));
  };
  const uint32_t first = range.begin / 16 * 16;
  if (rule.distances != nullptr) addDistances(rule, scores, start, range);
  if (rule.biased)
    for (uint32_t t = first; t < range.end; t += 16) ruled(t);
  else
    eachVector(range, first, range.end, scaled, ruled);
  return best;
}

// Scores of one query in one part to weights, in place, from the block of 16 on where `range` begins. Returns the
// partial's maximum and sum.
static void softmaxPartial(const ScoreRule& rule, float* scores, uint32_t partStart, Range range, float* maximum,
                           float* sum) {
  *maximum = reduceMax(finishAll(rule, scores, partStart, range));
  const f32x16 highest = set1(*maximum);
  f32x16 total = zero();
  for (uint32_t t = range.begin / 16 * 16; t < range.end; t += 16) {
    const f32x16 weight = expOfNegative(sub(load(scores + t), highest));
    store(scores + t, weight);
    total = add(total, weight);
  }
  *sum = reduceAdd(total);
}

}  // namespace spillway::SPILLWAY_ISA
