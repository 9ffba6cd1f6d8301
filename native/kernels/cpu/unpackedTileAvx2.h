// vpmaddubsw on unpacked weights, eight of a panel's outputs at a time: all of a tile's totals and 16-bit sums stay in the sixteen registers.
// Included by unpackedMatmul.cpp only.
#pragma once

namespace spillway::SPILLWAY_ISA {
namespace {

// Adds up V vectors of a group for R rows, in 16 bits as often as they hold, into `sum`. `vectors` and `values` begin with the first of them.
template <int Bits, int R, int V>
inline void addDots(const uint8_t* vectors, const QuantisedTile& tile, int first, __m256i (&sum)[R]) {
  constexpr bool kInTwo = Bits == 8;  // low and high four bits
  constexpr int kSteps = kInTwo ? V : stepsInWords(Bits) < V ? stepsInWords(Bits) : V;
  constexpr size_t kStride = kInTwo ? 2 * kVectorBytes : kVectorBytes;
  const __m256i ones = _mm256_set1_epi16(1);
  SPILLWAY_UNROLL(8)
  for (int begin = first; begin < first + V; begin += kSteps) {
    __m256i low[R], high[R];
    SPILLWAY_UNROLL(8)
    for (int v = begin; v < begin + kSteps; v++) {
      const __m256i weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(vectors + kStride * static_cast<size_t>(v)));
      __m256i highWeights = weights;
      if constexpr (kInTwo) highWeights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(vectors + kStride * static_cast<size_t>(v) + kVectorBytes));
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++) {
        int32_t four;
        __builtin_memcpy(&four, tile.values[r] + 4 * v, 4);
        const __m256i inputs = _mm256_set1_epi32(four);
        const __m256i pairs = _mm256_maddubs_epi16(weights, inputs);
        low[r] = v == begin ? pairs : added(low[r], pairs);
        if constexpr (kInTwo) {
          const __m256i highPairs = _mm256_maddubs_epi16(highWeights, inputs);
          high[r] = v == begin ? highPairs : added(high[r], highPairs);
        }
      }
    }
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) {
      sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(low[r], ones));
      if constexpr (kInTwo) sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(high[r], _mm256_set1_epi16(16)));
    }
  }
}

// Outputs 8 * part to 8 * part + 7 of the panel.
template <typename A, int R>
void multiplyPart(const PreparedWeights& weights, size_t part, const QuantisedTile* tile, size_t starts, Ends ends, const Totals& totals, size_t row, Ahead& ahead) {
  constexpr int kHalves = A::kHalves;
  float* at = totals.at + row * totals.stride + 8 * part;
  const QuantisedTile& begin = *tile;
  __m256 total[R];
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) {
    if (ends.first)
      total[r] = _mm256_setzero_ps();
    else
      total[r] = _mm256_loadu_ps(at + static_cast<size_t>(r) * totals.stride);
    __builtin_prefetch(at + static_cast<size_t>(r) * totals.stride, 1);  // stored to much later; rows of a wide matrix are pages apart
  }
  for (size_t g = 0; g < weights.groups;) {
    if (part == 0) ahead.step(g);
    const uint8_t* vectors = weights.vectors + g * unpackedVectors(A::kBits) * kVectorBytes + 32 * part;
    const float* scales = weights.scales + g * kHalves * kUnpackedScale + 8 * part;
    SPILLWAY_UNROLL(2)
    for (int half = 0; half < kHalves; half++) {
      __m256i sum[R];
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++) sum[r] = _mm256_set1_epi32(startOf<A>(*tile, starts, half, r));
      addDots<A::kBits, R, 8 / kHalves>(vectors, *tile, 4 * half, sum);
      const __m256 scale = _mm256_loadu_ps(scales + static_cast<size_t>(half) * kUnpackedScale);
      SPILLWAY_UNROLL(4)
      for (int r = 0; r < R; r++)  // the subtraction is exact
        total[r] = _mm256_fmadd_ps(_mm256_sub_ps(_mm256_castsi256_ps(sum[r]), _mm256_broadcast_ss(&tile->bias[r])), scale, total[r]);
    }
    if constexpr (A::kOffset)
      SPILLWAY_UNROLL(2)
      for (int half = 0; half < kHalves; half++) {
        const __m256 offset = _mm256_loadu_ps(scales + static_cast<size_t>(half) * kUnpackedScale + kPanelOutputs);
        SPILLWAY_UNROLL(4)
        for (int r = 0; r < R; r++) total[r] = _mm256_fmadd_ps(offset, _mm256_set1_ps(scaledSum<kHalves>(*tile, r, half)), total[r]);
      }
    g += tile->advance;
    tile += tile->next;
  }
  const __m256 bias = ends.last && totals.bias != nullptr ? _mm256_loadu_ps(totals.bias + 8 * part) : _mm256_setzero_ps();
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) {
    const __m256 whole = ends.last ? _mm256_fmadd_ps(total[r], _mm256_broadcast_ss(&begin.factor[r]), bias) : total[r];
    _mm256_storeu_ps(at + static_cast<size_t>(r) * totals.stride, whole);
  }
}

template <typename A, int R, int P, int StoredBits>
void multiplyPreparedTile(const PreparedWeights& weights, const QuantisedTile* tile, size_t starts, Ends ends, const Totals& totals, size_t row, Ahead& ahead) {
  static_assert(P == 1 && StoredBits == 8, "panels come one at a time, unpacked");
  for (size_t part = 0; part < 2; part++) multiplyPart<A, R>(weights, part, tile, starts, ends, totals, row, ahead);
}

}  // namespace
}  // namespace spillway::SPILLWAY_ISA
