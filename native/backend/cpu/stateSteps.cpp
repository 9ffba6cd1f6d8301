#include "stateSteps.h"

#include "lanes.h"

namespace spillway {

namespace {

// Some columns of a token's step, whose sums stay in registers. Last: of the range's, where the next block is asked
// for.
template <size_t Count, bool Last>
__attribute__((always_inline)) inline void stepColumns(float* state, size_t stride, size_t stateDim,
                                                       const StateTokens& tokens, size_t token, size_t column) {
  const float *written = tokens.written + token * tokens.stride, *read = tokens.read + token * tokens.stride,
              *input = tokens.inputs + token * tokens.stride + column;
  const float step = tokens.steps[token * tokens.factorStride], decay = tokens.decays[token * tokens.factorStride];
  const size_t block = stateDim * stride;
  Lanes sums[Count] = {}, inputs[Count], held;
  for (size_t i = 0; i < Count; i++) {
    loadLanes(input + i * kLanes, inputs[i]);
    inputs[i] *= step;
  }
  float* row = state + column;
  for (size_t n = 0; n < stateDim; n++, row += stride) {
    for (size_t i = 0; i < Count; i++) {
      if (Last) askFor(row + block + i * kLanes);
      loadLanes(row + i * kLanes, held);
      held = held * decay + inputs[i] * written[n];
      storeLanes(held, row + i * kLanes);
      sums[i] += held * read[n];
    }
  }
  float* output = tokens.outputs + token * tokens.outputStride + column;
  for (size_t i = 0; i < Count; i++) storeLanes(sums[i], output + i * kLanes);
}

template <size_t Count>
__attribute__((always_inline)) inline void stepColumns(float* state, size_t stride, size_t stateDim,
                                                       const StateTokens& tokens, size_t column) {
  for (size_t t = 0; t + 1 < tokens.count; t++) stepColumns<Count, false>(state, stride, stateDim, tokens, t, column);
  stepColumns<Count, true>(state, stride, stateDim, tokens, tokens.count - 1, column);
}

__attribute__((always_inline)) inline void stepColumn(float* state, size_t stride, size_t stateDim,
                                                      const StateTokens& tokens, size_t column) {
  for (size_t t = 0; t < tokens.count; t++) {
    const float *written = tokens.written + t * tokens.stride, *read = tokens.read + t * tokens.stride;
    const float input = tokens.inputs[t * tokens.stride + column] * tokens.steps[t * tokens.factorStride],
                decay = tokens.decays[t * tokens.factorStride];
    float sum = 0;
    for (size_t n = 0; n < stateDim; n++) {
      float& held = state[n * stride + column];
      held = held * decay + input * written[n];
      sum += held * read[n];
    }
    tokens.outputs[t * tokens.outputStride + column] = sum;
  }
}

SPILLWAY_LOOPS stateStepsLoops(float* state, size_t stateDim, size_t columns, const StateTokens& tokens) {
  if (tokens.count == 0) return;
  size_t column = 0;
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes) stepColumns<2>(state, columns, stateDim, tokens, column);
  for (; column + kLanes <= columns; column += kLanes) stepColumns<1>(state, columns, stateDim, tokens, column);
  for (; column < columns; column++) stepColumn(state, columns, stateDim, tokens, column);
}

}  // namespace

SPILLWAY_WIDEST(stateSteps, (float* state, size_t stateDim, size_t columns, const StateTokens& tokens),
                (state, stateDim, columns, tokens))

}  // namespace spillway
