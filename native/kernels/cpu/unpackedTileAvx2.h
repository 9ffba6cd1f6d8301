// vpmaddubsw on unpacked weights, a panel's sixteen outputs for two rows at a time: all accumulators and 16-bit sums
// stay in the sixteen registers, and of the ways to divide them (four rows of eight outputs are another) it has the
// fewest loads, which are what a group is slowed by: Q4_0 from 60 to 70% of the peak. Included by unpackedMatmul.cpp
// only.
#pragma once

namespace spillway::SPILLWAY_ISA {
namespace {

// Adds up V vectors of a group for R rows of the tile from `row` on, in 16 bits as often as they hold, into `sum`.
// `vectors` and `values` begin with the first of them.
template <int Bits, int R, int V>
inline void addDots(const uint8_t* vectors, const QuantisedTile& tile, int row, int first, __m256i (&sum)[R][2]) {
  constexpr bool kInTwo = Bits == 8;  // low and high four bits
  constexpr int kSteps = kInTwo ? V : stepsInWords(Bits) < V ? stepsInWords(Bits) : V;
  constexpr size_t kStride = kInTwo ? 2 * kVectorBytes : kVectorBytes;
  const __m256i ones = _mm256_set1_epi16(1);
  SPILLWAY_UNROLL(8)
  for (int begin = first; begin < first + V; begin += kSteps) {
    __m256i low[R][2], high[R][2];
    SPILLWAY_UNROLL(8)
    for (int v = begin; v < begin + kSteps; v++) {
      __m256i inputs[R];
      SPILLWAY_UNROLL(2)
      for (int r = 0; r < R; r++) {
        int32_t four;
        __builtin_memcpy(&four, tile.values[row + r] + 4 * v, 4);
        inputs[r] = _mm256_set1_epi32(four);
      }
      const auto addTo = [&](__m256i(&words)[R][2], const uint8_t* weights) {
        SPILLWAY_UNROLL(4)
        for (int i = 0; i < 2 * R;
             i++) {  // a row's outputs, or, where sums take half of the registers, an output's rows
          const int r = kInTwo ? i % R : i / 2, part = kInTwo ? i / R : i % 2;
          const __m256i pairs =
              _mm256_maddubs_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights) + part), inputs[r]);
          words[r][part] = v == begin ? pairs : added(words[r][part], pairs);
        }
      };
      const uint8_t* weights = vectors + kStride * static_cast<size_t>(v);
      addTo(low, weights);
      if constexpr (kInTwo) addTo(high, weights + kVectorBytes);
    }
    SPILLWAY_UNROLL(2)
    for (int r = 0; r < R; r++) SPILLWAY_UNROLL(2)
    for (int part = 0; part < 2; part++) {
      sum[r][part] = _mm256_add_epi32(sum[r][part], _mm256_madd_epi16(low[r][part], ones));
      if constexpr (kInTwo)
        sum[r][part] = _mm256_add_epi32(sum[r][part], _mm256_madd_epi16(high[r][part], _mm256_set1_epi16(16)));
    }
  }
}

// R rows of the tile from `first` on.
template <typename A, int R>
void multiplyRowsOfTile(const PreparedWeights& weights, const QuantisedTile* tile, int first, size_t starts, Ends ends,
                        const Accumulators& accumulators, size_t row, Ahead& ahead) {
  constexpr int kHalves = A::kHalves;
  float* at = accumulators.at + (row + static_cast<size_t>(first)) * accumulators.stride;
  const QuantisedTile& begin = *tile;
  __m256 total[R][2];
  SPILLWAY_UNROLL(2)
  for (int r = 0; r < R; r++) {
    float* of = at + static_cast<size_t>(r) * accumulators.stride;
    SPILLWAY_UNROLL(2)
    for (int part = 0; part < 2; part++)
      total[r][part] = ends.first ? _mm256_setzero_ps() : _mm256_loadu_ps(of + 8 * part);
    __builtin_prefetch(of, 1);  // stored to much later; rows of a wide matrix are pages apart
  }
  for (size_t g = 0; g < weights.groups;) {
    if (first == 0) ahead.step(g);
    const uint8_t* vectors = weights.vectors + g * unpackedVectors(A::kBits) * kVectorBytes;
    const float* scales = weights.scales + g * kHalves * kUnpackedScale;
    SPILLWAY_UNROLL(2)
    for (int half = 0; half < kHalves; half++) {
      __m256i sum[R][2];
      SPILLWAY_UNROLL(2)
      for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = _mm256_set1_epi32(startOf<A>(*tile, starts, half, first + r));
      addDots<A::kBits, R, 8 / kHalves>(vectors, *tile, first, 4 * half, sum);
      SPILLWAY_UNROLL(2)
      for (int r = 0; r < R; r++) {
        const __m256 bias = _mm256_broadcast_ss(&tile->bias[first + r]);
        SPILLWAY_UNROLL(2)
        for (int part = 0; part < 2; part++) {  // the subtraction is exact
          const __m256 scale = _mm256_loadu_ps(scales + static_cast<size_t>(half) * kUnpackedScale + 8 * part);
          total[r][part] =
              _mm256_fmadd_ps(_mm256_sub_ps(_mm256_castsi256_ps(sum[r][part]), bias), scale, total[r][part]);
        }
      }
    }
    if constexpr (A::kOffset) SPILLWAY_UNROLL(2)
    for (int half = 0; half < kHalves; half++) SPILLWAY_UNROLL(2)
    for (int r = 0; r < R; r++) {
      const __m256 scaled = _mm256_set1_ps(scaledSum<kHalves>(*tile, first + r, half));
      SPILLWAY_UNROLL(2)
      for (int part = 0; part < 2; part++)
        total[r][part] = _mm256_fmadd_ps(
            _mm256_loadu_ps(scales + static_cast<size_t>(half) * kUnpackedScale + kPanelOutputs + 8 * part), scaled,
            total[r][part]);
    }
    g += tile->advance;
    tile += tile->next;
  }
  SPILLWAY_UNROLL(2)
  for (int r = 0; r < R; r++) SPILLWAY_UNROLL(2)
  for (int part = 0; part < 2; part++) {
    const __m256 bias =
        ends.last && accumulators.bias != nullptr ? _mm256_loadu_ps(accumulators.bias + 8 * part) : _mm256_setzero_ps();
    const __m256 whole = ends.last
                             ? _mm256_fmadd_ps(total[r][part], _mm256_broadcast_ss(&begin.factor[first + r]), bias)
                             : total[r][part];
    _mm256_storeu_ps(at + static_cast<size_t>(r) * accumulators.stride + 8 * part, whole);
  }
}

template <typename A, int R, int P, int StoredBits>
void multiplyPreparedTile(const PreparedWeights& weights, const QuantisedTile* tile, size_t starts, Ends ends,
                          const Accumulators& accumulators, size_t row, Ahead& ahead) {
  static_assert(P == 1 && StoredBits == 8, "panels come one at a time, unpacked");
  multiplyRowsOfTile < A, R<2 ? R : 2>(weights, tile, 0, starts, ends, accumulators, row, ahead);
  if constexpr (R > 2) multiplyRowsOfTile<A, R - 2>(weights, tile, 2, starts, ends, accumulators, row, ahead);
}

}  // namespace
}  // namespace spillway::SPILLWAY_ISA
