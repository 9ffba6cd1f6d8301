// Exact integer dot products of small codes, 16 lanes of 4 bytes a line. Included by sources that are compiled for each
// instruction set.
//
// Codes are unsigned, the numbers they are multiplied by are signed bytes. All sums are exact, so instruction sets
// agree whatever their order. A line is worked on in units of kUnitLanes lanes, as wide as a register:
//   Codes loadCodes(p)          a unit's 4 * kUnitLanes bytes
//   codesOf(codes, plane)       what is multiplied: the low (0) or high (1) nibbles; kWholeBytes: bytes as they are
//   Dots dot(Dots, Codes, p)    adds in each lane the lane's 4 codes times the 4 bytes at p; at most kMostDots times
//   from zeroDots() on Wide widen<Shift>(Wide, Dots)  adds dots * 2^Shift, in 32 bits; where kDotsAreWide they have
//   these anyway combine(p, [high, [middle,]] low)  p[lane] = 65536 high + 256 middle + low as floats
// Where dot() overflows on 8-bit codes (kBytePlanes = 2) they are taken nibble by nibble: planes 0 and 1, shifts 0
// and 4. storeBytes(p, v) stores the low byte of each of 16 integers; codesToFloat<Bits>(line, shift) takes these bits
// of each lane of a line.
#pragma once
#include "simd.h"
#if SPILLWAY_ISA_LEVEL == 4
#include "dpbusd256.h"
#endif

namespace spillway::SPILLWAY_ISA {

constexpr int kWholeBytes = -1;

#if SPILLWAY_ISA_LEVEL == 1 || SPILLWAY_ISA_LEVEL == 2 || SPILLWAY_ISA_LEVEL == 4
#if SPILLWAY_ISA_LEVEL == 2
using Register = __m512i;
#else
using Register = __m256i;
#endif
// A register of integers, which they are to the compiler, too: of sums that are of one type in a loop and of another
// after it, as those of intrinsics are, g++ keeps two copies through the loop, and stores the second of them in every
// round.
template <typename Integer>
struct Integers {
  Integer v __attribute__((vector_size(sizeof(Register))));
  static inline Integers of(Register bits) { return {reinterpret_cast<decltype(Integers::v)>(bits)}; }
  inline Register bits() const { return reinterpret_cast<Register>(v); }
};
#endif

#if SPILLWAY_ISA_LEVEL == 2

constexpr int kUnitLanes = 16;
constexpr bool kDotsAreWide = true;
constexpr int kMostDots = 1 << 20;
constexpr int kBytePlanes = 1;
struct Codes {
  __m512i v;
};
using Dots = Integers<int32_t>;
using Wide = Dots;

static inline Codes loadCodes(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
static inline Codes codesOf(Codes codes, int plane) {
  if (plane == kWholeBytes) return codes;
  return {_mm512_and_si512(plane == 0 ? codes.v : _mm512_srli_epi16(codes.v, 4), _mm512_set1_epi8(15))};
}
static inline Dots zeroDots() { return Dots::of(_mm512_setzero_si512()); }
static inline Dots dot(Dots sum, Codes codes, const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return Dots::of(_mm512_dpbusd_epi32(sum.bits(), codes.v, _mm512_set1_epi32(four)));
}
static inline Wide zeroWide() { return zeroDots(); }
template <int Shift>
static inline Wide widen(Wide sum, Dots dots) {
  return Wide::of(_mm512_add_epi32(sum.bits(), Shift == 0 ? dots.bits() : _mm512_slli_epi32(dots.bits(), Shift)));
}
static inline __m512 floatsOf(Wide sum) { return _mm512_cvtepi32_ps(sum.bits()); }
static inline void combine(float* p, Wide low) { _mm512_storeu_ps(p, floatsOf(low)); }
static inline void combine(float* p, Wide middle, Wide low) {
  _mm512_storeu_ps(p, _mm512_fmadd_ps(floatsOf(middle), _mm512_set1_ps(256.0f), floatsOf(low)));
}
static inline void combine(float* p, Wide high, Wide middle, Wide low) {
  const __m512 sum = _mm512_fmadd_ps(floatsOf(middle), _mm512_set1_ps(256.0f), floatsOf(low));
  _mm512_storeu_ps(p, _mm512_fmadd_ps(floatsOf(high), _mm512_set1_ps(65536.0f), sum));
}
static inline void storeBytes(int8_t* p, i32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v.v));
}
template <int Bits>
static inline f32x16 codesToFloat(const uint8_t* line, int shift) {
  const __m512i words = _mm512_srl_epi32(_mm512_loadu_si512(line), _mm_cvtsi32_si128(shift));
  return {_mm512_cvtepi32_ps(_mm512_and_si512(words, _mm512_set1_epi32((1 << Bits) - 1)))};
}

#elif SPILLWAY_ISA_LEVEL == 1 || SPILLWAY_ISA_LEVEL == 4

constexpr int kUnitLanes = 8;
struct Codes {
  __m256i v;
};
using Wide = Integers<int32_t>;

static inline Codes loadCodes(const uint8_t* p) { return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))}; }
static inline Codes codesOf(Codes codes, int plane) {
  if (plane == kWholeBytes) return codes;
  return {_mm256_and_si256(plane == 0 ? codes.v : _mm256_srli_epi16(codes.v, 4), _mm256_set1_epi8(15))};
}
#if SPILLWAY_ISA_LEVEL == 4
constexpr bool kDotsAreWide = true;
constexpr int kMostDots = 1 << 20;
constexpr int kBytePlanes = 1;
using Dots = Wide;
static inline __m256i addProducts(__m256i sum, __m256i codes, __m256i four) { return dpbusd(sum, codes, four); }
template <int Shift>
static inline Wide widen(Wide sum, Dots dots) {
  return Wide::of(_mm256_add_epi32(sum.bits(), _mm256_slli_epi32(dots.bits(), Shift)));
}
#else
// Products of two 4-bit codes fit 16 bits eight times: 8 * 2 * 15 * 128 = 30720.
constexpr bool kDotsAreWide = false;
constexpr int kMostDots = 8;
constexpr int kBytePlanes = 2;
using Dots = Integers<int16_t>;
static inline __m256i addProducts(__m256i sum, __m256i codes, __m256i four) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, four));
}
template <int Shift>
static inline Wide widen(Wide sum, Dots dots) {
  return Wide::of(_mm256_add_epi32(sum.bits(), _mm256_madd_epi16(dots.bits(), _mm256_set1_epi16(1 << Shift))));
}
#endif
static inline Dots zeroDots() { return Dots::of(_mm256_setzero_si256()); }
static inline Dots dot(Dots sum, Codes codes, const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return Dots::of(addProducts(sum.bits(), codes.v, _mm256_set1_epi32(four)));
}
static inline Wide zeroWide() { return Wide::of(_mm256_setzero_si256()); }
static inline __m256 floatsOf(Wide sum) { return _mm256_cvtepi32_ps(sum.bits()); }
static inline void combine(float* p, Wide low) { _mm256_storeu_ps(p, floatsOf(low)); }
static inline void combine(float* p, Wide middle, Wide low) {
  _mm256_storeu_ps(p, _mm256_fmadd_ps(floatsOf(middle), _mm256_set1_ps(256.0f), floatsOf(low)));
}
static inline void combine(float* p, Wide high, Wide middle, Wide low) {
  const __m256 sum = _mm256_fmadd_ps(floatsOf(middle), _mm256_set1_ps(256.0f), floatsOf(low));
  _mm256_storeu_ps(p, _mm256_fmadd_ps(floatsOf(high), _mm256_set1_ps(65536.0f), sum));
}
static inline void storeBytes(int8_t* p, i32x16 v) {
  const __m256i pick = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0,
                                        4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1);
  const auto eight = [pick](__m256i words) {
    const __m256i bytes = _mm256_shuffle_epi8(words, pick);
    return _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  };
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi64(eight(v.low), eight(v.high)));
}
template <int Bits>
static inline f32x16 codesToFloat(const uint8_t* line, int shift) {
  const auto eight = [shift](const uint8_t* p) {
    const __m256i words =
        _mm256_srl_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), _mm_cvtsi32_si128(shift));
    return _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32((1 << Bits) - 1)));
  };
  return {eight(line), eight(line + 32)};
}

#elif SPILLWAY_ISA_LEVEL == 3

// Two registers a unit: there are twice as many as AVX2 has. usdot comes with i8mm; sdot takes codes of 8 bits as
// nibbles, and so does what stands for it.
constexpr int kUnitLanes = 8;
constexpr int kMostDots = 1 << 20;
struct Codes {
  uint8x16_t a, b;
};
struct Dots {
  int32x4_t a, b;
};
using Wide = Dots;
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr bool kDotsAreWide = true;
constexpr int kBytePlanes = 1;
#else
constexpr bool kDotsAreWide = false;
constexpr int kBytePlanes = 2;
#endif

static inline Codes loadCodes(const uint8_t* p) { return {vld1q_u8(p), vld1q_u8(p + 16)}; }
static inline Codes codesOf(Codes codes, int plane) {
  if (plane == kWholeBytes) return codes;
  if (plane == 1) return {vshrq_n_u8(codes.a, 4), vshrq_n_u8(codes.b, 4)};
  const uint8x16_t nibble = vdupq_n_u8(15);
  return {vandq_u8(codes.a, nibble), vandq_u8(codes.b, nibble)};
}
static inline Dots zeroDots() { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
static inline int32x4_t dotCodes(int32x4_t sum, uint8x16_t codes, int8x16_t four) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return vusdotq_s32(sum, codes, four);
#else
  return dotBytes(sum, vreinterpretq_s8_u8(codes), four);
#endif
}
static inline Dots dot(Dots sum, Codes codes, const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(word));
  return {dotCodes(sum.a, codes.a, four), dotCodes(sum.b, codes.b, four)};
}
static inline Wide zeroWide() { return zeroDots(); }
template <int Shift>
static inline Wide widen(Wide sum, Dots dots) {
  return {vaddq_s32(sum.a, vshlq_n_s32(dots.a, Shift)), vaddq_s32(sum.b, vshlq_n_s32(dots.b, Shift))};
}
static inline void combine(float* p, Wide low) {
  vst1q_f32(p, vcvtq_f32_s32(low.a));
  vst1q_f32(p + 4, vcvtq_f32_s32(low.b));
}
static inline float32x4_t combined(int32x4_t middle, int32x4_t low) {
  return vfmaq_f32(vcvtq_f32_s32(low), vcvtq_f32_s32(middle), vdupq_n_f32(256.0f));
}
static inline void combine(float* p, Wide middle, Wide low) {
  vst1q_f32(p, combined(middle.a, low.a));
  vst1q_f32(p + 4, combined(middle.b, low.b));
}
static inline void combine(float* p, Wide high, Wide middle, Wide low) {
  const float32x4_t large = vdupq_n_f32(65536.0f);
  vst1q_f32(p, vfmaq_f32(combined(middle.a, low.a), vcvtq_f32_s32(high.a), large));
  vst1q_f32(p + 4, vfmaq_f32(combined(middle.b, low.b), vcvtq_f32_s32(high.b), large));
}
static inline void storeBytes(int8_t* p, i32x16 v) { vst1q_s8(p, narrow(v)); }
template <int Bits>
static inline f32x16 codesToFloat(const uint8_t* line, int shift) {
  const int32x4_t right = vdupq_n_s32(-shift);
  const auto four = [right](const uint8_t* p) {
    const uint32x4_t words = vshlq_u32(vreinterpretq_u32_u8(vld1q_u8(p)), right);
    return vcvtq_f32_u32(vandq_u32(words, vdupq_n_u32((1u << Bits) - 1)));
  };
  return {four(line), four(line + 16), four(line + 32), four(line + 48)};
}

#else

constexpr int kUnitLanes = 16;
constexpr bool kDotsAreWide = true;
constexpr int kMostDots = 1 << 20;
constexpr int kBytePlanes = 1;
struct Codes {
  uint8_t byte[64];
};
struct Dots {
  int32_t lane[16];
};
using Wide = Dots;

static inline Codes loadCodes(const uint8_t* p) {
  Codes codes;
  __builtin_memcpy(codes.byte, p, 64);
  return codes;
}
static inline Codes codesOf(Codes codes, int plane) {
  if (plane != kWholeBytes)
    for (uint8_t& byte : codes.byte) byte = static_cast<uint8_t>(plane == 0 ? byte & 15 : byte >> 4);
  return codes;
}
static inline Dots zeroDots() { return {}; }
static inline Dots dot(Dots sum, const Codes& codes, const int8_t* p) {
  for (int i = 0; i < 64; i++) sum.lane[i / 4] += codes.byte[i] * p[i % 4];
  return sum;
}
static inline Wide zeroWide() { return {}; }
template <int Shift>
static inline Wide widen(Wide sum, const Dots& dots) {
  for (int i = 0; i < 16; i++) sum.lane[i] += dots.lane[i] * (1 << Shift);
  return sum;
}
static inline void combine(float* p, const Wide& low) {
  for (int i = 0; i < 16; i++) p[i] = static_cast<float>(low.lane[i]);
}
static inline void combine(float* p, const Wide& middle, const Wide& low) {
  for (int i = 0; i < 16; i++)
    p[i] = __builtin_fmaf(static_cast<float>(middle.lane[i]), 256.0f, static_cast<float>(low.lane[i]));
}
static inline void combine(float* p, const Wide& high, const Wide& middle, const Wide& low) {
  for (int i = 0; i < 16; i++) {
    const float sum = __builtin_fmaf(static_cast<float>(middle.lane[i]), 256.0f, static_cast<float>(low.lane[i]));
    p[i] = __builtin_fmaf(static_cast<float>(high.lane[i]), 65536.0f, sum);
  }
}
static inline void storeBytes(int8_t* p, i32x16 v) {
  for (int i = 0; i < 16; i++) p[i] = static_cast<int8_t>(static_cast<uint8_t>(v.lane[i]));
}
template <int Bits>
static inline f32x16 codesToFloat(const uint8_t* line, int shift) {
  f32x16 result;
  for (int i = 0; i < 16; i++) {
    uint32_t word;
    __builtin_memcpy(&word, line + 4 * i, 4);
    result.lane[i] = static_cast<float>(word >> shift & ((1u << Bits) - 1));
  }
  return result;
}

#endif

}  // namespace spillway::SPILLWAY_ISA
