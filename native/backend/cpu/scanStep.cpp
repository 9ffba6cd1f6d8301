#include "scanStep.h"

#include <cstdint>

#include "lanes.h"

namespace spillway {

namespace {

// e^x within a few units in the last place; below 2^-126 zero, infinite from 88 on. NaN stays NaN.
__attribute__((always_inline)) inline float expOf(float x) {
  const float scaled = x * 0x1.715476p0f;  // of 2 instead of e
  constexpr float kRound = 0x1.8p23f;      // adding it rounds to an integer
  const float whole = (scaled + kRound) - kRound;
  const float rest = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
  float sum = 0x1.6850e4p-10f;
  sum = sum * rest + 0x1.123bccp-7f;
  sum = sum * rest + 0x1.555b98p-5f;
  sum = sum * rest + 0x1.55548ep-3f;
  sum = sum * rest + 0x1.fffff8p-2f;
  sum = sum * rest + 1.0f;
  sum = sum * rest + 1.0f;
  if (!(x > -87.0f)) return x != x ? x : 0.0f;
  if (!(x < 88.0f)) return __builtin_inff();
  const uint32_t bits = uint32_t(int32_t(whole) + 127) << 23;
  float power;
  __builtin_memcpy(&power, &bits, sizeof power);
  return sum * power;
}

SPILLWAY_LOOPS scanStepLoops(float* state, const float* rates, size_t stride, const float* steps, const float* inputs,
                             const float* written, const float* read, size_t stateDim, size_t channels,
                             float* outputs) {
  for (size_t c = 0; c < channels; c++) outputs[c] = 0;
  for (size_t n = 0; n < stateDim; n++) {
    float* held = state + n * stride;
    const float* rate = rates + n * stride;
    const float by = written[n], to = read[n];
    for (size_t c = 0; c < channels; c++) {
      held[c] = held[c] * expOf(rate[c] * steps[c]) + inputs[c] * steps[c] * by;
      outputs[c] += held[c] * to;
    }
  }
}

}  // namespace

SPILLWAY_WIDEST(scanStep,
                (float* state, const float* rates, size_t stride, const float* steps, const float* inputs,
                 const float* written, const float* read, size_t stateDim, size_t channels, float* outputs),
                (state, rates, stride, steps, inputs, written, read, stateDim, channels, outputs))

}  // namespace spillway
