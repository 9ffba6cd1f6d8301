// How a panel of 16 outputs lies in memory. Shared by packing, unpacking and the kernels of every instruction set.
//
// Float types: for each input in turn, the 16 outputs' values, in the file's precision.
//
// Quantised types: [values of all groups][scales of all groups]. A group is 32 consecutive inputs of the 16 outputs.
// A value is stored in `bits` bits, which are an unsigned number q, or the index of one in the type's codebook; the
// weight is scale * (q - zero) + offset. One vector is 64 bytes: byte 4 * output + i holds input 4 * v + i of vector v;
// a group has eight vectors, and takes bits * 64 bytes:
//   8 bits: the vectors themselves
//   4 bits: four vectors of nibbles; the low ones are vector 2i, the high ones vector 2i + 1
//   5 bits: nibbles, then a plane of one vector: bit v of its bytes is bit 4 of vector v
//   6 bits: nibbles, then two vectors of bit pairs: pair v % 4 of the (v / 4)th is bits 4 and 5 of vector v
//   2 bits: two vectors of bit pairs
//   3 bits: two vectors of bit pairs, then a plane of one vector: its bit v is bit 2 of vector v
// Scales keep the file's bits (6-bit ones take a byte), 16 outputs side by side:
//   Half        for each group half scale[16]
//   Row         half scale[16], once for all groups
//   HalfOffset  for each group half scale[16], half offset[16]
//   Exponent    (MXFP4) for each group uint8 exponent[16]: the scale is 2^(exponent - 128)
//   PairOffset  (Q4_G64) for each 2 groups half scale[16], half offset[16]
//   SuperMinimum (Q4_K, Q5_K)  for each 8 groups half d[16], half dmin[16]; then for each group uint8 scale[16], uint8
//                              minimum[16]
//   SuperNibbles (Q2_K)        for each 8 groups half d[16], half dmin[16]; then for each half group uint8 [16]: the
//                              scale in the low nibble, the minimum in the high
//   SuperSigned (Q3_K, Q6_K)   for each 8 groups half d[16]; then for each half group int8 scale[16]
//   SuperGroups (IQ4_XS)       for each 8 groups half d[16]; then for each group int8 scale[16]
// There the scale is d * scale and the offset -(dmin * minimum), both exact in float32.
#pragma once
#include "WeightType.h"

namespace spillway {

constexpr size_t kPanelOutputs = 16;
constexpr size_t kGroupInputs = 32;
constexpr size_t kVectorBytes = 64;
constexpr size_t kSuperGroups = 8;

enum class ScaleKind : uint8_t {
  None,
  Half,
  Row,
  HalfOffset,
  Exponent,
  PairOffset,
  SuperMinimum,
  SuperNibbles,
  SuperSigned,
  SuperGroups
};

static constexpr bool isSuper(ScaleKind kind) {
  return kind == ScaleKind::SuperMinimum || kind == ScaleKind::SuperNibbles || kind == ScaleKind::SuperSigned ||
         kind == ScaleKind::SuperGroups;
}

// What stored numbers of four bits stand for: themselves, or one of sixteen numbers of `bits` bits, the first of them
// what absent rows have. Kernels look up sixteen (`lookUp` of bytesAvx2.h and its kin, cuda/panel.h).
struct Codebook {
  int bits;
  uint8_t numbers[16];
};
// One array: of several objects that formats of different types point to, sanitizers' builds discard those that come
// with another type's.
constexpr Codebook kCodebooks[] = {
    {8, {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}},
    {5, {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4}},
};
constexpr const Codebook* kPlain = nullptr;
// The numbers of GGML's IQ4 types (kvalues_iq4nl in ggml-common.h), larger by 128.
constexpr const Codebook* kIq4 = &kCodebooks[0];
// Floats of four bits, e2m1, twice as large and then larger by 16 (kvalues_mxfp4 in ggml-common.h): the scale is half
// of E8M0's.
constexpr const Codebook* kE2M1 = &kCodebooks[1];

struct PanelFormat {
  int bits;                  // of a number as it is stored
  const Codebook* codebook;  // or null
  int zero;                  // a power of two, or 0
  ScaleKind kind;
  int scalesPerGroup;  // 1, or 2: one for each half of a group; 0 without scales
  bool offset;
  constexpr PanelFormat(int bits, const Codebook* codebook, int zero, ScaleKind kind)
      : bits(bits),
        codebook(codebook),
        zero(zero),
        kind(kind),
        scalesPerGroup(kind == ScaleKind::None                                             ? 0
                       : kind == ScaleKind::SuperNibbles || kind == ScaleKind::SuperSigned ? 2
                                                                                           : 1),
        offset(kind == ScaleKind::HalfOffset || kind == ScaleKind::PairOffset || kind == ScaleKind::SuperMinimum ||
               kind == ScaleKind::SuperNibbles) {}
  // Of what is multiplied.
  constexpr int numberBits() const { return codebook == nullptr ? bits : codebook->bits; }
};

static constexpr PanelFormat panelFormat(WeightType type) {
  switch (type) {
#define SPILLWAY_WEIGHT_TYPE(name, id, elements, bytes, bits, codebook, zero, scales, ...) \
  case WeightType::name: return {bits, codebook, zero, ScaleKind::scales};
#include "WeightTypes.def"
  }
  return {0, kPlain, 0, ScaleKind::None};
}

// The kernels are compiled for these zero points and numbers of bits (weightTile.h, unpackedMatmul.cpp): a type with
// others has to fail here, since it would multiply by wrong weights.
static constexpr bool hasKernels(const PanelFormat& format) {
  const int bits = format.numberBits(), zero = format.zero;
  if (format.codebook != nullptr && format.bits != 4) return false;
  if (format.scalesPerGroup == 0) return true;
  if (format.scalesPerGroup == 2)
    return format.offset ? bits == 2 && zero == 0 : (bits == 3 && zero == 4) || (bits == 6 && zero == 32);
  if (format.offset) return zero == 0 && (bits == 4 || bits == 5);
  return (bits == 4 && zero == 8) || (bits == 5 && zero == 16) || (bits == 8 && zero == 128);
}
#define SPILLWAY_WEIGHT_TYPE(name, ...)                    \
  static_assert(hasKernels(panelFormat(WeightType::name)), \
                #name ": no kernel has its bits and its zero point; CONTRIBUTING.md says where one is added");
#include "WeightTypes.def"

static constexpr bool isQuantised(WeightType type) { return panelFormat(type).kind != ScaleKind::None; }

// Bytes from the scales of one group, pair or super block to the next one's: 0 where all groups have the same.
static constexpr size_t scaleStride(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::Half: return 32;
    case ScaleKind::Row: return 0;
    case ScaleKind::Exponent: return 16;
    case ScaleKind::HalfOffset:
    case ScaleKind::PairOffset: return 64;
    case ScaleKind::SuperMinimum:
    case ScaleKind::SuperNibbles: return 64 + 256;
    case ScaleKind::SuperSigned: return 32 + 256;
    case ScaleKind::SuperGroups: return 32 + 128;
    default: return 0;
  }
}

// Groups that have their scales together.
static constexpr size_t groupsPerScales(ScaleKind kind) {
  return isSuper(kind) ? kSuperGroups : kind == ScaleKind::PairOffset ? 2 : 1;
}

static constexpr size_t scaleBytesPerGroup(ScaleKind kind) { return scaleStride(kind) / groupsPerScales(kind); }

// Where the scales begin within a panel.
static constexpr size_t scalesAt(const PanelFormat& format, size_t inputs) {
  return inputs / kGroupInputs * static_cast<size_t>(format.bits) * kVectorBytes;
}

static constexpr size_t scalesBytes(const PanelFormat& format, size_t inputs) {
  if (format.kind == ScaleKind::Row) return 2 * kPanelOutputs;
  return inputs / kGroupInputs / groupsPerScales(format.kind) * scaleStride(format.kind);
}

}  // namespace spillway
