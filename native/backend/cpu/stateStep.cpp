#include "stateStep.h"

#include "lanes.h"

namespace spillway {

namespace {

struct Step {
  const float *input, *written, *read;
  float decay;
  size_t stateDim, headDim;
};

// Some columns of the state, whose sums stay in registers.
template <size_t Count>
__attribute__((always_inline)) inline void stepColumns(const Step& step, float* state, size_t column, float* output) {
  Lanes sums[Count] = {}, inputs[Count];
  for (size_t i = 0; i < Count; i++) loadLanes(step.input + column + i * kLanes, inputs[i]);
  float* row = state + column;
  for (size_t n = 0; n < step.stateDim; n++, row += step.headDim) {
    for (size_t i = 0; i < Count; i++) {
      Lanes held;
      loadLanes(row + i * kLanes, held);
      held = held * step.decay + inputs[i] * step.written[n];
      storeLanes(held, row + i * kLanes);
      sums[i] += held * step.read[n];
    }
  }
  for (size_t i = 0; i < Count; i++) storeLanes(sums[i], output + column + i * kLanes);
}

__attribute__((always_inline)) inline void stepColumn(const Step& step, float* state, size_t column, float* output) {
  float sum = 0;
  for (size_t n = 0; n < step.stateDim; n++) {
    float& held = state[n * step.headDim + column];
    held = held * step.decay + step.input[column] * step.written[n];
    sum += held * step.read[n];
  }
  output[column] = sum;
}

}  // namespace

SPILLWAY_WIDEST void stateStep(float* state, const float* input, const float* written, const float* read, float decay,
                               size_t stateDim, size_t headDim, float* output) {
  const Step step{input, written, read, decay, stateDim, headDim};
  size_t column = 0;
  for (; column + 4 * kLanes <= headDim; column += 4 * kLanes) stepColumns<4>(step, state, column, output);
  for (; column + kLanes <= headDim; column += kLanes) stepColumns<1>(step, state, column, output);
  for (; column < headDim; column++) stepColumn(step, state, column, output);
}

}  // namespace spillway
