// Attention over keys and values of 8 and 4 bits, which are multiplied as they lie in memory. Compiled once for each instruction set (simd.h);
// what is computed: attentionParts.h.
//
// With a token's codes c, scale s and minimum m in a group of elements
//   q . k          = sum over groups of s (q . c) + m sum(q)
//   sum of w v     = per element, over tokens: sum of (w s) c + sum of w m
// and both products with codes are exact: q, and w s of a page, are rounded to integers, of which the largest of the group is 32512 (63 * 2^16 where
// attention is to be as good as in float32), and cut into two (three) signed bytes. The codes' own rounding is some hundred times coarser. Bytes times
// codes are sums of integers, in any order, so that they are as fast as the instruction set can: it multiplies four of them a lane at once,
// where floats would first have to be made of the codes.
#include "quantisedAttention.h"

#include "attentionParts.h"
#include "hadamard.h"
#include "simdBytes.h"
#include "sparseAttention.h"

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr float kLeastScaled = 1e-30f;  // below it numbers count as zero, so that the inverse of a scale is finite
// The largest integer of so many bytes, chosen so that rounding and cutting never carry beyond a byte.
constexpr float mostOf(int digits) { return digits == 2 ? 127.0f * 256 : 63.0f * 65536; }

// What a query brings along (attentionQuantisedFloats).
struct QuantisedQuery {
  int8_t* elements;  // [digits][attentionQueryBytes()], lowest first
  int8_t* weights;   // [groups][digits][pageTokens]
  float *step, *sum;                 // [groups]: what a unit of `elements` is worth; sum of the elements
  float *weightStep, *weightMinima;  // [groups]: likewise of `weights`; sum of weights times minima
};

static inline QuantisedQuery queryAt(const CacheLayout& layout, const Workspace& work, uint32_t q) {
  const size_t groups = cacheGroups(layout);
  QuantisedQuery query;
  float* next = work.quantised + q * attentionQuantisedFloats(layout);
  query.step = next, next += groups;
  query.sum = next, next += groups;
  query.weightStep = next, next += groups;
  query.weightMinima = next, next += groups;
  query.elements = reinterpret_cast<int8_t*>(next);
  query.weights = query.elements + 3 * attentionQueryBytes(layout);
  return query;
}

// Signed bytes of each x * inverse, rounded: value = low + 256 middle + 65536 high, `stride` bytes apart; with two of them low + 256 middle.
template <int Digits>
static inline void cutIntoBytes(f32x16 x, f32x16 inverse, int8_t* bytes, size_t stride) {
  const f32x16 magic = set1(12582912.0f);  // 1.5 * 2^23: the sum is a whole number, in the low bits
  i32x16 rest = sub(asInt(add(mul(x, inverse), magic)), asInt(magic));
  SPILLWAY_UNROLL(3)
  for (int digit = 0; digit < Digits; digit++) {
    const i32x16 low = shiftRight<24>(shiftLeft<24>(rest));
    storeBytes(bytes + digit * stride, low);
    rest = shiftRight<8>(sub(rest, low));
  }
}

// What a unit of the integers is worth where the largest number is `most`, and how many units 1 is.
struct Step {
  float step, inverse;
};
template <int Digits>
static inline Step stepOf(float most) {
  if (!(most >= kLeastScaled)) return {0.0f, 0.0f};
  return {most / mostOf(Digits), mostOf(Digits) / most};
}

// How many units of lanes are worked on together with `queries` queries, a sum a digit each: as many as the registers hold.
constexpr int kUnitsPerLine = 16 / kUnitLanes;
constexpr int tileUnits(int queries, int digits) {
  const int sums = queries * digits, most = SPILLWAY_ISA_LEVEL == 2 ? 24 : 12;
  return 4 * sums <= most ? 4 : 2 * sums <= most ? 2 : 1;
}
// The same in whole lines, one at least; and units of `lines` lines at once.
constexpr int tileLines(int queries, int digits) { return tileUnits(queries, digits) < kUnitsPerLine ? 1 : tileUnits(queries, digits) / kUnitsPerLine; }
constexpr int unitsOf(int queries, int digits, int lines) {
  return tileUnits(queries, digits) < lines * kUnitsPerLine ? tileUnits(queries, digits) : lines * kUnitsPerLine;
}

#define SPILLWAY_EACH_SUM          \
  SPILLWAY_UNROLL(8)               \
  for (int q = 0; q < Q; q++)      \
    SPILLWAY_UNROLL(3)             \
    for (int digit = 0; digit < Digits; digit++) \
      SPILLWAY_UNROLL(4)           \
      for (int u = 0; u < U; u++)

// The sums of Q queries and U units: exact, of each digit.
template <int Digits, int Q, int U>
struct DotTile {
  Wide wide[Q][Digits][U];

  void clear() {
    SPILLWAY_EACH_SUM wide[q][digit][u] = zeroWide();
  }
  template <int Shift>
  void take(const Dots (&dots)[Q][Digits][U]) {
    SPILLWAY_EACH_SUM wide[q][digit][u] = widen<Shift>(wide[q][digit][u], dots[q][digit][u]);
  }
  void write(float* to, size_t queryStride) const {
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) {
        float* lanes = to + q * queryStride + u * kUnitLanes;
        if (Digits == 2) combine(lanes, wide[q][1][u], wide[q][0][u]);
        else combine(lanes, wide[q][Digits - 1][u], wide[q][1][u], wide[q][0][u]);
      }
    }
  }
};

template <int Digits, int Q, int U>
static inline void clearDots(Dots (&dots)[Q][Digits][U]) {
  SPILLWAY_EACH_SUM dots[q][digit][u] = zeroDots();
}

// Four codes a lane times four bytes a query and digit; `bytes`: those of the first query's lowest digit.
template <int Digits, int Q, int U>
static inline __attribute__((always_inline)) void addDots(Dots (&dots)[Q][Digits][U], const Codes (&codes)[U], const int8_t* bytes, size_t digitStride, size_t queryStride) {
  SPILLWAY_EACH_SUM dots[q][digit][u] = dot(dots[q][digit][u], codes[u], bytes + q * queryStride + digit * digitStride);
}
#undef SPILLWAY_EACH_SUM

// Bytes of a tile's queries: from query to query, from digit to digit.
struct DigitStrides {
  size_t query, digit;
};

// ---- Keys.

// `lines` lines of keys, plane by plane where dot() needs it.
template <int Bits, int Digits, int Plane, int Shift, int Q, int U>
static inline void keyLines(DotTile<Digits, Q, U>& tile, const uint8_t* const (&units)[U], size_t lines, const int8_t* bytes, DigitStrides strides) {
  Dots dots[Q][Digits][U];
  clearDots<Digits, Q, U>(dots);
  for (size_t line = 0; line < lines; line++) {
    Codes codes[U], plane[U];
    SPILLWAY_UNROLL(4)
    for (int u = 0; u < U; u++) codes[u] = loadCodes(units[u] + line * kCacheLine), plane[u] = codesOf(codes[u], Plane);
    addDots<Digits, Q, U>(dots, plane, bytes, strides.digit, strides.query);
    bytes += 4;
    if (Bits == 4) {
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) plane[u] = codesOf(codes[u], 1);
      addDots<Digits, Q, U>(dots, plane, bytes, strides.digit, strides.query);
      bytes += 4;
    }
  }
  tile.template take<Shift>(dots);
}

// to[q][lane] = the queries' integers times the codes of `lines` lines.
template <int Bits, int Digits, int Q, int U>
static inline void keyTile(const uint8_t* const (&first)[U], size_t lines, const int8_t* bytes, DigitStrides strides, float* to, size_t toStride) {
  constexpr size_t kMostLines = Bits == 4 ? kMostDots / 2 : kMostDots;
  DotTile<Digits, Q, U> tile;
  tile.clear();
  const uint8_t* units[U];
  for (int u = 0; u < U; u++) units[u] = first[u];
  for (size_t done = 0; done < lines;) {
    const size_t now = lines - done < kMostLines ? lines - done : kMostLines;
    if (Bits == 4) {
      keyLines<4, Digits, 0, 0, Q, U>(tile, units, now, bytes, strides);
    } else if (kBytePlanes == 1) {
      keyLines<8, Digits, kWholeBytes, 0, Q, U>(tile, units, now, bytes, strides);
    } else {
      keyLines<8, Digits, 0, 0, Q, U>(tile, units, now, bytes, strides);
      keyLines<8, Digits, 1, 4, Q, U>(tile, units, now, bytes, strides);
    }
    done += now;
    bytes += now * (Bits == 4 ? 8 : 4);
    for (int u = 0; u < U; u++) units[u] += now * kCacheLine;
  }
  tile.write(to, toStride);
}

// Plain scores of Q queries with B blocks of 16 keys.
template <int Bits, int Digits, int Q, int B>
static void scoreBlocks(const CacheLayout& layout, const Workspace& work, uint32_t first, const uint8_t* blocks, float* scores, size_t scoreStride) {
  constexpr int U = unitsOf(Q, Digits, B);
  constexpr size_t kGroupLines = kCacheGroup * Bits / 32;
  const size_t lines = cacheKeyLines(layout), blockBytes = cacheKeyBlockBytes(layout), groups = cacheGroups(layout);
  const QuantisedQuery query = queryAt(layout, work, first);
  const size_t floats = attentionQuantisedFloats(layout);
  const DigitStrides strides = {floats * sizeof(float), attentionQueryBytes(layout)};
  for (size_t g = 0; g < groups; g++) {
    float sums[Q][B * 16];
    const size_t groupLines = lines - g * kGroupLines < kGroupLines ? lines - g * kGroupLines : kGroupLines;
    for (int unit = 0; unit < B * kUnitsPerLine; unit += U) {
      const uint8_t* units[U];
      for (int u = 0; u < U; u++) {
        const size_t at = static_cast<size_t>(unit + u);
        units[u] = blocks + at / kUnitsPerLine * blockBytes + g * kGroupLines * kCacheLine + at % kUnitsPerLine * kUnitLanes * 4;
      }
      keyTile<Bits, Digits, Q, U>(units, groupLines, query.elements + g * kCacheGroup, strides, &sums[0][unit * kUnitLanes], B * 16);
    }
    for (int b = 0; b < B; b++) {
      const uint16_t* scales = reinterpret_cast<const uint16_t*>(blocks + b * blockBytes + (lines + g) * kCacheLine);
      const f32x16 scale = loadHalf(scales), minimum = loadHalf(scales + 16);
      for (int q = 0; q < Q; q++) {
        float* score = scores + q * scoreStride + b * 16;
        const f32x16 sum = set1(query.sum[q * floats + g]), step = set1(query.step[q * floats + g]);
        const f32x16 before = g == 0 ? mul(minimum, sum) : fma(minimum, sum, load(score));
        store(score, fma(mul(scale, step), load(&sums[q][b * 16]), before));
      }
    }
  }
}

template <int Bits, int Digits, int Q>
static void scoreKeys(const CacheLayout& layout, const Workspace& work, const uint8_t* head, uint32_t first, uint32_t keyBlock, uint32_t keyBlocks, float* scores,
                      size_t scoreStride, const char* ahead) {
  constexpr uint32_t B = tileLines(Q, Digits);
  const size_t blockBytes = cacheKeyBlockBytes(layout);
  const uint8_t* blocks = head + keyBlock * blockBytes;
  uint32_t b = 0;
  for (; b + B <= keyBlocks; b += B) {
    prefetch(ahead, B * blockBytes);
    scoreBlocks<Bits, Digits, Q, B>(layout, work, first, blocks + b * blockBytes, scores + b * 16, scoreStride);
  }
  for (; b < keyBlocks; b++) {
    prefetch(ahead, blockBytes);
    scoreBlocks<Bits, Digits, Q, 1>(layout, work, first, blocks + b * blockBytes, scores + b * 16, scoreStride);
  }
}

// ---- Values.

// `blocks` blocks of 16 tokens; `units` are in the first of them. Unit u is of plane Plane + u / kUnitsPerLine where nibbles hold elements of their own.
template <int Bits, int Digits, int Plane, int Shift, int Q, int U>
static inline void valueBlocks(DotTile<Digits, Q, U>& tile, const uint8_t* const (&units)[U], size_t quadBytes, size_t blockBytes, size_t blocks, const int8_t* bytes,
                               DigitStrides strides) {
  Dots dots[Q][Digits][U];
  clearDots<Digits, Q, U>(dots);
  for (size_t block = 0; block < blocks; block++) {
    for (size_t quad = 0; quad < 4; quad++, bytes += 4) {
      Codes codes[U];
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++)
        codes[u] = codesOf(loadCodes(units[u] + block * blockBytes + quad * quadBytes), Bits == 4 ? (Plane + u / kUnitsPerLine) % 2 : Plane);
      addDots<Digits, Q, U>(dots, codes, bytes, strides.digit, strides.query);
    }
  }
  tile.template take<Shift>(dots);
}

template <int Bits, int Digits, int Plane, int Q, int U>
static inline void valueTile(const uint8_t* const (&first)[U], size_t quadBytes, size_t blockBytes, size_t blocks, const int8_t* bytes, DigitStrides strides, float* to,
                             size_t toStride) {
  constexpr size_t kMostBlocks = kMostDots / 4;
  DotTile<Digits, Q, U> tile;
  tile.clear();
  const uint8_t* units[U];
  for (int u = 0; u < U; u++) units[u] = first[u];
  for (size_t done = 0; done < blocks;) {
    const size_t now = blocks - done < kMostBlocks ? blocks - done : kMostBlocks;
    if (Bits == 4) {
      valueBlocks<4, Digits, Plane, 0, Q, U>(tile, units, quadBytes, blockBytes, now, bytes, strides);
    } else if (kBytePlanes == 1) {
      valueBlocks<8, Digits, kWholeBytes, 0, Q, U>(tile, units, quadBytes, blockBytes, now, bytes, strides);
    } else {
      valueBlocks<8, Digits, 0, 0, Q, U>(tile, units, quadBytes, blockBytes, now, bytes, strides);
      valueBlocks<8, Digits, 1, 4, Q, U>(tile, units, quadBytes, blockBytes, now, bytes, strides);
    }
    done += now;
    bytes += now * 16;
    for (int u = 0; u < U; u++) units[u] += now * blockBytes;
  }
  tile.write(to, toStride);
}

// partial[q][16 (vector + v) + lane] for V vectors of elements of one group, all blocks of one page.
template <int Bits, int Digits, int Plane, int Q, int V>
static void sumVectors(const CacheLayout& layout, const Workspace& work, uint32_t first, const uint8_t* values, uint32_t fromBlock, uint32_t blocks, size_t vector) {
  constexpr int U = unitsOf(Q, Digits, V);
  const size_t stride = cacheValueStride(layout), g = vector / (kCacheGroup / 16), blockBytes = cacheValueBlockBytes(layout);
  const size_t floats = attentionQuantisedFloats(layout);
  const QuantisedQuery query = queryAt(layout, work, first);
  const DigitStrides strides = {floats * sizeof(float), layout.pageTokens};
  const int8_t* bytes = query.weights + g * Digits * layout.pageTokens + fromBlock * kKeyBlock;
  float sums[Q][V * 16];
  for (int unit = 0; unit < V * kUnitsPerLine; unit += U) {
    const uint8_t* units[U];
    for (int u = 0; u < U; u++) {
      const size_t at = static_cast<size_t>(unit + u), line = Bits == 4 ? (vector + at / kUnitsPerLine) / 2 : vector + at / kUnitsPerLine;
      units[u] = values + fromBlock * blockBytes + line * kCacheLine + at % kUnitsPerLine * kUnitLanes * 4;
    }
    valueTile<Bits, Digits, Plane, Q, U>(units, cacheValueLines(layout) * kCacheLine, blockBytes, blocks, bytes, strides, &sums[0][unit * kUnitLanes], V * 16);
  }
  for (int q = 0; q < Q; q++) {
    const f32x16 step = set1(query.weightStep[q * floats + g]), minima = set1(query.weightMinima[q * floats + g]);
    float* partial = work.partial + (first + q) * stride + vector * 16;
    for (int v = 0; v < V; v++) store(partial + v * 16, fma(step, load(&sums[q][v * 16]), minima));
  }
}

template <int Bits, int Digits, int Q>
static void sumValues(const CacheLayout& layout, const Workspace& work, uint32_t first, const uint8_t* values, uint32_t fromBlock, uint32_t blocks, const char* ahead) {
  constexpr int kVectors = tileLines(Q, Digits);
  const size_t vectors = cacheValueStride(layout) / 16;
  for (size_t vector = 0; vector < vectors;) {
    // What is read next is asked for evenly while this is read.
    prefetch(ahead, (blocks * cacheKeyBlockBytes(layout) / vectors + 64) / 64 * 64);
    const size_t left = kCacheGroup / 16 - vector % (kCacheGroup / 16);
    if (kVectors > 1 && left >= kVectors && vector + kVectors <= vectors) {
      sumVectors<Bits, Digits, 0, Q, kVectors>(layout, work, first, values, fromBlock, blocks, vector);
      vector += kVectors;
    } else if (Bits == 4 && vector % 2 == 1) {
      sumVectors<Bits, Digits, 1, Q, 1>(layout, work, first, values, fromBlock, blocks, vector);
      vector++;
    } else {
      sumVectors<Bits, Digits, 0, Q, 1>(layout, work, first, values, fromBlock, blocks, vector);
      vector++;
    }
  }
}

// A query's weights in one page, for each group: times the tokens' scales, as integers; and times their minima, summed. Only blocks of tokens from `fromBlock`
// to `toBlock` are needed; those that the query does not see get zero, as integers, so that what they hold does not matter.
template <int Digits>
static void prepareWeights(const CacheLayout& layout, const Workspace& work, uint32_t q, float* weights, Range range, const uint8_t* values, uint32_t fromBlock,
                           uint32_t toBlock) {
  const size_t pageTokens = layout.pageTokens, blockBytes = cacheValueBlockBytes(layout), lines = 4 * cacheValueLines(layout);
  const QuantisedQuery query = queryAt(layout, work, q);
  float scaled[kMaxPageTokens];
  for (uint32_t b = fromBlock; b < toBlock; b++)
    if ((b + 1) * kKeyBlock <= range.begin || b * kKeyBlock >= range.end) store(weights + b * kKeyBlock, zero());
  for (size_t g = 0; g < cacheGroups(layout); g++) {
    f32x16 most = zero(), minima = zero();
    for (uint32_t b = fromBlock; b < toBlock; b++) {
      const uint16_t* scales = reinterpret_cast<const uint16_t*>(values + b * blockBytes + (lines + g) * kCacheLine);
      const f32x16 weight = load(weights + b * kKeyBlock);
      f32x16 ofScale = mul(weight, loadHalf(scales)), ofMinimum = mul(weight, loadHalf(scales + 16));
      if (b * kKeyBlock < range.begin || (b + 1) * kKeyBlock > range.end) {
        ofScale = selectLess(zero(), weight, ofScale, zero());
        ofMinimum = selectLess(zero(), weight, ofMinimum, zero());
      }
      store(scaled + b * kKeyBlock, ofScale);
      most = max(ofScale, most);
      minima = add(minima, ofMinimum);
    }
    const float largest = reduceMax(most);
    const Step step = stepOf<Digits>(largest);
    query.weightStep[g] = step.step;
    query.weightMinima[g] = reduceAdd(minima);
    const f32x16 inverse = set1(step.inverse);
    int8_t* bytes = query.weights + g * Digits * pageTokens;
    for (uint32_t b = fromBlock; b < toBlock; b++) cutIntoBytes<Digits>(load(scaled + b * kKeyBlock), inverse, bytes + b * kKeyBlock, pageTokens);
  }
}

// ---- The format.

template <int Bits, int Digits>
struct QuantisedFormat {
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
      for (size_t d = 0; d < n; d += 16) {
        const f32x16 x = loadPartial(elements + d, n - d < 16 ? n - d : 16);
        most = max(abs(x), most);
        sum = add(sum, x);
      }
      const float largest = reduceMax(most);
      const Step step = stepOf<Digits>(largest);
      query.step[g] = step.step;
      query.sum[g] = reduceAdd(sum);
      for (size_t d = 0; d < n; d += 16) {
        int8_t bytes[Digits][16];
        cutIntoBytes<Digits>(loadPartial(elements + d, n - d < 16 ? n - d : 16), set1(step.inverse), bytes[0], 16);
        const size_t room = padded - begin - d;
        for (int digit = 0; digit < Digits; digit++) __builtin_memcpy(query.elements + digit * padded + begin + d, bytes[digit], room < 16 ? room : 16);
      }
    }
  }

  template <int Q>
  static void attendTile(const AttentionBlock& block, const Workspace& work, const uint8_t* head, const uint8_t* nextHead, uint32_t first, uint32_t pageStart) {
    const CacheLayout& layout = block.layout;
    const uint32_t group = block.groupHeads;
    const Range earliest = visible(block, first / group, pageStart), latest = visible(block, (first + Q - 1) / group, pageStart);
    const uint32_t fromBlock = earliest.begin / kKeyBlock, toBlock = (latest.end + kKeyBlock - 1) / kKeyBlock;
    const uint8_t* values = head + cacheValuesOffset(layout);
    float* scores = work.scores + first * layout.pageTokens;
    scoreKeys<Bits, Digits, Q>(layout, work, head, first, fromBlock, toBlock - fromBlock, scores + fromBlock * kKeyBlock, layout.pageTokens,
                       reinterpret_cast<const char*>(values + fromBlock * cacheValueBlockBytes(layout)));
    for (uint32_t i = 0; i < Q; i++) {
      const uint32_t q = first + i;
      const Range range = visible(block, q / group, pageStart);
      float* weights = scores + i * layout.pageTokens;
      softmaxPartial(ruleOf(block, q), weights, pageStart, range, work.pageMaximum + q, work.pageSum + q);
      prepareWeights<Digits>(layout, work, q, weights, range, values, fromBlock, toBlock);
    }
    sumValues<Bits, Digits, Q>(layout, work, first, values, fromBlock, toBlock - fromBlock, reinterpret_cast<const char*>(nextHead));
  }

  template <int Q>
  static void scoreTile(const AttentionBlock& block, const Workspace& work, const uint8_t* head, uint32_t first, uint32_t keyBlock, uint32_t keyBlocks, float* scores,
                        size_t scoreStride, const uint8_t* ahead) {
    scoreKeys<Bits, Digits, Q>(block.layout, work, head, first, keyBlock, keyBlocks, scores, scoreStride, reinterpret_cast<const char*>(ahead));
  }

  // `element` is a multiple of kCacheGroup, V vectors at most a group.
  template <int V>
  static void loadValues(const CacheLayout& layout, const uint8_t* head, uint32_t index, size_t element, f32x16 (&values)[V]) {
    const size_t lines = cacheValueLines(layout);
    const uint8_t* block = head + cacheValuesOffset(layout) + index / kKeyBlock * cacheValueBlockBytes(layout);
    const uint8_t* scales = block + (4 * lines + element / kCacheGroup) * kCacheLine + index % kKeyBlock * 2;
    uint16_t halves[2];
    __builtin_memcpy(&halves[0], scales, 2);
    __builtin_memcpy(&halves[1], scales + 32, 2);
    const f32x16 scale = set1(halfToFloat(halves[0])), minimum = set1(halfToFloat(halves[1]));
    const uint8_t* line = valuesOf(layout, head, index, element);
    const int shift = static_cast<int>(index % 4) * 8;
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) {
      const f32x16 codes = Bits == 4 ? codesToFloat<4>(line + v / 2 * kCacheLine, shift + v % 2 * 4) : codesToFloat<8>(line + v * kCacheLine, shift);
      values[v] = fma(codes, scale, minimum);
    }
  }
  static const uint8_t* valuesOf(const CacheLayout& layout, const uint8_t* head, uint32_t index, size_t element) {
    const uint8_t* block = head + cacheValuesOffset(layout) + index / kKeyBlock * cacheValueBlockBytes(layout);
    return block + (index % kKeyBlock / 4 * cacheValueLines(layout) + element / (16 * 8 / Bits)) * kCacheLine;
  }
};

}  // namespace

void attendQuantised(const AttentionBlock& block) {
  if (block.layout.type == CacheType::Q8) block.exact ? attendAs<QuantisedFormat<8, 3>>(block) : attendAs<QuantisedFormat<8, 2>>(block);
  else block.exact ? attendAs<QuantisedFormat<4, 3>>(block) : attendAs<QuantisedFormat<4, 2>>(block);
}

}  // namespace spillway::SPILLWAY_ISA
