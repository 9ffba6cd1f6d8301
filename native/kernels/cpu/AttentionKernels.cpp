// Attention over keys and values in 32-bit and 16-bit floats. Compiled once for each instruction set (simd.h); what is computed: attentionParts.h.
// A score is one fused multiply-add an element of the head, in order; a page's sum over values one a token, in order.
#include "AttentionKernels.h"

#include "attentionParts.h"
#include "quantisedAttention.h"
#include "simd.h"
#include "sparseAttention.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// How many vectors of keys or values are worked on together with `queries` queries: as many accumulators as the registers hold.
constexpr int tileVectors(int queries) {
  if (SPILLWAY_ISA_LEVEL == 2) return queries > 4 ? 2 : 4;
  return queries > 2 ? 1 : 2;
}

static inline f32x16 loadElements(const float* p) { return load(p); }
static inline f32x16 loadElements(const uint16_t* p) { return loadHalf(p); }

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

template <typename Element, int Q>
static void floatTile(const AttentionBlock& block, const Workspace& work, const Element* keys, const Element* values, const char* nextKeys, uint32_t first,
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
  const char* ahead = nextKeys;
  for (uint32_t i = 0; i < Q; i++) {
    const uint32_t q = first + i;
    const Range range = visible(block, q / group, pageStart);
    softmaxPartial(ruleOf(block, q), scores + i * pageTokens, pageStart, range, work.pageMaximum + q, work.pageSum + q);
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
struct FloatFormat {
  static void prepareQuery(const CacheLayout&, const Workspace&, uint32_t) {}
  template <int Q>
  static void attendTile(const AttentionBlock& block, const Workspace& work, const uint8_t* head, const uint8_t* nextHead, uint32_t first, uint32_t pageStart) {
    const Element* values = reinterpret_cast<const Element*>(head + cacheValuesOffset(block.layout));
    floatTile<Element, Q>(block, work, reinterpret_cast<const Element*>(head), values, reinterpret_cast<const char*>(nextHead), first, pageStart);
  }
  template <int Q>
  static void scoreTile(const AttentionBlock& block, const Workspace& work, const uint8_t* head, uint32_t first, uint32_t keyBlock, uint32_t keyBlocks, float* scores,
                        size_t scoreStride, const uint8_t* ahead) {
    const size_t headDim = block.layout.headDim, stride = cacheValueStride(block.layout);
    scoreQueries<Element, Q>(reinterpret_cast<const Element*>(head) + keyBlock * headDim * kKeyBlock, keyBlocks, work.queries + first * stride, headDim, stride, scores,
                             scoreStride, reinterpret_cast<const char*>(ahead));
  }
  template <int V>
  static void loadValues(const CacheLayout& layout, const uint8_t* head, uint32_t index, size_t element, f32x16 (&values)[V]) {
    const Element* from = reinterpret_cast<const Element*>(head + cacheValuesOffset(layout)) + index * cacheValueStride(layout) + element;
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) values[v] = loadElements(from + 16 * v);
  }
  // Where a token's values are, for prefetching.
  static const uint8_t* valuesOf(const CacheLayout& layout, const uint8_t* head, uint32_t index, size_t element) {
    return head + cacheValuesOffset(layout) + (index * cacheValueStride(layout) + element) * sizeof(Element);
  }
};

void attendBlock(const AttentionBlock& block) {
  switch (block.layout.type) {
    case CacheType::F32: return attendAs<FloatFormat<float>>(block);
    case CacheType::F16: return attendAs<FloatFormat<uint16_t>>(block);
    default: return attendQuantised(block);
  }
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
  switch (layout.type) {
    case CacheType::F32: return storeHeads<float>(layout, page, index, keys, values);
    case CacheType::F16: return storeHeads<uint16_t>(layout, page, index, keys, values);
    default: return storeQuantised(layout, page, index, keys, values);
  }
}

}  // namespace

const AttentionKernels& attentionKernels() {
  static const AttentionKernels kernels = {storeToken, attendBlock};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
