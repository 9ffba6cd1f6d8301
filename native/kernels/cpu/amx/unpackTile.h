// Weights of a panel as tiles of bfloat16: 16 outputs by 32 inputs, row r holding inputs 2r and 2r + 1 of each output,
// side by side.
//
// A weight is computed in float32 as every other kernel does it, scale * (q - zero) + offset, but with scale and offset
// larger by a factor of kBeforeCut; then its low 16 bits are cut off. Rounding to nearest would take three instructions
// more for two weights, beside seven, which is most of what a product with few rows does. The factor makes up for what
// cutting takes away on average: the error has the spread of rounding to nearest, its mean is within 0.2 of a unit in
// the last place whatever the mantissa, 0.7 of a unit is the most, and numbers that bfloat16 has are left as they are.
#pragma once
#include "../dot.h"

// What is called for each pair of weights has to be part of the loop, so that weights stay in registers.
#define SPILLWAY_INLINE inline __attribute__((always_inline))
#define SPILLWAY_INLINE_LAMBDA __attribute__((always_inline))

namespace spillway::SPILLWAY_ISA {

constexpr float kBeforeCut =
    1.00271f;  // 1 + 2^-8 * ln 2: half a unit in the last place of a mantissa of 1 / ln 2, the mean of mantissas

// The upper halves of the floats of two neighbouring inputs, in the low and the high halves of 32 bits: one
// instruction, which moves bytes.
static inline void storePairs(uint8_t* to, f32x16 even, f32x16 odd) {
  const __m512i upper =
      _mm512_set1_epi32(0x03020302);  // bytes 2 and 3 of each 4, of the lane of 16 bytes that `places` says
  const __m512i places = _mm512_add_epi8(upper, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
  _mm512_store_si512(to, _mm512_mask_shuffle_epi8(asInt(odd).v, 0x3333333333333333, asInt(even).v, places));
}

// The float that has these bits of the lanes right below a leading one, and zeros below: 2^(23 - lowest bit) plus the
// number.
template <uint32_t Mask, uint32_t One>
static inline f32x16 joined(__m512i lanes) {
  return {_mm512_castsi512_ps(_mm512_ternarylogic_epi32(lanes, _mm512_set1_epi32(static_cast<int>(Mask)),
                                                        _mm512_set1_epi32(static_cast<int>(One)),
                                                        0xea))};  // (lanes & Mask) | One
}

// How the numbers of one type, or what they stand for, become floats. Of those whose excess is not 0, fma(float, scale,
// excess * scale) is the weight.
//
// Up to five bits: by a table, which looks at the low bits of each lane and at nothing else, so that none need be
// masked. Four bits that stand high enough in a lane are used where they are instead, with a leading one above them:
// neither a shift nor a look into the table, which has a port of its own to wait for. More bits: the byte is put below
// a leading one, by an instruction that moves bytes.
template <WeightType T>
class Numbers {
  static constexpr PanelFormat kFormat = panelFormat(T);
  static constexpr int Bits = kFormat.bits, Zero = kFormat.zero;

 public:
  Numbers() {
    alignas(64) float values[32];
    for (int i = 0; i < 32; i++) {
      const int stored = i & ((1 << Bits) - 1);
      if constexpr (kFormat.codebook == nullptr)
        values[i] = static_cast<float>(stored - Zero);
      else
        values[i] = static_cast<float>(kFormat.codebook->numbers[stored] - Zero);
    }
    low_ = _mm512_load_ps(values);
    high_ = _mm512_load_ps(values + 16);
  }
  static constexpr bool kTable = Bits <= 5;
  static constexpr int kPlaceByte =
      Bits <= 6 ? 2 : 1;  // where a byte's low bit is a bit of the mantissa, and its high bits too
  static constexpr float kExcess = kTable ? 0.0f : static_cast<float>(-(1 << (23 - 8 * kPlaceByte)) - Zero);

  // The number that begins with bit `shift` of each lane, by the table. What lies above it may be anything.
  f32x16 looked(__m512i lanes, int shift) const {
    const __m512i at = shift == 0 ? lanes : _mm512_srli_epi32(lanes, static_cast<unsigned>(shift));
    if constexpr (Bits == 5) return {_mm512_permutex2var_ps(low_, at, high_)};
    return {_mm512_permutexvar_ps(at, low_)};
  }
  // Byte i of each lane. A byte that is in its place needs no move.
  f32x16 placed(__m512i lanes, int i) const {
    constexpr uint32_t kOne = static_cast<uint32_t>(127 + 23 - 8 * kPlaceByte) << 23;
    if (i == kPlaceByte) return joined<0xffu << (8 * kPlaceByte), kOne>(lanes);
    const __m512i from =
        _mm512_add_epi8(_mm512_set1_epi32(i * 0x01010101), _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
    return {_mm512_castsi512_ps(_mm512_mask_shuffle_epi8(_mm512_set1_epi32(static_cast<int>(kOne)),
                                                         0x1111111111111111u << kPlaceByte, lanes, from))};
  }

 private:
  __m512 low_, high_;
};

// Where vector v of a group stands in what was loaded: of two bits as it lies in the panel, of others one byte a
// number.
template <int Bits>
static inline __m512i lanesOf(const uint8_t* group, int v) {
  if constexpr (Bits == 2) return loadBytes(group + kVectorBytes * static_cast<size_t>(v / 4)).v;
  return unpackVector<Bits>(group, v).v;
}

// Unpacks tiles of the panels of one type.
template <WeightType T>
class TileUnpacker {
 public:
  explicit TileUnpacker(size_t inputs) : scalesAt_(scalesAt(kFormat, inputs)) {}

  // What all quarters of a tile share.
  struct Group {
    const uint8_t* at;
    GroupScale by[2];  // of both halves where the type has two scales a group
    f32x16 excess[2];  // what is added to float * scale: of numbers at bits 12 and 16, or of the halves' numbers
  };
  // Asks for the same group of the panel `ahead` bytes further on: a panel is too short for the processor's own
  // prefetching.
  SPILLWAY_INLINE Group group(const uint8_t* panel, size_t ahead, size_t index) const {
    Group group;
    group.at = panel + index * (kFormat.bits * kVectorBytes);
    const uint8_t* scales = panel + scalesAt_;
    SPILLWAY_UNROLL(8)
    for (int line = 0; line < kFormat.bits; line++)
      __builtin_prefetch(group.at + ahead + static_cast<size_t>(line) * kVectorBytes, 0, 2);
    __builtin_prefetch(scales + ahead + index * scaleBytesPerGroup(kFormat.kind), 0, 2);
    SPILLWAY_UNROLL(2)
    for (int half = 0; half < kFormat.scalesPerGroup; half++) {
      GroupScale by = loadScale<kFormat.kind>(scales, index, half);
      by.scale = mul(by.scale, set1(kBeforeCut));
      by.offset = mul(by.offset, set1(kBeforeCut));
      // Fifteen bits, so that every excess (of nine bits at most) times the scale is exact, and a number at the zero
      // point is exactly 0.
      if (!kFormat.offset && kFormat.bits != 5 && kFormat.codebook == nullptr)
        by.scale = {_mm512_castsi512_ps(_mm512_and_si512(asInt(by.scale).v, _mm512_set1_epi32(~0x1ff)))};
      group.by[half] = by;
      if constexpr (!kShifted)
        group.excess[half] = FormatNumbers::kTable ? by.offset : offsetOf(by, FormatNumbers::kExcess);
    }
    if constexpr (kShifted) {
      group.excess[0] = offsetOf(group.by[0], -2048.0f - kFormat.zero);
      group.excess[1] = offsetOf(group.by[0], -128.0f - kFormat.zero);
    }
    return group;
  }

  // Calls take(row, even, odd) for a quarter of the tile's rows: weights of inputs 2 * row and 2 * row + 1, before the
  // cut.
  template <int Quarter, typename Take>
  SPILLWAY_INLINE void quarterPairs(const Group& group, Take take) const {
    if constexpr (kShifted)
      nibbles<Quarter>(group, take);
    else
      bytes<Quarter>(group, take);
  }
  template <typename Take>
  SPILLWAY_INLINE void pairs(const uint8_t* panel, size_t ahead, size_t index, Take take) const {
    const Group all = group(panel, ahead, index);
    quarterPairs<0>(all, take);
    quarterPairs<1>(all, take);
    quarterPairs<2>(all, take);
    quarterPairs<3>(all, take);
  }
  template <int Quarter>
  SPILLWAY_INLINE void quarter(const Group& group, uint8_t* tile) const {
    quarterPairs<Quarter>(group, [tile](size_t row, f32x16 even, f32x16 odd)
                                     SPILLWAY_INLINE_LAMBDA { storePairs(tile + kVectorBytes * row, even, odd); });
  }

 private:
  static constexpr PanelFormat kFormat = panelFormat(T);
  static constexpr bool kShifted = kFormat.bits == 4 && kFormat.codebook == nullptr;  // see nibbles()
  using FormatNumbers = Numbers<T>;

  // What is added to float * scale where the float is `excess` too large. Of an offset the rounding is below 2^-12 of a
  // step.
  static f32x16 offsetOf(const GroupScale& by, float excess) {
    return kFormat.offset ? fma(by.scale, set1(excess), by.offset) : mul(by.scale, set1(excess));
  }
  // A number that is what it should be.
  static f32x16 weight(f32x16 number, const GroupScale& by) {
    return kFormat.offset ? fma(number, by.scale, by.offset) : mul(number, by.scale);
  }

  template <int Quarter, typename Take>
  SPILLWAY_INLINE void bytes(const Group& group, Take take) const {
    constexpr int kHalf = kFormat.scalesPerGroup == 2 ? Quarter / 2 : 0;
    SPILLWAY_UNROLL(2)
    for (int v = 2 * Quarter; v < 2 * Quarter + 2; v++) {
      const __m512i lanes = lanesOf<kFormat.bits>(group.at, v);
      const auto input = [&](int i) {
        if constexpr (FormatNumbers::kTable)
          return weight(numbers_.looked(lanes, 8 * i + (kFormat.bits == 2 ? 2 * (v % 4) : 0)), group.by[kHalf]);
        return fma(numbers_.placed(lanes, i), group.by[kHalf].scale, group.excess[kHalf]);
      };
      take(static_cast<size_t>(2 * v), input(0), input(1));
      take(static_cast<size_t>(2 * v + 1), input(2), input(3));
    }
  }

  // Three shifts for the eight numbers of a lane: the rest stand where the lane or one of the shifted has them at bit
  // 12 or 16, or at 0 for the table.
  template <int Quarter, typename Take>
  SPILLWAY_INLINE void nibbles(const Group& group, Take take) const {
    constexpr uint32_t kOne12 = (127u + 11) << 23, kOne16 = (127u + 7) << 23;
    const GroupScale& by = group.by[0];
    const auto looked = [&](__m512i lanes) { return weight(numbers_.looked(lanes, 0), by); };
    const auto at12 = [&](__m512i lanes) { return fma(joined<0xfu << 12, kOne12>(lanes), by.scale, group.excess[0]); };
    const auto at16 = [&](__m512i lanes) { return fma(joined<0xfu << 16, kOne16>(lanes), by.scale, group.excess[1]); };
    const __m512i lanes = loadBytes(group.at + kVectorBytes * Quarter).v;
    const __m512i by4 = _mm512_srli_epi32(lanes, 4), by8 = _mm512_srli_epi32(lanes, 8),
                  by12 = _mm512_srli_epi32(lanes, 12);
    take(4 * Quarter, looked(lanes), looked(by8));
    take(4 * Quarter + 1, at16(lanes), at16(by8));
    take(4 * Quarter + 2, looked(by4), at12(lanes));
    take(4 * Quarter + 3, at16(by4), at16(by12));
  }

  size_t scalesAt_;
  FormatNumbers numbers_;
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
  // As TileUnpacker has it.
  struct Group {
    const uint16_t* at;
    size_t left, ahead;
  };
  SPILLWAY_INLINE Group group(const uint8_t* panel, size_t ahead, size_t index) const {
    return {reinterpret_cast<const uint16_t*>(panel) + index * 32 * kPanelOutputs, inputs_ - index * 32, ahead};
  }
  template <typename Take>
  SPILLWAY_INLINE void pairs(const uint8_t* panel, size_t ahead, size_t index, Take take) const {
    words(group(panel, ahead, index), 0, 16, [&](size_t row, __m512i words) SPILLWAY_INLINE_LAMBDA {
      take(row, f32x16{_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))}, f32x16{_mm512_castsi512_ps(words)});
    });
  }
  template <int Quarter>
  SPILLWAY_INLINE void quarter(const Group& group, uint8_t* tile) const {
    words(group, 4 * Quarter, 4 * Quarter + 4, [tile](size_t row, __m512i words) SPILLWAY_INLINE_LAMBDA {
      _mm512_store_si512(tile + row * kVectorBytes, words);
    });
  }

 private:
  template <typename Take>
  SPILLWAY_INLINE void words(const Group& group, size_t begin, size_t end, Take take) const {
    SPILLWAY_UNROLL(1)
    for (size_t row = begin; row < end; row++) {
      const size_t inputs = group.left >= 2 * row + 2 ? 2 : group.left > 2 * row ? group.left - 2 * row : 0;
      const uint16_t* two = group.at + row * 32;
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(two) + group.ahead, 0, 2);
      const __mmask32 present = inputs == 2 ? 0xffffffff : inputs == 1 ? 0xffff : 0;
      const __m512i both = _mm512_permutexvar_epi16(pairs_, _mm512_maskz_loadu_epi16(present, two));
      take(row, T == WeightType::BF16 ? both : rounded(both));
    }
  }
  static __m512i rounded(__m512i halves) {
    const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
                 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
  size_t inputs_;
  __m512i pairs_;
};

}  // namespace spillway::SPILLWAY_ISA
