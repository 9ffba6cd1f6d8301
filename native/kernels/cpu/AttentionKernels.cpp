// Compiled once for each instruction set (simd.h).
//
// What one query computes, whatever stands beside it: for every page that it sees, in order of position,
//   score[t] = (q . k[t]) scaled, biased     one fused multiply-add an element of the head, in order
//   partial  = (maximum, sum of exp(score - maximum), those weights times values)   tokens in order; sums lane by lane, then one tree
//   merged   = both rescaled to the larger maximum and added
// and the merged values are divided by the merged sum. Tiles of queries, key blocks and value vectors only choose what shares a load.
#include "AttentionKernels.h"

#include "simd.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr float kLowest = -3.402823466e+38f;  // where a maximum starts: differences to it are never NaN, unlike those to -infinity
constexpr float kInfinity = __builtin_inff();

// How many vectors of keys or values are worked on together with `queries` queries: as many accumulators as the registers hold.
constexpr int kTileQueries = SPILLWAY_ISA_LEVEL == 2 ? 8 : 4;
constexpr int tileVectors(int queries) {
  if (SPILLWAY_ISA_LEVEL == 2) return queries > 4 ? 2 : 4;
  return queries > 2 ? 1 : 2;
}

static inline f32x16 loadElements(const float* p) { return load(p); }
static inline f32x16 loadElements(const uint16_t* p) { return loadHalf(p); }

// The part of a page that a query sees.
struct Range {
  uint32_t begin, end;
};

static inline Range visible(const AttentionBlock& block, uint32_t token, uint32_t pageStart) {
  const uint32_t position = block.firstPosition + token;
  const uint32_t first = block.window != 0 && position >= block.window ? position - block.window + 1 : 0;
  const uint32_t pageTokens = block.layout.pageTokens;
  const uint32_t begin = first > pageStart ? first - pageStart : 0;
  const uint32_t end = position < pageStart ? 0 : position - pageStart + 1;
  return {begin < pageTokens ? begin : pageTokens, end < pageTokens ? end : pageTokens};
}

// Asks for the memory that will be worked on next, `bytes` of it for as many bytes that are worked on now. Decoding reads every key and value once,
// and pages lie anywhere: without this, each page begins by waiting for memory.
static inline void prefetch(const char*& ahead, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(ahead + i);
  ahead += bytes;
}

// scores[q][16 v + lane] = sum over d of queries[q][d] * keys[v][d][lane]
template <typename Element, int Q, int V>
static void scoreTile(const Element* keys, const float* queries, size_t headDim, size_t queryStride, float* scores, size_t scoreStride, const char* ahead) {
  f32x16 sum[Q][V];
#pragma GCC unroll 8
  for (int q = 0; q < Q; q++) {
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) sum[q][v] = zero();
  }
  for (size_t d = 0; d < headDim; d++) {
    prefetch(ahead, sizeof(Element) * kKeyBlock * V);
    f32x16 key[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) key[v] = loadElements(keys + (static_cast<size_t>(v) * headDim + d) * kKeyBlock);
#pragma GCC unroll 8
    for (int q = 0; q < Q; q++) {
      const f32x16 element = set1(queries[q * queryStride + d]);
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) sum[q][v] = fma(element, key[v], sum[q][v]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; q++) {
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(scores + q * scoreStride + v * 16, sum[q][v]);
  }
}

// sums[q][16 v + lane] += weights[q][t] * values[t][16 v + lane], t in order
template <typename Element, int Q, int V>
static void valueTile(const Element* values, size_t valueStride, const float* weights, size_t weightStride, uint32_t tokens, float* sums, size_t sumStride,
                      const char* ahead) {
  f32x16 sum[Q][V];
#pragma GCC unroll 8
  for (int q = 0; q < Q; q++) {
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) sum[q][v] = load(sums + q * sumStride + v * 16);
  }
  for (uint32_t t = 0; t < tokens; t++) {
    prefetch(ahead, sizeof(Element) * 16 * V);
    f32x16 value[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) value[v] = loadElements(values + t * valueStride + v * 16);
#pragma GCC unroll 8
    for (int q = 0; q < Q; q++) {
      const f32x16 weight = set1(weights[q * weightStride + t]);
#pragma GCC unroll 8
      for (int v = 0; v < V; v++) sum[q][v] = fma(weight, value[v], sum[q][v]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; q++) {
#pragma GCC unroll 8
    for (int v = 0; v < V; v++) store(sums + q * sumStride + v * 16, sum[q][v]);
  }
}

template <typename Element, int Q>
static void scoreQueries(const Element* keys, uint32_t keyBlocks, const float* queries, size_t headDim, size_t queryStride, float* scores, size_t scoreStride,
                         const char* ahead) {
  constexpr int kVectors = tileVectors(Q);
  uint32_t v = 0;
  for (; v + kVectors <= keyBlocks; v += kVectors)
    scoreTile<Element, Q, kVectors>(keys + v * headDim * kKeyBlock, queries, headDim, queryStride, scores + v * 16, scoreStride, ahead);
  for (; v < keyBlocks; v++) scoreTile<Element, Q, 1>(keys + v * headDim * kKeyBlock, queries, headDim, queryStride, scores + v * 16, scoreStride, ahead);
}

template <typename Element, int Q>
static void valueQueries(const Element* values, size_t valueStride, const float* weights, size_t weightStride, uint32_t tokens, float* sums, const char* ahead) {
  constexpr int kVectors = tileVectors(Q);
  const size_t vectors = valueStride / 16;
  size_t v = 0;
  for (; v + kVectors <= vectors; v += kVectors)
    valueTile<Element, Q, kVectors>(values + v * 16, valueStride, weights, weightStride, tokens, sums + v * 16, valueStride, ahead);
  for (; v < vectors; v++) valueTile<Element, Q, 1>(values + v * 16, valueStride, weights, weightStride, tokens, sums + v * 16, valueStride, ahead);
}

// Positions rounded as PyTorch does when a bfloat16 tensor meets integers: to nearest even, positions themselves first. Not for NaN.
static inline f32x16 roundToBfloat16(f32x16 x) {
  const i32x16 bits = asInt(x);
  const i32x16 minusOdd = shiftRight<31>(shiftLeft<15>(bits));  // 0 or -1: the lowest bit that is kept
  return asFloat(shiftLeft<16>(shiftRight<16>(sub(add(bits, set1Int(0x7fff)), minusOdd))));
}

alignas(64) const float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct ScoreRule {
  float scale;
  bool biased, rounded;
  float slope;
  float position;  // of the query
};

// Scales and biases a vector of 16 scores, the first of them at position `first`; those outside [begin, end) become -infinity.
static inline f32x16 finishScores(const ScoreRule& rule, f32x16 score, float first, float begin, float end) {
  const f32x16 position = add(load(kLanes), set1(first));
  if (rule.rounded) {
    // Falcon: the bias grows from position 0 and is added before scaling. Its rounding makes the absolute position matter.
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
  const f32x16 x = max(set1(-88.02969f), v);     // -127 ln 2, for which the factor below comes out as zero
  const f32x16 magic = set1(12582912.0f + 127);  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits, here with the exponent's bias
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

// Scores of one query in one page to weights, in place. Returns the partial's maximum and sum.
static void softmaxPartial(const ScoreRule& rule, float* scores, uint32_t pageStart, Range range, float* maximum, float* sum) {
  const uint32_t from = range.begin / 16 * 16;
  const f32x16 scale = set1(rule.scale);
  f32x16 best = set1(kLowest);
  for (uint32_t t = from; t < range.end; t += 16) {
    f32x16 score = load(scores + t);
    if (!rule.biased && t >= range.begin && t + 16 <= range.end)
      score = mul(score, scale);
    else
      score = finishScores(rule, score, static_cast<float>(pageStart + t), static_cast<float>(pageStart + range.begin), static_cast<float>(pageStart + range.end));
    store(scores + t, score);
    best = max(score, best);
  }
  *maximum = reduceMax(best);
  const f32x16 highest = set1(*maximum);
  f32x16 total = zero();
  for (uint32_t t = from; t < range.end; t += 16) {
    const f32x16 weight = expOfNegative(sub(load(scores + t), highest));
    store(scores + t, weight);
    total = add(total, weight);
  }
  *sum = reduceAdd(total);
}

// What a block keeps while it goes through the pages.
struct Workspace {
  float *queries, *scores, *partial, *merged;          // [queries][...]
  float *maximum, *sum, *pageMaximum, *pageSum;        // [queries]
  float *mergedFactor, *partialFactor;                 // [queries]
};

static Workspace carve(const AttentionBlock& block) {
  const size_t queries = (static_cast<size_t>(block.tokens) * block.groupHeads + 15) / 16 * 16;
  const size_t stride = cacheValueStride(block.layout);
  Workspace work;
  float* next = block.workspace;
  work.queries = next, next += queries * stride;
  work.scores = next, next += queries * block.layout.pageTokens;
  work.partial = next, next += queries * stride;
  work.merged = next, next += queries * stride;
  work.maximum = next, next += queries;
  work.sum = next, next += queries;
  work.pageMaximum = next, next += queries;
  work.pageSum = next, next += queries;
  work.mergedFactor = next, next += queries;
  work.partialFactor = next;
  return work;
}

// Adds the partials of `queries` queries, beginning with `first`, to what is merged so far.
static void mergePartials(const Workspace& work, uint32_t first, uint32_t queries, size_t stride) {
  for (uint32_t q = first; q < first + queries; q += 16) {
    const size_t n = first + queries - q < 16 ? first + queries - q : 16;
    const f32x16 before = loadPartial(work.maximum + q, n), page = loadPartial(work.pageMaximum + q, n);
    const f32x16 highest = max(before, page);
    const f32x16 mergedFactor = exp(sub(before, highest)), partialFactor = exp(sub(page, highest));
    storePartial(work.maximum + q, highest, n);
    storePartial(work.sum + q, fma(loadPartial(work.pageSum + q, n), partialFactor, mul(loadPartial(work.sum + q, n), mergedFactor)), n);
    storePartial(work.mergedFactor + q, mergedFactor, n);
    storePartial(work.partialFactor + q, partialFactor, n);
  }
  for (uint32_t q = first; q < first + queries; q++) {
    const f32x16 mergedFactor = set1(work.mergedFactor[q]), partialFactor = set1(work.partialFactor[q]);
    float* merged = work.merged + q * stride;
    const float* partial = work.partial + q * stride;
    for (size_t d = 0; d < stride; d += 16) store(merged + d, fma(load(partial + d), partialFactor, mul(load(merged + d), mergedFactor)));
  }
}

static inline void fill(float* p, float value, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = value;
}

template <typename Element, int Q>
static void tileOfQueries(const AttentionBlock& block, const Workspace& work, const Element* keys, const Element* values, const Element* nextKeys, uint32_t first,
                          uint32_t pageStart) {
  const size_t headDim = block.layout.headDim, stride = cacheValueStride(block.layout), pageTokens = block.layout.pageTokens;
  const uint32_t group = block.groupHeads;
  const Range earliest = visible(block, first / group, pageStart), latest = visible(block, (first + Q - 1) / group, pageStart);
  float* scores = work.scores + first * pageTokens;
  float* partial = work.partial + first * stride;

  const uint32_t keyBlock = earliest.begin / kKeyBlock, keyBlocks = (latest.end + kKeyBlock - 1) / kKeyBlock - keyBlock;
  scoreQueries<Element, Q>(keys + keyBlock * headDim * kKeyBlock, keyBlocks, work.queries + first * stride, headDim, stride, scores + keyBlock * kKeyBlock,
                           pageTokens, reinterpret_cast<const char*>(values));
  fill(partial, 0.0f, Q * stride);

  // Tokens that all of these queries see share loads; those that only some see are added query by query, before and after. A query never
  // multiplies a value that it does not see, not even by zero: the value might be infinite.
  const uint32_t begin = latest.begin, end = earliest.end;
  const bool shared = begin < end;
  const char* ahead = reinterpret_cast<const char*>(nextKeys);
  for (uint32_t i = 0; i < Q; i++) {
    const uint32_t q = first + i;
    const Range range = visible(block, q / group, pageStart);
    const bool biased = block.slopes != nullptr;
    const ScoreRule rule = {block.scale, biased, biased && block.roundToBfloat16, biased ? block.slopes[q % group] : 0.0f,
                            static_cast<float>(block.firstPosition + q / group)};
    softmaxPartial(rule, scores + i * pageTokens, pageStart, range, work.pageMaximum + q, work.pageSum + q);
    const uint32_t alone = shared ? begin : range.end;
    if (range.begin < alone)
      valueQueries<Element, 1>(values + range.begin * stride, stride, scores + i * pageTokens + range.begin, 0, alone - range.begin, partial + i * stride, ahead);
  }
  if (!shared) return;
  valueQueries<Element, Q>(values + begin * stride, stride, scores + begin, pageTokens, end - begin, partial, ahead);
  for (uint32_t i = 0; i < Q; i++) {
    const Range range = visible(block, (first + i) / group, pageStart);
    if (end < range.end) valueQueries<Element, 1>(values + end * stride, stride, scores + i * pageTokens + end, 0, range.end - end, partial + i * stride, ahead);
  }
}

template <typename Element>
static void attendPages(const AttentionBlock& block) {
  const CacheLayout& layout = block.layout;
  const size_t stride = cacheValueStride(layout), headDim = layout.headDim;
  const uint32_t group = block.groupHeads, pageTokens = layout.pageTokens;
  const uint32_t queries = block.tokens * group;
  const Workspace work = carve(block);
  for (uint32_t q = 0; q < queries; q++) {
    const float* from = block.queries + q / group * block.queryStride + q % group * headDim;
    for (size_t d = 0; d < headDim; d++) work.queries[q * stride + d] = from[d];
  }
  fill(work.merged, 0.0f, queries * stride);
  fill(work.maximum, kLowest, queries);
  fill(work.sum, 0.0f, queries);

  const uint32_t lastPosition = block.firstPosition + block.tokens - 1;
  const uint32_t firstSeen = block.window != 0 && block.firstPosition >= block.window ? block.firstPosition - block.window + 1 : 0;
  const uint32_t lastPage = lastPosition / pageTokens;
  const size_t headOffset = block.kvHead * cacheHeadBytes(layout);
  for (uint32_t page = firstSeen / pageTokens; page <= lastPage; page++) {
    const uint32_t pageStart = page * pageTokens;
    // Ranges move on with the token, so the tokens that see anything of this page are consecutive.
    uint32_t from = 0, to = block.tokens;
    while (visible(block, from, pageStart).end == 0) from++;
    while (visible(block, to - 1, pageStart).begin == pageTokens) to--;
    const Element* keys = reinterpret_cast<const Element*>(block.pages[page] + headOffset);
    const Element* nextKeys = page < lastPage ? reinterpret_cast<const Element*>(block.pages[page + 1] + headOffset) : keys;
    const Element* values = keys + cacheKeyElements(layout);
    const uint32_t last = to * group;
    uint32_t q = from * group;
    for (; q + kTileQueries <= last; q += kTileQueries) tileOfQueries<Element, kTileQueries>(block, work, keys, values, nextKeys, q, pageStart);
    if (kTileQueries > 4 && q + 4 <= last) tileOfQueries<Element, 4>(block, work, keys, values, nextKeys, q, pageStart), q += 4;
    if (q + 3 == last) tileOfQueries<Element, 3>(block, work, keys, values, nextKeys, q, pageStart);
    if (q + 2 == last) tileOfQueries<Element, 2>(block, work, keys, values, nextKeys, q, pageStart);
    if (q + 1 == last) tileOfQueries<Element, 1>(block, work, keys, values, nextKeys, q, pageStart);
    mergePartials(work, from * group, last - from * group, stride);
  }

  for (uint32_t q = 0; q < queries; q++) {
    float* to = block.outputs + q / group * block.outputStride + q % group * headDim;
    const f32x16 sum = set1(work.sum[q]);
    for (size_t d = 0; d < headDim; d += 16) {
      const f32x16 value = div(load(work.merged + q * stride + d), sum);
      if (headDim - d < 16)
        storePartial(to + d, value, headDim - d);
      else
        store(to + d, value);
    }
  }
}

void attendBlock(const AttentionBlock& block) {
  if (block.layout.type == CacheType::F16)
    attendPages<uint16_t>(block);
  else
    attendPages<float>(block);
}

static inline void storeElements(float* p, f32x16 v) { store(p, v); }
static inline void storeElements(uint16_t* p, f32x16 v) { storeHalf(p, min(set1(65504.0f), max(set1(-65504.0f), v))); }

template <typename Element>
static void storeHeads(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values) {
  const size_t headDim = layout.headDim, stride = cacheValueStride(layout);
  for (uint32_t head = 0; head < layout.kvHeads; head++) {
    Element* key = reinterpret_cast<Element*>(page + head * cacheHeadBytes(layout));
    Element* value = key + cacheKeyElements(layout) + index * stride;
    key += index / kKeyBlock * headDim * kKeyBlock + index % kKeyBlock;
    for (size_t d = 0; d < headDim; d += 16) {
      const size_t n = headDim - d < 16 ? headDim - d : 16;
      Element converted[16];
      storeElements(converted, loadPartial(keys + head * headDim + d, n));
      for (size_t i = 0; i < n; i++) key[(d + i) * kKeyBlock] = converted[i];
      storeElements(value + d, loadPartial(values + head * headDim + d, n));
    }
  }
}

void storeToken(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values) {
  if (layout.type == CacheType::F16)
    storeHeads<uint16_t>(layout, page, index, keys, values);
  else
    storeHeads<float>(layout, page, index, keys, values);
}

}  // namespace

const AttentionKernels& attentionKernels() {
  static const AttentionKernels kernels = {storeToken, attendBlock};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
