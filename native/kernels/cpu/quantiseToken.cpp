// One token's keys and values to 8 or 4 bits (CacheLayout.h). Compiled once for each instruction set (simd.h).
#include "hadamard.h"
#include "quantisedAttention.h"
#include "simdBytes.h"

namespace spillway::SPILLWAY_ISA {
namespace {

struct QuantisedGroup {
  uint16_t scale, minimum;  // halves
  uint8_t codes[kCacheGroup];
};

// The largest half that is not above x, and the smallest that is not below it; |x| at most kLargestHalf. So the ends of
// a group lie within the codes' range, and no element is further than half a step from its code.
static inline uint16_t halfBelow(float x) {
  const uint16_t half = floatToHalf(x);
  if (!(halfToFloat(half) > x)) return half;
  return static_cast<uint16_t>(half & 0x8000u ? half + 1 : half == 0 ? 0x8001u : half - 1u);
}
static inline uint16_t halfAbove(float x) {
  const uint16_t half = halfBelow(-x);
  return static_cast<uint16_t>(half ^ 0x8000u);
}

static inline float stepOf(float scale) { return scale > 0.0f ? scale : 1.0f; }

struct GroupScale {
  uint16_t scale, minimum;  // halves
};

// What `n` elements lose with these scales, squared and summed.
static inline float squaredError(const f32x16* elements, size_t n, GroupScale halves, float levels) {
  const float own = halfToFloat(halves.scale);
  const f32x16 scale = set1(own), minimum = set1(halfToFloat(halves.minimum)), inverse = set1(1.0f / stepOf(own)),
               most = set1(levels), magic = set1(8388608.0f);
  f32x16 sum = zero();
  for (size_t i = 0; i < n; i += 16) {
    const f32x16 code = sub(add(min(most, max(zero(), mul(sub(elements[i / 16], minimum), inverse))), magic), magic);
    const f32x16 off = sub(fma(code, scale, minimum), elements[i / 16]);
    float squares[16];
    const size_t left = n - i < 16 ? n - i : 16;
    store(squares, mul(off, off));
    sum = add(sum, loadPartial(squares, left));
  }
  return reduceAdd(sum);
}

// `n` elements, 1 to kCacheGroup. Beyond the largest half they are clamped to it. NaN and infinity make the minimum
// NaN, so that they show.
template <bool Narrow>
static inline void quantiseGroup(const float* elements, size_t n, int levels, QuantisedGroup* group) {
  f32x16 lowest = set1(kLargestHalf), highest = set1(-kLargestHalf), odd = zero();
  f32x16 clamped[kCacheGroup / 16];
  for (size_t i = 0; i < n; i += 16) {
    const size_t left = n - i < 16 ? n - i : 16;
    // min and max keep their second argument where one is NaN, and the fill changes neither end.
    const f32x16 element = loadPartial(elements + i, left, elements[0]),
                 x = min(set1(kLargestHalf), max(set1(-kLargestHalf), element));
    lowest = min(x, lowest);
    highest = max(x, highest);
    odd = add(odd, sub(element, element));  // NaN where it is not finite
    clamped[i / 16] = x;
  }
  const float bottom = -reduceMax(neg(lowest)), top = reduceMax(highest), nan = reduceAdd(odd),
              count = static_cast<float>(levels);
  if (nan != 0.0f || bottom > top) {
    *group = {0, 0x7e00, {}};
    return;
  }
  GroupScale best;
  best.minimum = halfBelow(bottom);
  best.scale = halfAbove((top - halfToFloat(best.minimum)) / count);
  if (Narrow) {
    // Sixteen codes are so few that most elements gain when the outermost ones are cut off. Not so for values: theirs
    // that stand out matter.
    const float range = top - bottom;
    float least = squaredError(clamped, n, best, count);
    for (int narrowed = 1; narrowed <= kNarrowerRanges; narrowed++) {
      const float cut = 0.5f * kNarrowerBy * static_cast<float>(narrowed) * range;
      const GroupScale tried = {floatToHalf((range - 2.0f * cut) / count), floatToHalf(bottom + cut)};
      const float error = squaredError(clamped, n, tried, count);
      if (error < least) least = error, best = tried;
    }
  }
  group->scale = best.scale;
  group->minimum = best.minimum;
  const f32x16 minimum = set1(halfToFloat(best.minimum)), step = set1(stepOf(halfToFloat(best.scale))),
               magic = set1(8388608.0f), most = set1(count);
  for (size_t i = 0; i < n; i += 16) {
    const f32x16 code = min(most, max(zero(), div(sub(clamped[i / 16], minimum), step)));
    int8_t bytes[16];
    storeBytes(bytes, asInt(add(code, magic)));  // rounded to nearest, in the low bits
    __builtin_memcpy(group->codes + i, bytes, 16);
  }
}

// Keys of 4 bits are transformed before. Clamped, so that what comes out is within the range of halves; what is not
// finite stays so.
static inline void quantiseTurned(const float* elements, size_t n, int levels, QuantisedGroup* group) {
  const f32x16 most = set1(kLargestHalf * hadamardQueryFactor(n)), least = neg(most);
  float clamped[kMostHadamard], turned[kMostHadamard];
  for (size_t i = 0; i < n; i += 16) {
    const size_t left = n - i < 16 ? n - i : 16;
    const f32x16 element = loadPartial(elements + i, left);
    storePartial(clamped + i, selectLess(abs(element), set1(__builtin_inff()), min(most, max(least, element)), element),
                 left);
  }
  hadamard(clamped, n, hadamardKeyFactor(n), turned);
  quantiseGroup<true>(turned, n, levels, group);
}

// Where group `g` of a token keeps its scale; its minimum stands 16 halves further on.
static inline void storeScale(uint8_t* line, uint32_t lane, const QuantisedGroup& group) {
  __builtin_memcpy(line + 2 * lane, &group.scale, 2);
  __builtin_memcpy(line + 32 + 2 * lane, &group.minimum, 2);
}

static void storeKey(const CacheLayout& layout, uint8_t* block, uint32_t lane, size_t g, size_t n,
                     const QuantisedGroup& group) {
  if (layout.type == CacheType::Q8) {
    for (size_t i = 0; i < n; i++) block[(g * kCacheGroup + i) / 4 * kCacheLine + 4 * lane + i % 4] = group.codes[i];
  } else {
    uint8_t* line = block + g * kCacheGroup / 8 * kCacheLine + 4 * lane;
    for (size_t i = 0; i < n; i += 8, line += kCacheLine)
      for (size_t j = 0; j < 4; j++) line[j] = static_cast<uint8_t>(group.codes[i + j] | group.codes[i + 4 + j] << 4);
  }
  storeScale(block + (cacheKeyLines(layout) + g) * kCacheLine, lane, group);
}

static void storeValue(const CacheLayout& layout, uint8_t* block, uint32_t index, size_t g, size_t n,
                       const QuantisedGroup& group) {
  const size_t lines = cacheValueLines(layout);
  uint8_t* quad = block + index / 4 * lines * kCacheLine + index % 4;
  if (layout.type == CacheType::Q8) {
    for (size_t i = 0; i < n; i++) quad[(g * kCacheGroup + i) / 16 * kCacheLine + i % 16 * 4] = group.codes[i];
  } else {
    uint8_t* line = quad + g * kCacheGroup / 32 * kCacheLine;
    for (size_t i = 0; i < n; i += 32, line += kCacheLine)
      for (size_t j = 0; j < 16; j++)
        line[4 * j] = static_cast<uint8_t>(group.codes[i + j] | group.codes[i + 16 + j] << 4);
  }
  storeScale(block + (4 * lines + g) * kCacheLine, index, group);
}

}  // namespace

void storeQuantised(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values) {
  const size_t headDim = layout.headDim;
  const int levels = layout.type == CacheType::Q8 ? 255 : 15;
  const uint32_t lane = index % kKeyBlock;
  for (uint32_t head = 0; head < layout.kvHeads; head++) {
    uint8_t* keyBlock = page + cacheKeysOffset(layout, head) + index / kKeyBlock * cacheKeyBlockBytes(layout);
    uint8_t* valueBlock = page + cacheValuesOffset(layout, head) + index / kKeyBlock * cacheValueBlockBytes(layout);
    for (size_t g = 0; g < cacheGroups(layout); g++) {
      const size_t first = g * kCacheGroup, n = headDim - first < kCacheGroup ? headDim - first : kCacheGroup;
      QuantisedGroup group = {};
      if (layout.type == CacheType::Q4)
        quantiseTurned(keys + head * headDim + first, n, levels, &group);
      else
        quantiseGroup<false>(keys + head * headDim + first, n, levels, &group);
      storeKey(layout, keyBlock, lane, g, n, group);
      group = {};
      quantiseGroup<false>(values + head * headDim + first, n, levels, &group);
      storeValue(layout, valueBlock, lane, g, n, group);
    }
  }
}

}  // namespace spillway::SPILLWAY_ISA
