// Weights of a panel as tiles of bfloat16: 16 outputs by 32 inputs, row r holding inputs 2r and 2r + 1 of each output, side by side.
//
// A weight is computed in float32 as every other kernel does it, scale * (q - zero) + offset, but with scale and offset larger by a factor of kBeforeCut; then
// its low 16 bits are cut off. Rounding to nearest would take three instructions more for two weights, beside seven, which is most of what a product with few rows does. The factor
// makes up for what cutting takes away on average: the error has the spread of rounding to nearest, its mean is within 0.2 of a unit in the last place
// whatever the mantissa, 0.7 of a unit is the most, and numbers that bfloat16 has are left as they are.
#pragma once
#include "../dot.h"

namespace spillway::SPILLWAY_ISA {

constexpr float kBeforeCut = 1.00271f;  // 1 + 2^-8 * ln 2: half a unit in the last place of a mantissa of 1 / ln 2, the mean of mantissas

// The upper halves of the floats of two neighbouring inputs, in the low and the high halves of 32 bits: one instruction, which moves bytes.
static inline void storePairs(uint8_t* to, f32x16 even, f32x16 odd) {
  const __m512i upper = _mm512_set1_epi32(0x03020302);  // bytes 2 and 3 of each 4, of the lane of 16 bytes that `places` says
  const __m512i places = _mm512_add_epi8(upper, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
  _mm512_store_si512(to, _mm512_mask_shuffle_epi8(asInt(odd).v, 0x3333333333333333, asInt(even).v, places));
}

// Stored numbers as floats. Up to five bits: by a table, which looks at the low bits of each lane and at nothing else, so that none need be masked.
// More: put below the leading one of a float, which then is 2^bits + q; what is too much goes with the zero point, exactly.
template <int Bits, int Zero>
class Numbers {
 public:
  Numbers() {
    alignas(64) float values[32];
    for (int i = 0; i < 32; i++) values[i] = static_cast<float>((i & ((1 << Bits) - 1)) - Zero);
    low_ = _mm512_load_ps(values);
    high_ = _mm512_load_ps(values + 16);
  }
  static constexpr bool kTable = Bits <= 5;
  // fma(number, scale, excess * scale) is the weight; 0 where the table has the zero point in it.
  static constexpr float kExcess = kTable ? 0.0f : static_cast<float>(-(1 << Bits) - Zero);
  // The number that begins with bit `shift` of each lane. In a table's index what lies above it may be anything.
  f32x16 at(__m512i lanes, int shift) const {
    if constexpr (Bits == 5) return {_mm512_permutex2var_ps(low_, _mm512_srli_epi32(lanes, static_cast<unsigned>(shift)), high_)};
    if constexpr (kTable) return {_mm512_permutexvar_ps(_mm512_srli_epi32(lanes, static_cast<unsigned>(shift)), low_)};
    const int left = 23 - Bits - shift;
    const __m512i placed = left >= 0 ? _mm512_slli_epi32(lanes, static_cast<unsigned>(left)) : _mm512_srli_epi32(lanes, static_cast<unsigned>(-left));
    const __m512i mask = _mm512_set1_epi32(((1 << Bits) - 1) << (23 - Bits)), one = _mm512_set1_epi32((127 + Bits) << 23);
    return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(placed, mask, one, 0xea))};  // (placed & mask) | one
  }

 private:
  __m512 low_, high_;
};

// Where vector v of a group stands in what was loaded: of two and four bits as it lies in the panel, of others one byte a number.
template <int Bits>
static inline __m512i lanesOf(const uint8_t* group, int v) {
  if constexpr (Bits == 4) return loadBytes(group + kVectorBytes * static_cast<size_t>(v / 2)).v;
  if constexpr (Bits == 2) return loadBytes(group + kVectorBytes * static_cast<size_t>(v / 4)).v;
  return unpackVector<Bits>(group, v).v;
}
static constexpr int shiftOf(int bits, int v) { return bits == 4 ? 4 * (v % 2) : bits == 2 ? 2 * (v % 4) : 0; }

// Unpacks tiles of the panels of one type, a quarter at a time.
template <WeightType T>
class TileUnpacker {
 public:
  explicit TileUnpacker(size_t inputs) : scalesAt_(scalesAt(kFormat, inputs)) {}

  // What all quarters of the tile of group `index` share.
  struct Group {
    const uint8_t* at;
    f32x16 scale[2], offset[2];  // of both halves where the type has two scales a group
  };
  // Asks for the same group of the panel `ahead` bytes further on: a panel is too short for the processor's own prefetching.
  Group group(const uint8_t* panel, size_t ahead, size_t index) const {
    Group group;
    group.at = panel + index * (kFormat.bits * kVectorBytes);
    const uint8_t* scales = panel + scalesAt_;
    SPILLWAY_UNROLL(8)
    for (int line = 0; line < kFormat.bits; line++) __builtin_prefetch(group.at + ahead + static_cast<size_t>(line) * kVectorBytes, 0, 2);
    __builtin_prefetch(scales + ahead + index * scaleBytesPerGroup(kFormat.kind), 0, 2);
    SPILLWAY_UNROLL(2)
    for (int half = 0; half < kFormat.scalesPerGroup; half++) {
      const GroupScale by = loadScale<kFormat.kind>(scales, index, half);
      f32x16 scale = mul(by.scale, set1(kBeforeCut));
      // The excess has two bits: a scale of 22 bits times it is exact, and a number at the zero point is exactly 0.
      if (!decltype(numbers_)::kTable) scale = {_mm512_castsi512_ps(_mm512_and_si512(asInt(scale).v, _mm512_set1_epi32(~3)))};
      group.scale[half] = scale;
      group.offset[half] = kFormat.offset ? mul(by.offset, set1(kBeforeCut)) : mul(scale, set1(decltype(numbers_)::kExcess));
    }
    return group;
  }

  // A quarter of the tile's rows.
  template <int Quarter>
  void quarter(const Group& group, uint8_t* tile) const {
    constexpr int kHalf = kFormat.scalesPerGroup == 2 ? Quarter / 2 : 0;
    SPILLWAY_UNROLL(2)
    for (int v = 2 * Quarter; v < 2 * Quarter + 2; v++) {
      const __m512i lanes = lanesOf<kFormat.bits>(group.at, v);
      SPILLWAY_UNROLL(2)
      for (int i = 0; i < 4; i += 2)
        storePairs(tile + kVectorBytes * static_cast<size_t>(2 * v + i / 2), weight(lanes, shiftOf(kFormat.bits, v) + 8 * i, group.scale[kHalf], group.offset[kHalf]),
                   weight(lanes, shiftOf(kFormat.bits, v) + 8 * i + 8, group.scale[kHalf], group.offset[kHalf]));
    }
  }

 private:
  static constexpr PanelFormat kFormat = panelFormat(T);
  f32x16 weight(__m512i lanes, int shift, f32x16 scale, f32x16 offset) const {
    const f32x16 number = numbers_.at(lanes, shift);
    return kFormat.offset || !decltype(numbers_)::kTable ? fma(number, scale, offset) : mul(number, scale);
  }
  size_t scalesAt_;
  Numbers<kFormat.bits, kFormat.zero> numbers_;
};

// Of 16-bit floats: for each input in turn the 16 outputs. The last tile may end early, and is filled up with zeros.
template <WeightType T>
class HalfUnpacker {
 public:
  explicit HalfUnpacker(size_t inputs) : inputs_(inputs) {
    alignas(64) uint16_t from[32];
    for (uint16_t i = 0; i < 32; i++) from[i] = static_cast<uint16_t>(i / 2 + i % 2 * 16);
    pairs_ = _mm512_load_si512(from);
  }
  struct Group {
    const uint16_t* at;
    size_t left, ahead;
  };
  Group group(const uint8_t* panel, size_t ahead, size_t index) const {
    return {reinterpret_cast<const uint16_t*>(panel) + index * 32 * kPanelOutputs, inputs_ - index * 32, ahead};
  }
  template <int Quarter>
  void quarter(const Group& group, uint8_t* tile) const {
    SPILLWAY_UNROLL(4)
    for (size_t row = 4 * Quarter; row < 4 * Quarter + 4; row++) {
      const size_t inputs = group.left >= 2 * row + 2 ? 2 : group.left > 2 * row ? group.left - 2 * row : 0;
      const uint16_t* two = group.at + row * 32;
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(two) + group.ahead, 0, 2);
      const __mmask32 present = inputs == 2 ? 0xffffffff : inputs == 1 ? 0xffff : 0;
      const __m512i words = _mm512_permutexvar_epi16(pairs_, _mm512_maskz_loadu_epi16(present, two));
      _mm512_store_si512(tile + row * kVectorBytes, T == WeightType::BF16 ? words : rounded(words));
    }
  }

 private:
  static __m512i rounded(__m512i halves) {
    const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves)), high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
  size_t inputs_;
  __m512i pairs_;
};

}  // namespace spillway::SPILLWAY_ISA
