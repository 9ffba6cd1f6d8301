// Attention over keys and values of 8 and 4 bits, which are multiplied as they lie in memory. Compiled once for each
// instruction set (simd.h); what is computed: attentionParts.h.
//
// With a token's codes c, scale s and minimum m in a group of elements
//   q . k          = sum over groups of s (q . c) + m sum(q)
//   sum of w v     = per element, over tokens: sum of (w s) c + sum of w m
// and both products with codes are exact: q, and w s of a part, are rounded to integers, of which the largest of the
// group is 32512, and cut into two signed bytes. Queries that meet keys of 4 bits are rounded to 127 and one byte:
// their steps are a seventeenth of the codes'. (Weights are not: in one byte those of tokens that count little would be
// lost.) Where attention is to be as good as in float32 the largest is 63 * 2^16, in three bytes. Bytes times codes are
// sums of integers, in any order, so that they are as fast as the instruction set can: it multiplies four of them a
// lane at once, where floats would first have to be made of the codes.
#include "quantisedAttention.h"

#include "hadamard.h"
#include "cacheDots.h"
#include "sparseAttention.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// Blocks of few bits are done soon: with 4, AVX-512 waits a tenth of its time for memory. AVX2 does not, and takes a
// tenth longer with 8 where rows are short.
template <int Bits>
constexpr uint32_t kQuantisedBlocksAhead = Bits == 8 && SPILLWAY_ISA_LEVEL == 1 ? 4 : 8;

// Plain scores of Q queries with B blocks of 16 keys, from `block` on.
template <int Bits, int Digits, int Q, int B>
static void scoreBlocks(const CacheLayout& layout, const Workspace& work, const Part& part, uint32_t first,
                        uint32_t block, float* scores, size_t scoreStride) {
  constexpr int U = unitsOf(Q, Digits, B);
  constexpr size_t kGroupLines = kCacheGroup * Bits / 32;
  const size_t lines = cacheKeyLines(layout), groups = cacheGroups(layout);
  const QuantisedQuery query = queryAt(layout, work, first);
  const size_t floats = attentionQuantisedFloats(layout);
  const DigitStrides strides = {floats * sizeof(float), attentionQueryBytes(layout)};
  const size_t keyBytes = cacheKeyBlockBytes(layout), valueBytes = cacheValueBlockBytes(layout);
  for (size_t g = 0; g < groups; g++) {
    float sums[Q][B * 16];
    const size_t groupLines = lines - g * kGroupLines < kGroupLines ? lines - g * kGroupLines : kGroupLines;
    SPILLWAY_UNROLL(4)
    for (int unit = 0; unit < B * kUnitsPerLine; unit += U) {
      const uint8_t* units[U];
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) {
        const size_t at = static_cast<size_t>(unit + u);
        units[u] =
            part.keys[block + at / kUnitsPerLine] + g * kGroupLines * kCacheLine + at % kUnitsPerLine * kUnitLanes * 4;
      }
      keyTile<Bits, Digits, Q, U>(units, groupLines, query.elements + g * kCacheGroup * kOperandBytes<Digits>, strides,
                                  &sums[0][unit * kUnitLanes], B * 16);
    }
    for (int b = 0; b < B; b++) {
      if (first == 0 && g == 0) {  // the first queries bring keys and values for all, a block at a time
        if (!part.allValues || block + b + kQuantisedBlocksAhead<Bits> < part.toBlock)
          prefetch(part.keys[block + b + kQuantisedBlocksAhead<Bits>], keyBytes);
        if (part.allValues) prefetch(part.values[block + b], valueBytes);
      }
      const uint16_t* scales = reinterpret_cast<const uint16_t*>(part.keys[block + b] + (lines + g) * kCacheLine);
      const f32x16 scale = loadHalf(scales), minimum = loadHalf(scales + 16);
      SPILLWAY_UNROLL(8)
      for (int q = 0; q < Q; q++) {
        float* score = scores + q * scoreStride + b * 16;
        const f32x16 sum = set1(query.sum[q * floats + g]), step = set1(query.step[q * floats + g]);
        const f32x16 before = g == 0 ? mul(minimum, sum) : fma(minimum, sum, load(score));
        store(score, fma(mul(scale, step), load(&sums[q][b * 16]), before));
      }
    }
  }
}

// partial[q][16 (vector + v) + lane] for V vectors of elements of one group, the blocks of 16 tokens from `fromBlock`
// to `toBlock`.
template <int Bits, int Digits, int Plane, int Q, int V>
static void sumVectors(const CacheLayout& layout, const Workspace& work, const Part& part, uint32_t fromBlock,
                       uint32_t toBlock, size_t vector, float* partial) {
  constexpr int U = unitsOf(Q, Digits, V);
  const size_t stride = cacheValueStride(layout), g = vector / (kCacheGroup / 16);
  const size_t floats = attentionWeightFloats(layout);
  const QuantisedWeights weights = weightsAt(layout, work, 0);
  const DigitStrides strides = {floats * sizeof(float), kPartTokens};
  const int8_t* bytes = weights.elements + g * Digits * kPartTokens + fromBlock * kKeyBlock * kOperandBytes<Digits>;
  float sums[Q][V * 16];
  SPILLWAY_UNROLL(4)
  for (int unit = 0; unit < V * kUnitsPerLine; unit += U) {
    size_t units[U];
    SPILLWAY_UNROLL(4)
    for (int u = 0; u < U; u++) {
      const size_t at = static_cast<size_t>(unit + u),
                   line = Bits == 4 ? (vector + at / kUnitsPerLine) / 2 : vector + at / kUnitsPerLine;
      units[u] = line * kCacheLine + at % kUnitsPerLine * kUnitLanes * 4;
    }
    valueTile<Bits, Digits, Plane, Q, U>(part.values + fromBlock, toBlock - fromBlock, units,
                                         cacheValueLines(layout) * kCacheLine, bytes, strides,
                                         &sums[0][unit * kUnitLanes], V * 16);
  }
  SPILLWAY_UNROLL(8)
  for (int q = 0; q < Q; q++) {
    const f32x16 step = set1(weights.step[q * floats + g]), minima = set1(weights.minima[q * floats + g]);
    for (int v = 0; v < V; v++)
      store(partial + q * stride + (vector + v) * 16, fma(step, load(&sums[q][v * 16]), minima));
  }
}

// ---- The format.

// Queries as so many bytes an element, weights as so many.
template <int Bits, int QueryDigits, int WeightDigits>
struct QuantisedFormat {
  static constexpr uint32_t kBlocksAhead = kQuantisedBlocksAhead<Bits>;
  // The step of a part's weights belongs to all of it.
  static constexpr bool kSplitsParts = false;

  static void prepareQuery(const CacheLayout& layout, const Workspace& work, uint32_t q) {
    const size_t headDim = layout.headDim, padded = attentionQueryBytes(layout);
    const QuantisedQuery query = queryAt(layout, work, q);
    for (size_t g = 0; g < cacheGroups(layout); g++) {
      const size_t begin = g * kCacheGroup, n = headDim - begin < kCacheGroup ? headDim - begin : kCacheGroup;
      const float* elements = work.queries + q * cacheValueStride(layout) + begin;
      float turned[kMostHadamard];
      if (Bits == 4) {
        hadamard(elements, n, hadamardQueryFactor(n), turned);
        elements = turned;
      }
      f32x16 most = zero(), sum = zero();
      for (size_t d = 0; d < n; d += 16) most = max(abs(loadPartial(elements + d, n - d < 16 ? n - d : 16)), most);
      const Step step = stepOf<QueryDigits>(reduceMax(most));
      // The sum, too, is one of the rounded elements: as if these were the query, which keeps codes' own mean out of
      // the error.
      for (size_t d = 0; d < n; d += 16)
        sum =
            add(sum, storeOperands<QueryDigits>(loadPartial(elements + d, n - d < 16 ? n - d : 16), set1(step.inverse),
                                                query.elements + (begin + d) * kOperandBytes<QueryDigits>, padded));
      query.step[g] = step.step;
      query.sum[g] = step.step * reduceAdd(sum);
    }
  }

  static void preparePart(const CacheLayout&, const Workspace&, const Part&) {}

  template <int Q>
  static void score(const CacheLayout& layout, const Workspace& work, const Part& part, uint32_t first,
                    uint32_t fromBlock, uint32_t toBlock, float* scores, size_t scoreStride) {
    constexpr uint32_t B = tileLines(Q, QueryDigits);
    uint32_t b = fromBlock;
    for (; b + B <= toBlock; b += B)
      scoreBlocks<Bits, QueryDigits, Q, B>(layout, work, part, first, b, scores + (b - fromBlock) * kKeyBlock,
                                           scoreStride);
    for (; b < toBlock; b++)
      scoreBlocks<Bits, QueryDigits, Q, 1>(layout, work, part, first, b, scores + (b - fromBlock) * kKeyBlock,
                                           scoreStride);
  }

  template <int Q>
  static void sum(const AttentionBlock& block, const Workspace& work, const Part& part, uint32_t first,
                  float* partial) {
    const CacheLayout& layout = block.layout;
    const TileRanges<Q> ranges(block, first, part.start);
    const uint32_t from = ranges.fromBlock, to = ranges.toBlock;
    prepareWeights<WeightDigits, Q>(layout, work, part, ranges);
    if (first == 0) {  // the next part's keys
      const size_t keyBytes = cacheKeyBlockBytes(layout);
      for (uint32_t b = 0; b < kBlocksAhead; b++) prefetch(part.values[part.toBlock + b], keyBytes);
    }
    constexpr int kVectors = tileLines(Q, WeightDigits);
    const size_t vectors = cacheValueStride(layout) / 16;
    for (size_t vector = 0; vector < vectors;) {
      const size_t left = kCacheGroup / 16 - vector % (kCacheGroup / 16);
      if (kVectors > 1 && left >= kVectors && vector + kVectors <= vectors) {
        sumVectors<Bits, WeightDigits, 0, Q, kVectors>(layout, work, part, from, to, vector, partial);
        vector += kVectors;
      } else if (Bits == 4 && vector % 2 == 1) {
        sumVectors<Bits, WeightDigits, 1, Q, 1>(layout, work, part, from, to, vector, partial);
        vector++;
      } else {
        sumVectors<Bits, WeightDigits, 0, Q, 1>(layout, work, part, from, to, vector, partial);
        vector++;
      }
    }
  }

  // Values of single tokens times weights, added to V vectors of sums from `element` on, a multiple of kCacheGroup.
  template <int V>
  class Gather {
   public:
    Gather(const CacheLayout& layout, size_t element)
        : lines_(cacheValueLines(layout)),
          line_(element / (128 / Bits)),
          scales_(4 * lines_ + element / kCacheGroup),
          minima_(zero()) {
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < V; v++) sum_[v] = zero();
    }
    // Asks for what add() will read of a token; `values`: where its block of 16 begins.
    void ask(const uint8_t* values, uint32_t inBlock) const {
      prefetch(place(values, inBlock), V * kCacheLine * Bits / 8);
      prefetchLine(values + scales_ * kCacheLine);
    }
    // Up to 16 tokens.
    void add(const uint8_t* const* values, const uint32_t* positions, const float* weights, uint32_t tokens) {
      uint16_t scales[16] = {}, minima[16] = {};
      for (uint32_t i = 0; i < tokens; i++) {
        const uint8_t* halves = values[i] + scales_ * kCacheLine + positions[i] % kKeyBlock * 2;
        __builtin_memcpy(&scales[i], halves, 2);
        __builtin_memcpy(&minima[i], halves + 32, 2);
      }
      const f32x16 weight = load(weights);
      float scaled[16];
      store(scaled, mul(weight, loadHalf(scales)));
      minima_ = fma(weight, loadHalf(minima), minima_);
      for (uint32_t i = 0; i < tokens; i++) {
        const uint8_t* line = place(values[i], positions[i] % kKeyBlock);
        const int shift = static_cast<int>(positions[i] % 4) * 8;
        const f32x16 own = set1(scaled[i]);
        SPILLWAY_UNROLL(4)
        for (int v = 0; v < V; v++) {
          const f32x16 codes = Bits == 4 ? codesToFloat<4>(line + v / 2 * kCacheLine, shift + v % 2 * 4)
                                         : codesToFloat<8>(line + v * kCacheLine, shift);
          sum_[v] = fma(own, codes, sum_[v]);
        }
      }
    }
    void write(float* sums) const {
      const f32x16 minima = set1(reduceAdd(minima_));
      SPILLWAY_UNROLL(4)
      for (int v = 0; v < V; v++) store(sums + 16 * v, spillway::SPILLWAY_ISA::add(sum_[v], minima));
    }

   private:
    const uint8_t* place(const uint8_t* values, uint32_t inBlock) const {
      return values + (inBlock / 4 * lines_ + line_) * kCacheLine;
    }
    size_t lines_, line_, scales_;
    f32x16 minima_;
    f32x16 sum_[V];
  };
};

}  // namespace

void attendQuantised(const AttentionBlock* blocks, uint32_t count) {
  if (blocks->layout.type == CacheType::Q8) {
    if constexpr (SPILLWAY_ISA_LEVEL == 4)
      __builtin_trap();  // AVX2's are faster: avxvnni/kernels.cpp
    else
      blocks->exact ? attendAs<QuantisedFormat<8, 3, 3>>(blocks, count)
                    : attendAs<QuantisedFormat<8, 2, 2>>(blocks, count);
  } else {
    blocks->exact ? attendAs<QuantisedFormat<4, 3, 3>>(blocks, count)
                  : attendAs<QuantisedFormat<4, 1, 2>>(blocks, count);
  }
}

}  // namespace spillway::SPILLWAY_ISA
