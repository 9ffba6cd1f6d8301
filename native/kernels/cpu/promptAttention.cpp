// Attention of prompts over keys and values in 16-bit floats, which become 16-bit integers first: those of a part once
// for all queries of a block, a prompt's being many. Products of integers take half as many instructions as those of
// floats, and are exact, so that instruction sets agree. Compiled once for each of them (simd.h).
//
// A query, and a key, is a step times integers, of which the largest is the largest that lets no sum of their products
// overflow: 5792 for heads of 64 elements, 4095 for 128. Of a value it is 511; weights times values' steps are a step
// times integers up to 16383, the largest of a query's and a part's: 256 such products just fit into 32 bits. What that
// loses is a seventh of what products lose to 8-bit activations, of which what attention gives is one.
#include "promptAttention.h"

#include "attentionParts.h"
#include "sharedAttention.h"
#include "simdWords.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr float kMostWeight = 16383;
static_assert(double{kMostRoundedValue} * kMostWeight * kPartTokens < 2147483648.0, "sums of a part fit");
constexpr float kMostScaled = 1e30f;  // from here on numbers are as good as infinite

// How many vectors of lanes are worked on together with `queries` queries: as many sums as the registers hold.
constexpr int tileVectors(int queries) {
  if (SPILLWAY_ISA_LEVEL == 2) return queries > 4 ? 2 : 4;
  return queries > 2 || SPILLWAY_ISA_LEVEL == 3 ? 1 : 2;
}

static inline i32x16 rounded(f32x16 x) {
  const f32x16 magic = set1(12582912.0f);  // 1.5 * 2^23: the sum is a whole number, in the low bits
  return sub(asInt(add(x, magic)), asInt(magic));
}

// |x|, and what is no number or infinite as a number that no cache holds.
static inline f32x16 sizeOf(f32x16 x) { return min(abs(x), set1(kMostScaled)); }

// Of 16 tokens, whose largest elements are `most`: what a unit of their integers is worth, NaN where an element is not
// finite, and how many units 1 is.
struct Steps {
  f32x16 step, inverse;
  Steps(f32x16 most, float integers) {
    const f32x16 nothing = zero(), least = set1(kLeastScaled), infinite = set1(kMostScaled);
    inverse = selectLess(most, least, nothing, selectLess(most, infinite, div(set1(integers), most), nothing));
    step = selectLess(most, infinite, mul(most, set1(1.0f / integers)), set1(__builtin_nanf("")));
  }
};

// What a query brings along (attentionQuantisedFloats): its elements, and what a unit of them is worth.
struct RoundedRow {
  float* step;
  int16_t* elements;  // [cacheValueStride()]
};
static inline RoundedRow queryAt(const CacheLayout& layout, const Workspace& work, uint32_t q) {
  float* at = work.quantised + q * attentionQuantisedFloats(layout);
  return {at, reinterpret_cast<int16_t*>(at + 1)};
}

// The same of the weights of a part, of the query at place `i` of a tile (attentionWeightFloats).
static inline RoundedRow weightsAt(const CacheLayout& layout, const Workspace& work, uint32_t i) {
  float* at = work.weights + i * attentionWeightFloats(layout);
  return {at, reinterpret_cast<int16_t*>(at + 1)};
}

// A part's keys and values (attentionPartFloats).
struct RoundedPart {
  float *keySteps, *valueSteps;  // [kPartTokens]
  int16_t* keys;                 // [kPartBlocks][pairs of elements][16 tokens][2]
  int16_t* values;               // [kPartTokens / 2][stride][2]
};
static inline RoundedPart partOf(const CacheLayout& layout, const Workspace& work) {
  float* at = work.part;
  int16_t* keys = reinterpret_cast<int16_t*>(at + 2 * kPartTokens);
  return {at, at + kPartTokens, keys, keys + kPartTokens * cacheValueStride(layout)};
}

static inline size_t pairsOf(const CacheLayout& layout) { return (layout.headDim + 1) / 2; }

// GCC moves all of a tile's sums to other registers and back in each turn of a loop over AVX-512's instructions: of
// four pairs a turn a fifth less time is needed. With AVX2's it does not, and such turns take a sixth more.
constexpr size_t kPairsTogether = SPILLWAY_ISA_LEVEL == 2 ? 4 : 1;

// sum[q][v] += products of `pairs` pairs, of which vector v's stand `vectorStride` words apart, and one after another
// `pairStride`.
template <int Q, int V>
static inline void multiply(const int16_t* words, size_t vectorStride, size_t pairStride, const int16_t* queries,
                            size_t queryStride, size_t pairs, i32x16 (&sum)[Q][V]) {
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) sum[q][v] = set1Int(0);
  }
  const auto add = [&]() __attribute__((always_inline)) {
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < V; v++)
        sum[q][v] = dotPairs(sum[q][v], words + static_cast<size_t>(v) * vectorStride, queries + q * queryStride);
    }
    words += pairStride;
    queries += 2;
  };
  size_t pair = 0;
  for (; pair + kPairsTogether <= pairs; pair += kPairsTogether) {
    SPILLWAY_UNROLL(8)
    for (size_t i = 0; i < kPairsTogether; i++) add();
  }
  for (; pair < pairs; pair++) add();
}

template <int Q, int V>
static void scoreTile(const CacheLayout& layout, const Workspace& work, uint32_t first, uint32_t block, float* scores,
                      size_t scoreStride) {
  const RoundedPart part = partOf(layout, work);
  const RoundedRow query = queryAt(layout, work, first);
  const size_t pairs = pairsOf(layout), floats = attentionQuantisedFloats(layout), blockWords = pairs * 32;
  i32x16 sum[Q][V];
  multiply<Q, V>(part.keys + block * blockWords, blockWords, 32, query.elements, 2 * floats, pairs, sum);
  SPILLWAY_UNROLL(4)
  for (int v = 0; v < V; v++) {
    const f32x16 step = load(part.keySteps + (block + static_cast<uint32_t>(v)) * kKeyBlock);
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++)
      store(scores + q * scoreStride + v * 16, mul(toFloat(sum[q][v]), mul(step, set1(query.step[q * floats]))));
  }
}

template <int Q, int V>
static void valueTile(const CacheLayout& layout, const Workspace& work, uint32_t fromBlock, uint32_t toBlock,
                      size_t vector, float* partial) {
  const RoundedPart part = partOf(layout, work);
  const RoundedRow weights = weightsAt(layout, work, 0);
  const size_t stride = cacheValueStride(layout), floats = attentionWeightFloats(layout);
  const size_t firstPair = fromBlock * kKeyBlock / 2, pairs = (toBlock - fromBlock) * kKeyBlock / 2;
  i32x16 sum[Q][V];
  multiply<Q, V>(part.values + firstPair * 2 * stride + vector * 32, 32, 2 * stride, weights.elements + 2 * firstPair,
                 2 * floats, pairs, sum);
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    const f32x16 step = set1(weights.step[q * floats]);
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++)
      store(partial + q * stride + (vector + static_cast<size_t>(v)) * 16, mul(toFloat(sum[q][v]), step));
  }
}

static void roundKeys(const CacheLayout& layout, float integers, const uint8_t* block, float* steps, int16_t* words) {
  const uint16_t* from = reinterpret_cast<const uint16_t*>(block);
  f32x16 most = zero();
  for (size_t d = 0; d < layout.headDim; d++) most = max(sizeOf(loadHalf(from + d * kKeyBlock)), most);
  const Steps each(most, integers);
  store(steps, each.step);
  const auto elements = [&](size_t d) __attribute__((always_inline)) {
    return rounded(mul(loadHalf(from + d * kKeyBlock), each.inverse));
  };
  size_t d = 0;
  for (; d + 2 <= layout.headDim; d += 2, words += 32) storePairs(words, elements(d), elements(d + 1));
  if (d < layout.headDim) storePairs(words, elements(d), set1Int(0));
}

static void roundValues(const CacheLayout& layout, const uint8_t* block, float* steps, int16_t* words) {
  const size_t stride = cacheValueStride(layout);
  const uint16_t* from = reinterpret_cast<const uint16_t*>(block);
  float most[kKeyBlock];
  for (size_t t = 0; t < kKeyBlock; t += 4) {
    f32x16 four[4];
    SPILLWAY_UNROLL(4)
    for (size_t i = 0; i < 4; i++) {
      four[i] = zero();
      for (size_t d = 0; d < stride; d += 16) four[i] = max(sizeOf(loadHalf(from + (t + i) * stride + d)), four[i]);
    }
    reduceMaxEach(four, most + t);
  }
  const Steps each(load(most), kMostRoundedValue);
  store(steps, each.step);
  float inverse[kKeyBlock];
  store(inverse, each.inverse);
  for (size_t t = 0; t < kKeyBlock; t += 2, words += 2 * stride) {
    const f32x16 first = set1(inverse[t]), second = set1(inverse[t + 1]);
    for (size_t d = 0; d < stride; d += 16)
      storePairs(words + 2 * d, rounded(mul(loadHalf(from + t * stride + d), first)),
                 rounded(mul(loadHalf(from + (t + 1) * stride + d), second)));
  }
}

// The weights of Q queries in a part, times values' steps, as integers; zero where a query does not see a token,
// whatever its value is.
template <int Q>
static void roundWeights(const CacheLayout& layout, const Workspace& work, const TileRanges<Q>& ranges) {
  const RoundedPart part = partOf(layout, work);
  const uint32_t from = ranges.fromBlock * kKeyBlock, end = ranges.toBlock * kKeyBlock;
  for (uint32_t q = 0; q < Q; q++) {
    const RoundedRow to = weightsAt(layout, work, q);
    float* weights = work.scores + q * kPartTokens;
    f32x16 most = zero(), total = zero();
    const Range range = ranges.of[q];
    const auto take = [&](uint32_t t, f32x16 scaled) {
      store(weights + t, scaled);
      most = max(scaled, most);
      total = add(total, scaled);
    };
    const auto scaled = [&](uint32_t t) { return mul(load(weights + t), load(part.valueSteps + t)); };
    eachVector(
        range, from, end, [&](uint32_t t) { take(t, scaled(t)); },
        [&](uint32_t t) { take(t, seenOf(range, t, scaled(t))); });
    const float largest = reduceMax(most);
    *to.step = reduceAdd(total) < kInfinity ? largest * (1.0f / kMostWeight) : __builtin_nanf("");
    const f32x16 inverse = set1(largest >= kLeastScaled ? kMostWeight / largest : 0.0f);
    for (uint32_t t = from; t < end; t += kKeyBlock)
      storeWords(to.elements + t, rounded(mul(load(weights + t), inverse)));
  }
}

struct PromptFormat {
  static constexpr uint32_t kBlocksAhead = 2;
  // The step of a part's weights belongs to all of it.
  static constexpr bool kSplitsParts = false;

  static void prepareQuery(const CacheLayout& layout, const Workspace& work, uint32_t q) {
    const size_t stride = cacheValueStride(layout);
    const float* elements = work.queries + q * stride;
    f32x16 most = zero();
    for (size_t d = 0; d < stride; d += 16) most = max(sizeOf(load(elements + d)), most);
    const Steps each(set1(reduceMax(most)), mostRoundedKey(layout.headDim));
    const RoundedRow query = queryAt(layout, work, q);
    storePartial(query.step, each.step, 1);
    for (size_t d = 0; d < stride; d += 16)
      storeWords(query.elements + d, rounded(mul(load(elements + d), each.inverse)));
  }

  static void preparePart(const CacheLayout& layout, const Workspace& work, const Part& part) {
    const RoundedPart to = partOf(layout, work);
    const size_t keyBytes = cacheKeyBlockBytes(layout), valueBytes = cacheValueBlockBytes(layout);
    const float integers = mostRoundedKey(layout.headDim);
    for (uint32_t b = part.fromBlock; b < part.toBlock; b++) {
      prefetch(part.keys[b + kBlocksAhead], keyBytes);
      roundKeys(layout, integers, part.keys[b], to.keySteps + b * kKeyBlock, to.keys + b * pairsOf(layout) * 32);
    }
    for (uint32_t b = part.fromBlock; b < part.toBlock; b++) {
      prefetch(part.values[b + kBlocksAhead], valueBytes);
      roundValues(layout, part.values[b], to.valueSteps + b * kKeyBlock,
                  to.values + b * kKeyBlock * cacheValueStride(layout));
    }
  }

  template <int Q>
  static void score(const CacheLayout& layout, const Workspace& work, const Part&, uint32_t first, uint32_t fromBlock,
                    uint32_t toBlock, float* scores, size_t scoreStride) {
    constexpr int kVectors = tileVectors(Q);
    uint32_t b = fromBlock;
    for (; b + kVectors <= toBlock; b += kVectors)
      scoreTile<Q, kVectors>(layout, work, first, b, scores + (b - fromBlock) * kKeyBlock, scoreStride);
    for (; b < toBlock; b++) scoreTile<Q, 1>(layout, work, first, b, scores + (b - fromBlock) * kKeyBlock, scoreStride);
  }

  template <int Q>
  static void sum(const AttentionBlock& block, const Workspace& work, const Part& part, uint32_t first,
                  float* partial) {
    const CacheLayout& layout = block.layout;
    const TileRanges<Q> ranges(block, first, part.start);
    const uint32_t from = ranges.fromBlock, to = ranges.toBlock;
    roundWeights<Q>(layout, work, ranges);
    constexpr int kVectors = tileVectors(Q);
    const size_t vectors = cacheValueStride(layout) / 16;
    size_t v = 0;
    for (; v + kVectors <= vectors; v += kVectors) valueTile<Q, kVectors>(layout, work, from, to, v, partial);
    for (; v < vectors; v++) valueTile<Q, 1>(layout, work, from, to, v, partial);
  }
};

}  // namespace

void attendPrompts(const AttentionBlock* blocks, uint32_t count) {
  count > 1 ? attendTogether<PromptFormat>(blocks, count) : attendDensely<PromptFormat>(*blocks);
}

}  // namespace spillway::SPILLWAY_ISA
