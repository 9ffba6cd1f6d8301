// Attention over keys and values in 32-bit and 16-bit floats. Compiled once for each instruction set (simd.h); what is
// computed: attentionParts.h. A score is one fused multiply-add an element of the head, in order; a part's sum over
// values one a token, in order.
#include "AttentionKernels.h"

#include "attentionParts.h"
#include "dotPanels.h"
#include "promptAttention.h"
#include "quantisedAttention.h"
#include "simd.h"
#include "sparseAttention.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// How many vectors of keys or values are worked on together with `queries` queries: as many accumulators as the
// registers hold.
constexpr int tileVectors(int queries) {
  if (SPILLWAY_ISA_LEVEL == 2) return queries > 4 ? 2 : 4;
  if (SPILLWAY_ISA_LEVEL == 3) return queries == 1 ? 4 : queries == 2 ? 2 : 1;
  return queries == 1 ? 4 : queries <= 3 ? 2 : 1;
}

static inline f32x16 loadElements(const float* p) { return load(p); }
static inline f32x16 loadElements(const uint16_t* p) { return loadHalf(p); }

// A line of memory holds so many vectors.
template <typename Element>
constexpr size_t kLineVectors = kCacheLine / (16 * sizeof(Element));

constexpr uint32_t kFloatBlocksAhead = 4;

// scores[q][16 v + lane] = sum over d of queries[q][d] * keys[v][d][lane]
template <typename Element, int Q, int V>
static void scoreTile(const uint8_t* const* keys, const float* queries, size_t headDim, size_t queryStride,
                      float* scores, size_t scoreStride) {
  f32x16 sum[Q][V];
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) sum[q][v] = zero();
  }
  const Element* from[V];
  const uint8_t* ahead[V];
  SPILLWAY_UNROLL(4)
  for (int v = 0; v < V; v++)
    from[v] = reinterpret_cast<const Element*>(keys[v]), ahead[v] = keys[v + kFloatBlocksAhead];
  const auto take = [&](size_t d) __attribute__((always_inline)) {
    f32x16 key[V];
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) key[v] = loadElements(from[v] + d * kKeyBlock);
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      const f32x16 element = set1(queries[q * queryStride + d]);
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < V; v++) sum[q][v] = fma(element, key[v], sum[q][v]);
    }
  };
  constexpr size_t kStep = kLineVectors<Element>;
  size_t d = 0;
  for (; d + kStep <= headDim; d += kStep) {
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) prefetchLine(ahead[v] + d / kStep * kCacheLine);
    SPILLWAY_UNROLL(2)
    for (size_t i = 0; i < kStep; i++) take(d + i);
  }
  for (; d < headDim; d++) take(d);
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) store(scores + q * scoreStride + v * 16, sum[q][v]);
  }
}

// sums[q][16 v + lane] += weights[q][t] * values[t][16 v + lane] for tokens t from `begin` to `end` of a part, in
// order; `element`: the first lane's.
template <typename Element, int Q, int V>
static void valueTile(const uint8_t* const* values, size_t valueStride, size_t element, const float* weights,
                      size_t weightStride, uint32_t begin, uint32_t end, float* sums) {
  f32x16 sum[Q][V];
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) sum[q][v] = load(sums + q * valueStride + v * 16);
  }
  constexpr size_t kLines = (V + kLineVectors<Element> - 1) / kLineVectors<Element>;
  for (uint32_t t = begin; t < end;) {
    const uint32_t b = t / kKeyBlock, inBlock = t % kKeyBlock,
                   tokens = end - t < kKeyBlock - inBlock ? end - t : kKeyBlock - inBlock;
    const Element* from = reinterpret_cast<const Element*>(values[b]) + inBlock * valueStride + element;
    const uint8_t* ahead = values[b + kFloatBlocksAhead] + (inBlock * valueStride + element) * sizeof(Element);
    for (uint32_t i = 0; i < tokens; i++, t++, from += valueStride, ahead += valueStride * sizeof(Element)) {
      SPILLWAY_UNROLL(4)
      for (size_t line = 0; line < kLines; line++) prefetchLine(ahead + line * kCacheLine);
      f32x16 value[V];
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < V; v++) value[v] = loadElements(from + v * 16);
      SPILLWAY_UNROLL(8)
      for (int q = 0; q < Q; q++) {
        const f32x16 weight = set1(weights[q * weightStride + t]);
        SPILLWAY_UNROLL(4)
        for (int v = 0; v < V; v++) sum[q][v] = fma(weight, value[v], sum[q][v]);
      }
    }
  }
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) store(sums + q * valueStride + v * 16, sum[q][v]);
  }
}

// scores[q][k] = queries[q] . rows[k], for a few rows that follow one another
template <typename Element, int Q, int K>
static void scoreRows(const Element* rows, const float* queries, size_t stride, float* scores, size_t scoreStride) {
  f32x16 sum[Q][K];
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    SPILLWAY_UNROLL(2)
    for (int k = 0; k < K; k++) sum[q][k] = zero();
  }
  for (size_t d = 0; d < stride; d += 16) {
    f32x16 key[K];
    SPILLWAY_UNROLL(2)
    for (int k = 0; k < K; k++) key[k] = loadElements(rows + k * stride + d);
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      const f32x16 element = load(queries + q * stride + d);
      SPILLWAY_UNROLL(2)
      for (int k = 0; k < K; k++) sum[q][k] = fma(element, key[k], sum[q][k]);
    }
  }
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    SPILLWAY_UNROLL(2)
    for (int k = 0; k < K; k++) scores[q * scoreStride + k] = reduceAdd(sum[q][k]);
  }
}

template <typename Element, int Q>
static void valueQueries(const Part& part, size_t valueStride, const float* weights, uint32_t begin, uint32_t end,
                         float* sums) {
  constexpr int kVectors = tileVectors(Q);
  const size_t vectors = valueStride / 16;
  size_t v = 0;
  for (; v + kVectors <= vectors; v += kVectors)
    valueTile<Element, Q, kVectors>(part.values, valueStride, v * 16, weights, kPartTokens, begin, end, sums + v * 16);
  for (; v < vectors; v++)
    valueTile<Element, Q, 1>(part.values, valueStride, v * 16, weights, kPartTokens, begin, end, sums + v * 16);
}

template <typename Element>
struct FloatFormat {
  static constexpr uint32_t kBlocksAhead = kFloatBlocksAhead;
  static constexpr bool kSplitsParts = true;

  static void prepareQuery(const CacheLayout&, const Workspace&, uint32_t) {}
  static void preparePart(const CacheLayout&, const Workspace&, const Part&) {}

  template <int Q>
  static void score(const CacheLayout& layout, const Workspace& work, const Part& part, uint32_t first,
                    uint32_t fromBlock, uint32_t toBlock, float* scores, size_t scoreStride) {
    constexpr int kVectors = tileVectors(Q);
    const size_t headDim = layout.headDim, stride = cacheValueStride(layout);
    const float* queries = work.queries + first * stride;
    uint32_t b = fromBlock;
    for (; b + kVectors <= toBlock; b += kVectors)
      scoreTile<Element, Q, kVectors>(part.keys + b, queries, headDim, stride, scores + (b - fromBlock) * kKeyBlock,
                                      scoreStride);
    for (; b < toBlock; b++)
      scoreTile<Element, Q, 1>(part.keys + b, queries, headDim, stride, scores + (b - fromBlock) * kKeyBlock,
                               scoreStride);
  }

  // Tokens that all of these queries see share loads; those that only some see are added query by query, before and
  // after. A query never multiplies a value that it does not see, not even by zero: the value might be infinite.
  template <int Q>
  static void sum(const AttentionBlock& block, const Workspace& work, const Part& part, uint32_t first,
                  float* partial) {
    const size_t stride = cacheValueStride(block.layout);
    const uint32_t group = block.groupHeads;
    const uint32_t begin = visible(block, (first + Q - 1) / group, part.start).begin,
                   end = visible(block, first / group, part.start).end;
    const bool shared = begin < end;
    fill(partial, 0.0f, Q * stride);
    for (uint32_t i = 0; i < Q; i++) {
      const Range range = visible(block, (first + i) / group, part.start);
      const uint32_t alone = shared ? begin : range.end;
      if (range.begin < alone)
        valueQueries<Element, 1>(part, stride, work.scores + i * kPartTokens, range.begin, alone, partial + i * stride);
    }
    if (!shared) return;
    valueQueries<Element, Q>(part, stride, work.scores, begin, end, partial);
    for (uint32_t i = 0; i < Q; i++) {
      const Range range = visible(block, (first + i) / group, part.start);
      if (end < range.end)
        valueQueries<Element, 1>(part, stride, work.scores + i * kPartTokens, end, range.end, partial + i * stride);
    }
  }

  template <int Q>
  static void add(const Part& part, size_t valueStride, const float* weights, uint32_t begin, uint32_t end,
                  float* sums) {
    valueQueries<Element, Q>(part, valueStride, weights, begin, end, sums);
  }

  // Values of single tokens times weights, added to V vectors of sums from `element` on.
  template <int V>
  class Gather {
   public:
    Gather(const CacheLayout& layout, size_t element) : stride_(cacheValueStride(layout)), element_(element) {
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < V; v++) sum_[v] = zero();
    }
    // Asks for what add() will read of a token; `values`: where its block of 16 begins.
    void ask(const uint8_t* values, uint32_t inBlock) const {
      prefetch(reinterpret_cast<const uint8_t*>(place(values, inBlock)), V * 16 * sizeof(Element));
    }
    // Up to 16 tokens.
    void add(const uint8_t* const* values, const uint32_t* positions, const float* weights, uint32_t tokens) {
      for (uint32_t i = 0; i < tokens; i++) {
        const Element* from = place(values[i], positions[i] % kKeyBlock);
        const f32x16 weight = set1(weights[i]);
        SPILLWAY_UNROLL(4)
        for (int v = 0; v < V; v++) sum_[v] = fma(weight, loadElements(from + 16 * v), sum_[v]);
      }
    }
    void write(float* sums) const {
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < V; v++) store(sums + 16 * v, sum_[v]);
    }

   private:
    const Element* place(const uint8_t* values, uint32_t inBlock) const {
      return reinterpret_cast<const Element*>(values) + inBlock * stride_ + element_;
    }
    size_t stride_, element_;
    f32x16 sum_[V];
  };
};

// Keys that are rows, and values at once: a score is a sum of sixteen lanes, and their tree.
template <typename Element>
struct LatentFormat : FloatFormat<Element> {
  template <int Q>
  static void score(const CacheLayout& layout, const Workspace& work, const Part& part, uint32_t first,
                    uint32_t fromBlock, uint32_t toBlock, float* scores, size_t scoreStride) {
    const size_t stride = cacheValueStride(layout);
    const float* queries = work.queries + first * stride;
    for (uint32_t b = fromBlock; b < toBlock; b++) {
      const Element* rows = reinterpret_cast<const Element*>(part.keys[b]);
      for (uint32_t t = 0; t < kKeyBlock; t += kKeys) {
        prefetchLine(part.keys[b + kFloatBlocksAhead] + t * stride * sizeof(Element));
        scoreRows<Element, Q, kKeys>(rows + t * stride, queries, stride, scores + (b - fromBlock) * kKeyBlock + t,
                                     scoreStride);
      }
    }
  }

 private:
  static constexpr int kKeys = SPILLWAY_ISA_LEVEL == 2 ? 2 : 1;
};

void attendLatent(const AttentionBlock* blocks, uint32_t count) {
  if (blocks->layout.type == CacheType::F32) return attendAs<LatentFormat<float>>(blocks, count);
  attendAs<LatentFormat<uint16_t>>(blocks, count);
}

// Those of prompts by rounded keys and values, the others by floats.
void attendHalves(const AttentionBlock* blocks, uint32_t count) {
  const AttentionBlock& block = blocks[0];
  const uint32_t prompt = roundsPrompts(block.layout, block.exact) ? promptTokensOf(block) : 0;
  if (prompt == 0) return attendAs<FloatFormat<uint16_t>>(blocks, count);
  if (prompt == block.tokens) return attendPrompts(blocks, count);
  const AttentionBlock first = tokensOf(block, 0, prompt), rest = tokensOf(block, prompt, block.tokens - prompt);
  attendPrompts(&first, 1);
  attendAs<FloatFormat<uint16_t>>(&rest, 1);
}

void attendBlocks(const AttentionBlock* blocks, uint32_t count) {
  if (blocks->layout.latent) return attendLatent(blocks, count);
  switch (blocks->layout.type) {
    case CacheType::F32: return attendAs<FloatFormat<float>>(blocks, count);
    case CacheType::F16: return attendHalves(blocks, count);
    default: return attendQuantised(blocks, count);
  }
}

static inline void storeElements(float* p, f32x16 v) { store(p, v); }
// What is not finite stays so, and shows in what is made of it.
static inline void storeElements(uint16_t* p, f32x16 v) {
  const f32x16 clamped = min(set1(kLargestHalf), max(set1(-kLargestHalf), v));
  storeHalf(p, selectLess(abs(v), set1(__builtin_inff()), clamped, v));
}

template <typename Element>
static void storeHeads(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys,
                       const float* values) {
  const size_t headDim = layout.headDim, stride = cacheValueStride(layout);
  const auto keyOf = [&](uint32_t head) {
    return reinterpret_cast<Element*>(page + cacheKeysOffset(layout, head)) + index / kKeyBlock * headDim * kKeyBlock +
           index % kKeyBlock;
  };
  // A key's elements stand in a line of memory each, or two in one, and memory was last touched a pass ago: asked for
  // all at once, lines come together.
  for (uint32_t head = 0; head < layout.kvHeads; head++)
    for (size_t d = 0; d < headDim; d += kLineVectors<Element>) __builtin_prefetch(keyOf(head) + d * kKeyBlock, 1);
  for (uint32_t head = 0; head < layout.kvHeads; head++) {
    Element* key = keyOf(head);
    Element* value = reinterpret_cast<Element*>(page + cacheValuesOffset(layout, head)) + index * stride;
    for (size_t d = 0; d < headDim; d += 16) {
      const size_t n = headDim - d < 16 ? headDim - d : 16;
      Element converted[16];
      storeElements(converted, loadPartial(keys + head * headDim + d, n));
      for (size_t i = 0; i < n; i++) key[(d + i) * kKeyBlock] = converted[i];
      storeElements(value + d, loadPartial(values + head * headDim + d, n));
    }
  }
}

template <typename Element>
static void storeRow(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* row) {
  const size_t stride = cacheValueStride(layout);
  Element* to = reinterpret_cast<Element*>(page) + index * stride;
  for (size_t d = 0; d < layout.headDim; d += 16)
    storeElements(to + d, loadPartial(row + d, layout.headDim - d < 16 ? layout.headDim - d : 16));
}

void storeToken(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values) {
  if (layout.latent)
    return layout.type == CacheType::F32 ? storeRow<float>(layout, page, index, keys)
                                         : storeRow<uint16_t>(layout, page, index, keys);
  switch (layout.type) {
    case CacheType::F32: return storeHeads<float>(layout, page, index, keys, values);
    case CacheType::F16: return storeHeads<uint16_t>(layout, page, index, keys, values);
    default: return storeQuantised(layout, page, index, keys, values);
  }
}

}  // namespace

const AttentionKernels& attentionKernels() {
  static const AttentionKernels kernels = {storeToken, attendBlocks, dotPanels};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
