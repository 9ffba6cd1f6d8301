// Unpacked weights, half a panel's outputs at a time for four rows: sums and accumulators of eight outputs, and what is
// multiplied, stay in the 32 registers. Included by unpackedMatmul.cpp only.
#pragma once

namespace spillway::SPILLWAY_ISA {
namespace {

constexpr int kPartOutputs = 8;

// sum[r][i]: for outputs 4i to 4i + 3, row r's start plus the products of V vectors of a group, from vector `first` on.
// `weights` begins with the group's first vector, at the eight outputs (storePair in dotNeon.h).
#if defined(__ARM_FEATURE_MATMUL_INT8)

// smmla: two rows by two outputs by eight inputs an instruction.
template <int R, int V>
inline void sumDots(const int8_t* weights, const QuantisedTile& tile, int first, const int32_t (&start)[R],
                    int32x4_t (&sum)[R][2]) {
  constexpr int kRowPairs = (R + 1) / 2;
  const auto other = [](int pair) { return 2 * pair + 1 < R ? 2 * pair + 1 : 2 * pair; };  // a row alone goes twice
  int32x4_t squares[kRowPairs][4];
  SPILLWAY_UNROLL(2)
  for (int pair = 0; pair < kRowPairs; pair++) {
    const int32x4_t both = vcombine_s32(vdup_n_s32(start[2 * pair]), vdup_n_s32(start[other(pair)]));
    SPILLWAY_UNROLL(4)
    for (int j = 0; j < 4; j++) squares[pair][j] = both;
  }
  SPILLWAY_UNROLL(2)
  for (int v = first; v < first + V; v += 4) {
    int8x16_t inputs[kRowPairs][2];
    SPILLWAY_UNROLL(2)
    for (int pair = 0; pair < kRowPairs; pair++) {
      const int64x2_t one = vreinterpretq_s64_s8(vld1q_s8(tile.values[2 * pair] + 4 * v)),
                      two = vreinterpretq_s64_s8(vld1q_s8(tile.values[other(pair)] + 4 * v));
      inputs[pair][0] = vreinterpretq_s8_s64(vzip1q_s64(one, two));
      inputs[pair][1] = vreinterpretq_s8_s64(vzip2q_s64(one, two));
    }
    SPILLWAY_UNROLL(2)
    for (int i = 0; i < 2; i++) {
      const int8_t* eightInputs = weights + (v / 2 + i) * static_cast<int>(2 * kVectorBytes);
      SPILLWAY_UNROLL(4)
      for (int j = 0; j < 4; j++) {
        const int8x16_t twoOutputs = vld1q_s8(eightInputs + 16 * j);
        SPILLWAY_UNROLL(2)
        for (int pair = 0; pair < kRowPairs; pair++)
          squares[pair][j] = vmmlaq_s32(squares[pair][j], inputs[pair][i], twoOutputs);
      }
    }
  }
  SPILLWAY_UNROLL(2)
  for (int pair = 0; pair < kRowPairs; pair++) SPILLWAY_UNROLL(2)
  for (int i = 0; i < 2; i++) {
    const int64x2_t one = vreinterpretq_s64_s32(squares[pair][2 * i]),
                    two = vreinterpretq_s64_s32(squares[pair][2 * i + 1]);
    sum[other(pair)][i] = vreinterpretq_s32_s64(vzip2q_s64(one, two));
    sum[2 * pair][i] = vreinterpretq_s32_s64(vzip1q_s64(one, two));
  }
}

#else

template <int R, int V>
inline void sumDots(const int8_t* weights, const QuantisedTile& tile, int first, const int32_t (&start)[R],
                    int32x4_t (&sum)[R][2]) {
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = vdupq_n_s32(start[r]);
  SPILLWAY_UNROLL(2)
  for (int v = first; v < first + V; v += 4) {
    int8x16_t inputs[R];
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) inputs[r] = vld1q_s8(tile.values[r] + 4 * v);
    const auto add = [&](auto lane) {
      constexpr int n = decltype(lane)::value;
      SPILLWAY_UNROLL(2)
      for (int i = 0; i < 2; i++) {
        const int8x16_t fourOutputs = vld1q_s8(weights + (v + n) * static_cast<int>(kVectorBytes) + 16 * i);
        SPILLWAY_UNROLL(4)
        for (int r = 0; r < R; r++) sum[r][i] = dotLane<n>(sum[r][i], fourOutputs, inputs[r]);
      }
    };
    add(Lane<0>());
    add(Lane<1>());
    add(Lane<2>());
    add(Lane<3>());
  }
}

#endif

// Eight outputs, from `output` on, of R rows.
template <typename A, int R>
void multiplyPart(const PreparedWeights& weights, const QuantisedTile* tile, size_t output, size_t starts, Ends ends,
                  const Accumulators& accumulators, size_t row, Ahead& ahead) {
  constexpr int kHalves = A::kHalves;
  float* at = accumulators.at + row * accumulators.stride + output;
  const QuantisedTile& begin = *tile;
  float32x4_t total[R][2];
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) {
    const float* of = at + static_cast<size_t>(r) * accumulators.stride;
    SPILLWAY_UNROLL(2)
    for (int i = 0; i < 2; i++) total[r][i] = ends.first ? vdupq_n_f32(0) : vld1q_f32(of + 4 * i);
    __builtin_prefetch(of, 1);  // stored to much later; rows of a wide matrix are pages apart
  }
  const int8_t* vectors = reinterpret_cast<const int8_t*>(weights.vectors) + output * kPairedBytes;
  const float* scales = weights.scales + output;
  for (size_t g = 0; g < weights.groups;) {
    if (output == 0) ahead.step(g);
    const int8_t* ofGroup = vectors + g * 8 * kVectorBytes;
    SPILLWAY_UNROLL(2)
    for (int half = 0; half < kHalves; half++) {
      const float* ofHalf = scales + (g * kHalves + static_cast<size_t>(half)) * kUnpackedScale;
      int32_t start[R];
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++) start[r] = startOf<A>(*tile, starts, half, r);
      int32x4_t sum[R][2];
      sumDots<R, 8 / kHalves>(ofGroup, *tile, 4 * half, start, sum);
      SPILLWAY_UNROLL(2)
      for (int i = 0; i < 2; i++) {
        const float32x4_t scale = vld1q_f32(ofHalf + 4 * i);
        SPILLWAY_UNROLL(4)
        for (int r = 0; r < R; r++)  // the subtraction is exact
          total[r][i] =
              vfmaq_f32(total[r][i], vsubq_f32(vreinterpretq_f32_s32(sum[r][i]), vdupq_n_f32(tile->bias[r])), scale);
      }
    }
    if constexpr (A::kOffset) SPILLWAY_UNROLL(2)
    for (int half = 0; half < kHalves; half++) {
      const float* ofHalf = scales + (g * kHalves + static_cast<size_t>(half)) * kUnpackedScale;
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++) {
        const float32x4_t scaled = vdupq_n_f32(scaledSum<kHalves>(*tile, r, half));
        SPILLWAY_UNROLL(2)
        for (int i = 0; i < 2; i++)
          total[r][i] = vfmaq_f32(total[r][i], vld1q_f32(ofHalf + kPanelOutputs + 4 * i), scaled);
      }
    }
    g += tile->advance;
    tile += tile->next;
  }
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) SPILLWAY_UNROLL(2)
  for (int i = 0; i < 2; i++) {
    const float32x4_t bias = ends.last && accumulators.bias != nullptr
                                 ? vld1q_f32(accumulators.bias + output + static_cast<size_t>(4 * i))
                                 : vdupq_n_f32(0);
    const float32x4_t whole = ends.last ? vfmaq_f32(bias, total[r][i], vdupq_n_f32(begin.factor[r])) : total[r][i];
    vst1q_f32(at + static_cast<size_t>(r) * accumulators.stride + 4 * i, whole);
  }
}

template <typename A, int R, int P, int StoredBits>
void multiplyPreparedTile(const PreparedWeights& weights, const QuantisedTile* tile, size_t starts, Ends ends,
                          const Accumulators& accumulators, size_t row, Ahead& ahead) {
  static_assert(P == 1 && StoredBits == 8, "panels come one at a time, unpacked");
  for (size_t output = 0; output < kPanelOutputs; output += kPartOutputs)
    multiplyPart<A, R>(weights, tile, output, starts, ends, accumulators, row, ahead);
}

}  // namespace
}  // namespace spillway::SPILLWAY_ISA
