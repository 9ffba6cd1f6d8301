// vpdpbusd on 256 bits: eight outputs by four inputs an instruction. A tile of four rows by sixteen outputs has three
// loads for four of them and keeps all but three accumulators in the sixteen registers: in the first-level cache 84% of
// the peak on a Zen 4; two rows, as AVX2 has them, 69%; four rows by 24 outputs, whose accumulators are in memory, 82%.
// Included by dot.h only.
#pragma once
#include "bytesAvx2.h"
#include "dpbusd256.h"

namespace spillway::SPILLWAY_ISA {

static constexpr int dotZero(int, int zero) { return zero; }

template <int Bits, int R, int P, int V, typename Source>
static inline void dot(const Source& source, size_t group, int first, const TileValues& values, i32x16 (&sum)[R][P]) {
  SPILLWAY_UNROLL(8)
  for (int v = first; v < first + V; v++) SPILLWAY_UNROLL(4)
  for (int p = 0; p < P; p++) {
    const Bytes weights = source.vector(group, p, v);
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) {
      int32_t four;
      __builtin_memcpy(&four, values[r] + 4 * v, 4);
      const __m256i inputs = _mm256_set1_epi32(four);
      sum[r][p] = {dpbusd(sum[r][p].low, weights.low, inputs), dpbusd(sum[r][p].high, weights.high, inputs)};
    }
  }
}

}  // namespace spillway::SPILLWAY_ISA
