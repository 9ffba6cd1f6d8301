// What all kinds of attention share: which part of a page a query sees, scores to weights, merging partials, and the way through a block's pages.
// Included by sources that are compiled for each instruction set (simd.h).
//
// What one query computes, whatever stands beside it: for every page that it sees, in order of position,
//   score[t] = (q . k[t]) scaled, biased
//   partial  = (maximum, sum of exp(score - maximum), those weights times values)   sums lane by lane, then one tree
//   merged   = both rescaled to the larger maximum and added
// and the merged values are divided by the merged sum. Tiles of queries, key blocks and value vectors only choose what shares a load.
#pragma once
#include "AttentionKernels.h"
#include "simd.h"

namespace spillway::SPILLWAY_ISA {

constexpr float kLowest = -3.402823466e+38f;  // where a maximum starts: differences to it are never NaN, unlike those to -infinity
constexpr float kInfinity = __builtin_inff();

constexpr int kTileQueries = SPILLWAY_ISA_LEVEL == 2 ? 8 : 4;

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

// Positions rounded as PyTorch does when a bfloat16 tensor meets integers: to nearest even, positions themselves first. Not for NaN.
static inline f32x16 roundToBfloat16(f32x16 x) {
  const i32x16 bits = asInt(x);
  const i32x16 minusOdd = shiftRight<31>(shiftLeft<15>(bits));  // 0 or -1: the lowest bit that is kept
  return asFloat(shiftLeft<16>(shiftRight<16>(sub(add(bits, set1Int(0x7fff)), minusOdd))));
}

alignas(64) static const float kLanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

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
  float *queries, *scores, *partial, *merged;    // [queries][...]
  float *maximum, *sum, *pageMaximum, *pageSum;  // [queries]
  float *mergedFactor, *partialFactor;           // [queries]
  float* quantised;                              // [queries][attentionQuantisedFloats()]
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
  work.partialFactor = next, next += queries;
  work.quantised = next;
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

static inline ScoreRule ruleOf(const AttentionBlock& block, uint32_t query) {
  const bool biased = block.slopes != nullptr;
  return {block.scale, biased, biased && block.roundToBfloat16, biased ? block.slopes[query % block.groupHeads] : 0.0f,
          static_cast<float>(block.firstPosition + query / block.groupHeads)};
}

// Copies the block's queries to where they are worked on.
template <typename Format>
static void takeQueries(const AttentionBlock& block, const Workspace& work) {
  const size_t stride = cacheValueStride(block.layout), headDim = block.layout.headDim;
  const uint32_t group = block.groupHeads;
  for (uint32_t q = 0; q < block.tokens * group; q++) {
    const float* from = block.queries + q / group * block.queryStride + q % group * headDim;
    for (size_t d = 0; d < headDim; d++) work.queries[q * stride + d] = from[d];
    Format::prepareQuery(block.layout, work, q);
  }
}

// outputs = sums over values / sums of weights
static inline void writeOutputs(const AttentionBlock& block, const Workspace& work) {
  const size_t stride = cacheValueStride(block.layout), headDim = block.layout.headDim;
  const uint32_t group = block.groupHeads;
  for (uint32_t q = 0; q < block.tokens * group; q++) {
    float* to = block.outputs + q / group * block.outputStride + q % group * headDim;
    const f32x16 sum = set1(work.sum[q]);
    for (size_t d = 0; d < headDim; d += 16) storePartial(to + d, div(load(work.merged + q * stride + d), sum), headDim - d < 16 ? headDim - d : 16);
  }
}

// body.operator()<Q>(q) for the queries from `q` to `last`, in the largest tiles that there are.
template <typename Body>
static inline void forTiles(uint32_t q, uint32_t last, const Body& body) {
  for (; q + kTileQueries <= last; q += kTileQueries) body.template tile<kTileQueries>(q);
  if (kTileQueries > 4 && q + 4 <= last) body.template tile<4>(q), q += 4;
  if (q + 3 == last) body.template tile<3>(q);
  if (q + 2 == last) body.template tile<2>(q);
  if (q + 1 == last) body.template tile<1>(q);
}

// What a Format is: how keys and values of one type are worked on. `head` is where a page's KV head begins.
//   prepareQuery(layout, work, q)    after work.queries[q] has been filled
//   attendTile<Q>(block, work, head, nextHead, first, pageStart)   scores, weights and partials of Q queries in one page
//   scoreTile<Q>(block, work, head, first, keyBlock, keyBlocks, scores, scoreStride, ahead)   plain products of Q queries with blocks of 16 keys
//   loadValues<V>(layout, head, index, element, values)   V vectors of one token's values from `element` on, a multiple of 64, as floats
template <typename Format>
struct PageTiles {
  const AttentionBlock& block;
  const Workspace& work;
  const uint8_t *head, *nextHead;
  uint32_t pageStart;
  template <int Q>
  void tile(uint32_t first) const {
    Format::template attendTile<Q>(block, work, head, nextHead, first, pageStart);
  }
};

static inline uint32_t firstSeenBy(const AttentionBlock& block) {
  return block.window != 0 && block.firstPosition >= block.window ? block.firstPosition - block.window + 1 : 0;
}

// Every query takes the values of all keys that it sees.
template <typename Format>
static void attendDensely(const AttentionBlock& block) {
  const CacheLayout& layout = block.layout;
  const size_t stride = cacheValueStride(layout);
  const uint32_t group = block.groupHeads, pageTokens = layout.pageTokens;
  const uint32_t queries = block.tokens * group;
  const Workspace work = carve(block);
  takeQueries<Format>(block, work);
  fill(work.merged, 0.0f, queries * stride);
  fill(work.maximum, kLowest, queries);
  fill(work.sum, 0.0f, queries);

  const uint32_t lastPage = (block.firstPosition + block.tokens - 1) / pageTokens;
  const size_t headOffset = block.kvHead * cacheHeadBytes(layout);
  for (uint32_t page = firstSeenBy(block) / pageTokens; page <= lastPage; page++) {
    const uint32_t pageStart = page * pageTokens;
    // Ranges move on with the token, so the tokens that see anything of this page are consecutive.
    uint32_t from = 0, to = block.tokens;
    while (visible(block, from, pageStart).end == 0) from++;
    while (visible(block, to - 1, pageStart).begin == pageTokens) to--;
    const uint8_t* head = block.pages[page] + headOffset;
    const uint8_t* nextHead = page < lastPage ? block.pages[page + 1] + headOffset : head;
    forTiles(from * group, to * group, PageTiles<Format>{block, work, head, nextHead, pageStart});
    mergePartials(work, from * group, (to - from) * group, stride);
  }
  writeOutputs(block, work);
}

}  // namespace spillway::SPILLWAY_ISA
