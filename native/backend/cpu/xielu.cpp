#include "CpuPass.h"

namespace spillway {

// xIELU (Huang and Schlag 2024): a square and a line above zero, an integrated exponential and the line below.
void CpuPass::activateXielu(const XieluSpec& numbers, float* x, size_t width) const {
  const ScratchScope scope(*this);
  float* powers = scratch.take<float>(size_t(compute.pool.threads()) * width);
  forRows(tokens(), 4 * width, [&](size_t t, unsigned worker) {
    float* row = x + t * width;
    float* power = powers + size_t(worker) * width;
    for (size_t i = 0; i < width; i++) power[i] = row[i] < numbers.epsilon ? row[i] : numbers.epsilon;
    compute.kernels.rows.expShifted(power, 0, width, power);
    for (size_t i = 0; i < width; i++) {
      const float v = row[i];
      const float curve = v > 0 ? numbers.positive * v * v : (power[i] - 1 - v) * numbers.negative;
      row[i] = curve + numbers.beta * v;
    }
  });
}

}  // namespace spillway
