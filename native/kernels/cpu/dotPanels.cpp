// AttentionKernels::dotPanels. Every output is one fused multiply-add an element of the depth, in order. Compiled once
// for each instruction set (simd.h).
#include "dotPanels.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// As many panels beside four rows as the registers hold sums.
constexpr int kPanels = SPILLWAY_ISA_LEVEL == 2 ? 4 : 1;

template <int R, int P>
static void tile(const float* rows, size_t rowStride, const float* panels, size_t depth, float* outputs,
                 size_t outputStride) {
  f32x16 sum[R][P];
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) {
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) sum[r][p] = zero();
  }
  for (size_t d = 0; d < depth; d++) {
    f32x16 elements[P];
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) elements[p] = load(panels + (static_cast<size_t>(p) * depth + d) * 16);
    SPILLWAY_UNROLL(4)
    for (int r = 0; r < R; r++) {
      const f32x16 element = set1(rows[static_cast<size_t>(r) * rowStride + d]);
      SPILLWAY_UNROLL(4)
      for (int p = 0; p < P; p++) sum[r][p] = fma(element, elements[p], sum[r][p]);
    }
  }
  SPILLWAY_UNROLL(4)
  for (int r = 0; r < R; r++) {
    SPILLWAY_UNROLL(4)
    for (int p = 0; p < P; p++) store(outputs + static_cast<size_t>(r) * outputStride + p * 16, sum[r][p]);
  }
}

template <int R>
static void someRows(const float* rows, size_t rowStride, const float* panels, size_t panelCount, size_t depth,
                     float* outputs, size_t outputStride) {
  size_t p = 0;
  for (; p + kPanels <= panelCount; p += kPanels)
    tile<R, kPanels>(rows, rowStride, panels + p * depth * 16, depth, outputs + p * 16, outputStride);
  for (; p < panelCount; p++)
    tile<R, 1>(rows, rowStride, panels + p * depth * 16, depth, outputs + p * 16, outputStride);
}

}  // namespace

void dotPanels(const float* rows, size_t count, size_t rowStride, const float* panels, size_t panelCount, size_t depth,
               float* outputs, size_t outputStride) {
  size_t r = 0;
  for (; r + 4 <= count; r += 4)
    someRows<4>(rows + r * rowStride, rowStride, panels, panelCount, depth, outputs + r * outputStride, outputStride);
  for (; r < count; r++)
    someRows<1>(rows + r * rowStride, rowStride, panels, panelCount, depth, outputs + r * outputStride, outputStride);
}

}  // namespace spillway::SPILLWAY_ISA
