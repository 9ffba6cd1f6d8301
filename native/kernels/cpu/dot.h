// Products of 8-bit integers, exact in int32: the innermost part of matrix products, for each instruction set. After
// simd.h.
//
// Bytes: 64 unsigned bytes, a vector of panelLayout.h.
//   loadBytes(p) storeBytes(p, v) either(a, b)
//   lookUp(table, v)        for each byte, which is below 16, what the table has there
//   field(v, shift, mask)   each byte shifted to the right (to the left where negative), then masked
//   byteToFloat(v, i)       input i (0 to 3) of the sixteen outputs, as floats
//   uint8ToFloat(p) int8ToFloat(p)   sixteen bytes in memory as floats
//   storeInt8(p, first, second, sums)   two times sixteen integers within -127..127 as bytes, and the sum of either
//   storeRows(values, first, second[, sums])   the same of four rows
// dot<Bits, R, P, V>(source, group, first, values, sum): adds to sum[r][p] the products of V vectors, from vector
// `first` of the group on, of P panels with R rows. Values have Bits bits, activations are within -127..127.
// dotZero(bits, zero): the zero point as the dot product needs it to be made good by the caller: 0 where dot does it
// itself.
#pragma once
#include "MatmulKernels.h"
#include "panelLayout.h"
#include "simd.h"

#if SPILLWAY_ISA_LEVEL == 3
#include "dotNeon.h"
#elif SPILLWAY_ISA_LEVEL == 4
#include "dotAvxVnni.h"
#elif SPILLWAY_ISA_LEVEL == 2
#include "dotAvx512.h"
#elif SPILLWAY_ISA_LEVEL == 1
#include "dotAvx2.h"
#else
#include "dotScalar.h"
#endif

namespace spillway::SPILLWAY_ISA {

#if SPILLWAY_ISA_LEVEL != 2
static inline void storeRows(TileValues& values, const i32x16 (&first)[4], const i32x16 (&second)[4],
                             int16_t (&sums)[2][4]) {
  for (int row = 0; row < 4; row++) {
    int32_t halves[2];
    storeInt8(values[row], first[row], second[row], halves);
    for (int half = 0; half < 2; half++) sums[half][row] = static_cast<int16_t>(halves[half]);
  }
}
static inline void storeRows(TileValues& values, const i32x16 (&first)[4], const i32x16 (&second)[4]) {
  int16_t sums[2][4];
  storeRows(values, first, second, sums);
}
#endif

// Vector v of a group as panelLayout.h describes it.
template <int Bits>
static inline Bytes unpackVector(const uint8_t* group, int v) {
  if constexpr (Bits == 8) {
    return loadBytes(group + 64 * v);
  } else if constexpr (Bits <= 3) {
    const Bytes low = field(loadBytes(group + 64 * (v / 4)), 2 * (v % 4), 0x03);
    if constexpr (Bits == 2) return low;
    return either(low, field(loadBytes(group + 128), v - 2, 0x04));
  } else {
    const Bytes low = field(loadBytes(group + 64 * (v / 2)), 4 * (v % 2), 0x0f);
    if constexpr (Bits == 5) return either(low, field(loadBytes(group + 256), v - 4, 0x10));
    if constexpr (Bits == 6) return either(low, field(loadBytes(group + 256 + 64 * (v / 4)), 2 * (v % 4) - 4, 0x30));
    return low;
  }
}

// What is multiplied: what the numbers of vector v stand for.
template <WeightType T>
static inline Bytes numbersOf(const uint8_t* group, int v) {
  constexpr PanelFormat format = panelFormat(T);
  const Bytes stored = unpackVector<format.bits>(group, v);
  if constexpr (format.codebook == nullptr)
    return stored;
  else
    return lookUp(format.codebook->numbers, stored);
}

// Scale and offset of the sixteen outputs at a group, or at one half of it.
struct GroupScale {
  f32x16 scale;
  f32x16 offset;
};

// 2^(exponent - 128) of sixteen bytes, in two factors: the smallest are subnormal, the largest have no exponent left.
static inline f32x16 powersOfTwo(const uint8_t* exponents) {
  const f32x16 magic = set1(8388608.0f);  // 2^23: whole numbers stand in the low bits
  const i32x16 exponent = sub(asInt(add(uint8ToFloat(exponents), magic)), asInt(magic));
  const i32x16 half = shiftRight<1>(exponent), rest = sub(exponent, half), bias = set1Int(63);
  return mul(asFloat(shiftLeft<23>(add(half, bias))), asFloat(shiftLeft<23>(add(rest, bias))));
}

template <ScaleKind Kind>
static inline const uint8_t* scalesOf(const uint8_t* scales, size_t group) {
  return scales + group / groupsPerScales(Kind) * scaleStride(Kind);
}

// The floats at the begin of scales: the same for all groups that have theirs together.
template <ScaleKind Kind>
static inline GroupScale loadCommon(const uint8_t* at) {
  if constexpr (Kind == ScaleKind::Exponent) return {powersOfTwo(at), zero()};
  const f32x16 first = loadHalf(reinterpret_cast<const uint16_t*>(at));
  if constexpr (Kind == ScaleKind::Half || Kind == ScaleKind::Row || Kind == ScaleKind::SuperSigned ||
                Kind == ScaleKind::SuperGroups)
    return {first, zero()};
  return {first, loadHalf(reinterpret_cast<const uint16_t*>(at + 32))};
}

template <ScaleKind Kind>
static inline GroupScale loadScale(const GroupScale& common, const uint8_t* at, size_t group, int half) {
  if constexpr (!isSuper(Kind)) return common;
  const f32x16 first = common.scale, second = common.offset;
  if constexpr (Kind == ScaleKind::SuperSigned)
    return {mul(first, int8ToFloat(at + 32 + kPanelOutputs * (2 * (group % kSuperGroups) + static_cast<size_t>(half)))),
            zero()};
  if constexpr (Kind == ScaleKind::SuperGroups)
    return {mul(first, int8ToFloat(at + 32 + kPanelOutputs * (group % kSuperGroups))), zero()};
  const uint8_t* pair = at + 64 + 2 * kPanelOutputs * (group % kSuperGroups);
  if constexpr (Kind == ScaleKind::SuperMinimum)
    return {mul(first, uint8ToFloat(pair)), neg(mul(second, uint8ToFloat(pair + kPanelOutputs)))};
  uint8_t scale[kPanelOutputs], minimum[kPanelOutputs];
  for (size_t i = 0; i < kPanelOutputs; i++) {
    const uint8_t both = pair[kPanelOutputs * static_cast<size_t>(half) + i];
    scale[i] = both & 15;
    minimum[i] = both >> 4;
  }
  return {mul(first, uint8ToFloat(scale)), neg(mul(second, uint8ToFloat(minimum)))};
}

template <ScaleKind Kind>
static inline GroupScale loadScale(const uint8_t* scales, size_t group, int half) {
  const uint8_t* at = scalesOf<Kind>(scales, group);
  return loadScale<Kind>(loadCommon<Kind>(at), at, group, half);
}

}  // namespace spillway::SPILLWAY_ISA
