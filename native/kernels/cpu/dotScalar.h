// Plain loops: the reference. Included by dot.h only.
#pragma once

namespace spillway::SPILLWAY_ISA {

struct Bytes {
  uint8_t byte[64];
};

static inline Bytes loadBytes(const uint8_t* p) {
  Bytes result;
  __builtin_memcpy(result.byte, p, 64);
  return result;
}
static inline void storeBytes(uint8_t* p, Bytes a) { __builtin_memcpy(p, a.byte, 64); }
static inline Bytes either(Bytes a, Bytes b) {
  for (int i = 0; i < 64; i++) a.byte[i] |= b.byte[i];
  return a;
}
static inline Bytes field(Bytes a, int shift, int mask) {
  for (int i = 0; i < 64; i++)
    a.byte[i] = static_cast<uint8_t>((shift < 0 ? a.byte[i] << -shift : a.byte[i] >> shift) & mask);
  return a;
}
static inline Bytes lookUp(const uint8_t (&table)[16], Bytes a) {
  for (int i = 0; i < 64; i++) a.byte[i] = table[a.byte[i]];
  return a;
}
static inline f32x16 byteToFloat(Bytes a, int i) {
  f32x16 result;
  for (int output = 0; output < 16; output++) result.lane[output] = static_cast<float>(a.byte[4 * output + i]);
  return result;
}
static inline f32x16 uint8ToFloat(const uint8_t* p) {
  f32x16 result;
  for (int i = 0; i < 16; i++) result.lane[i] = static_cast<float>(p[i]);
  return result;
}
static inline f32x16 int8ToFloat(const uint8_t* p) {
  f32x16 result;
  for (int i = 0; i < 16; i++) result.lane[i] = static_cast<float>(static_cast<int8_t>(p[i]));
  return result;
}
static inline void storeInt8(int8_t* p, i32x16 first, i32x16 second, int32_t sums[2]) {
  sums[0] = sums[1] = 0;
  for (int i = 0; i < 16; i++) {
    sums[0] += first.lane[i];
    sums[1] += second.lane[i];
    p[i] = static_cast<int8_t>(first.lane[i]);
    p[16 + i] = static_cast<int8_t>(second.lane[i]);
  }
}

static constexpr int dotZero(int, int zero) { return zero; }

template <int Bits, int R, int P, int V, typename Source>
static inline void dot(const Source& source, size_t group, int first, const TileValues& values, i32x16 (&sum)[R][P]) {
  for (int v = first; v < first + V; v++)
    for (int p = 0; p < P; p++) {
      const Bytes weights = source.vector(group, p, v);
      for (int r = 0; r < R; r++) {
        const int8_t* inputs = values[r] + 4 * v;
        for (int output = 0; output < 16; output++)
          for (int i = 0; i < 4; i++) sum[r][p].lane[output] += weights.byte[4 * output + i] * inputs[i];
      }
    }
}

}  // namespace spillway::SPILLWAY_ISA
