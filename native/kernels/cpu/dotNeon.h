// sdot: four products of signed bytes a lane, where the processor has it, and what it takes to do the same where it has
// not. Included by dot.h only.
#pragma once

namespace spillway::SPILLWAY_ISA {

struct Bytes {
  uint8x16_t a, b, c, d;
};

static inline Bytes loadBytes(const uint8_t* p) {
  return {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)};
}
static inline void storeBytes(uint8_t* p, Bytes x) {
  vst1q_u8(p, x.a);
  vst1q_u8(p + 16, x.b);
  vst1q_u8(p + 32, x.c);
  vst1q_u8(p + 48, x.d);
}
static inline Bytes either(Bytes x, Bytes y) {
  return {vorrq_u8(x.a, y.a), vorrq_u8(x.b, y.b), vorrq_u8(x.c, y.c), vorrq_u8(x.d, y.d)};
}
static inline Bytes field(Bytes x, int shift, int mask) {
  const uint8x16_t bits = vdupq_n_u8(static_cast<uint8_t>(mask));
  const int8x16_t left = vdupq_n_s8(static_cast<int8_t>(-shift));
  const auto of = [=](uint8x16_t v) { return vandq_u8(shift == 0 ? v : vshlq_u8(v, left), bits); };
  return {of(x.a), of(x.b), of(x.c), of(x.d)};
}
static inline Bytes lookUp(const uint8_t (&table)[16], Bytes x) {
  const uint8x16_t all = vld1q_u8(table);
  return {vqtbl1q_u8(all, x.a), vqtbl1q_u8(all, x.b), vqtbl1q_u8(all, x.c), vqtbl1q_u8(all, x.d)};
}
static inline f32x16 byteToFloat(Bytes x, int i) {
  const int32x4_t right = vdupq_n_s32(-8 * i);
  const auto of = [=](uint8x16_t v) {
    return vcvtq_f32_u32(vandq_u32(vshlq_u32(vreinterpretq_u32_u8(v), right), vdupq_n_u32(255)));
  };
  return {of(x.a), of(x.b), of(x.c), of(x.d)};
}
static inline f32x16 uint8ToFloat(const uint8_t* p) {
  const uint8x16_t bytes = vld1q_u8(p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
  return {vcvtq_f32_u32(vmovl_u16(vget_low_u16(low))), vcvtq_f32_u32(vmovl_high_u16(low)),
          vcvtq_f32_u32(vmovl_u16(vget_low_u16(high))), vcvtq_f32_u32(vmovl_high_u16(high))};
}
static inline f32x16 int8ToFloat(const uint8_t* p) {
  const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
          vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))};
}
static inline void storeInt8(int8_t* p, i32x16 first, i32x16 second, int32_t sums[2]) {
  const int8x16_t one = narrow(first), two = narrow(second);
  vst1q_s8(p, one);
  vst1q_s8(p + 16, two);
  sums[0] = vaddlvq_s8(one);
  sums[1] = vaddlvq_s8(two);
}

// Values of 8 bits are made signed, so that no zero point is left; the others are below 64 and signed as they are.
static constexpr int dotZero(int bits, int zero) { return bits == 8 ? 0 : zero; }
template <int Bits>
static inline int8x16_t signedNumbers(uint8x16_t numbers) {
  return vreinterpretq_s8_u8(Bits == 8 ? veorq_u8(numbers, vdupq_n_u8(0x80)) : numbers);
}

// Two vectors of a group, as multiplyPrepared takes them: signed, and for products of eight inputs a lane's eight bytes
// side by side. An output's bytes begin kPairedBytes after the one's before it.
#if defined(__ARM_FEATURE_MATMUL_INT8)
constexpr size_t kPairedBytes = 8;
template <int Bits>
static inline void storePair(uint8_t* at, Bytes even, Bytes odd) {
  const auto store = [](uint8_t* to, uint8x16_t v, uint8x16_t next) {
    const int32x4_t one = vreinterpretq_s32_s8(signedNumbers<Bits>(v)),
                    two = vreinterpretq_s32_s8(signedNumbers<Bits>(next));
    vst1q_u8(to, vreinterpretq_u8_s32(vzip1q_s32(one, two)));
    vst1q_u8(to + 16, vreinterpretq_u8_s32(vzip2q_s32(one, two)));
  };
  store(at, even.a, odd.a);
  store(at + 32, even.b, odd.b);
  store(at + 64, even.c, odd.c);
  store(at + 96, even.d, odd.d);
}
#else
constexpr size_t kPairedBytes = 4;
template <int Bits>
static inline void storePair(uint8_t* at, Bytes even, Bytes odd) {
  const auto asSigned = [](Bytes v) -> Bytes {
    const auto of = [](uint8x16_t numbers) { return vreinterpretq_u8_s8(signedNumbers<Bits>(numbers)); };
    return {of(v.a), of(v.b), of(v.c), of(v.d)};
  };
  storeBytes(at, asSigned(even));
  storeBytes(at + kVectorBytes, asSigned(odd));
}
#endif

template <int N>
struct Lane {
  static constexpr int value = N;
};
// Adds to each lane its four weights times the four inputs of lane N.
template <int N>
static inline int32x4_t dotLane(int32x4_t sum, int8x16_t weights, int8x16_t inputs) {
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_laneq_s32(sum, weights, inputs, N);
#else
  return dotBytes(sum, weights, vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(inputs), N)));
#endif
}

template <int Bits, int R, int P, int V, typename Source>
static inline void dot(const Source& source, size_t group, int first, const TileValues& values, i32x16 (&sum)[R][P]) {
  SPILLWAY_UNROLL(2)
  for (int begin = first; begin < first + V; begin += 4) {
    int8x16_t inputs[R];
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) inputs[r] = vld1q_s8(values[r] + 4 * begin);
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) {
      const auto add = [&](auto lane) {
        constexpr int n = decltype(lane)::value;
        const Bytes weights = source.vector(group, p, begin + n);
        SPILLWAY_UNROLL(4)
        for (int r = 0; r < R; r++) {
          i32x16& to = sum[r][p];
          to = {dotLane<n>(to.a, signedNumbers<Bits>(weights.a), inputs[r]),
                dotLane<n>(to.b, signedNumbers<Bits>(weights.b), inputs[r]),
                dotLane<n>(to.c, signedNumbers<Bits>(weights.c), inputs[r]),
                dotLane<n>(to.d, signedNumbers<Bits>(weights.d), inputs[r])};
        }
      };
      add(Lane<0>());
      add(Lane<1>());
      add(Lane<2>());
      add(Lane<3>());
    }
  }
}

}  // namespace spillway::SPILLWAY_ISA
