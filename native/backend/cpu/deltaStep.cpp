#include "deltaStep.h"

#include "lanes.h"

namespace spillway {

namespace {

struct Step {
  const float *query, *key, *value;
  float decay, beta;
  size_t keyDim, valueDim;
  const float* decays;
};

// Some columns of the state, whose sums stay in registers.
template <size_t Count, bool ByKey>
__attribute__((always_inline)) inline void stepColumns(const Step& step, float* state, size_t column, float* output) {
  Lanes sums[Count] = {};
  float* row = state + column;
  for (size_t k = 0; k < step.keyDim; k++, row += step.valueDim) {
    for (size_t i = 0; i < Count; i++) {
      Lanes held;
      loadLanes(row + i * kLanes, held);
      held *= ByKey ? step.decays[k] : step.decay;
      storeLanes(held, row + i * kLanes);
      sums[i] += held * step.key[k];
    }
  }
  Lanes changes[Count];
  for (size_t i = 0; i < Count; i++) {
    loadLanes(step.value + column + i * kLanes, changes[i]);
    changes[i] = (changes[i] - sums[i]) * step.beta;
    sums[i] = Lanes{};
  }
  row = state + column;
  for (size_t k = 0; k < step.keyDim; k++, row += step.valueDim) {
    for (size_t i = 0; i < Count; i++) {
      Lanes held;
      loadLanes(row + i * kLanes, held);
      held += step.key[k] * changes[i];
      storeLanes(held, row + i * kLanes);
      sums[i] += held * step.query[k];
    }
  }
  for (size_t i = 0; i < Count; i++) storeLanes(sums[i], output + column + i * kLanes);
}

__attribute__((always_inline)) inline void stepColumn(const Step& step, float* state, size_t column, float* output) {
  float sum = 0;
  for (size_t k = 0; k < step.keyDim; k++) {
    float& held = state[k * step.valueDim + column];
    held *= step.decays == nullptr ? step.decay : step.decays[k];
    sum += held * step.key[k];
  }
  const float change = (step.value[column] - sum) * step.beta;
  sum = 0;
  for (size_t k = 0; k < step.keyDim; k++) {
    float& held = state[k * step.valueDim + column];
    held += step.key[k] * change;
    sum += held * step.query[k];
  }
  output[column] = sum;
}

template <bool ByKey>
__attribute__((always_inline)) inline void stepHead(const Step& step, float* state, float* output) {
  size_t column = 0;
  for (; column + 4 * kLanes <= step.valueDim; column += 4 * kLanes) stepColumns<4, ByKey>(step, state, column, output);
  for (; column + kLanes <= step.valueDim; column += kLanes) stepColumns<1, ByKey>(step, state, column, output);
  for (; column < step.valueDim; column++) stepColumn(step, state, column, output);
}

}  // namespace

SPILLWAY_WIDEST void deltaStep(float* state, const float* query, const float* key, const float* value, float decay,
                               float beta, size_t keyDim, size_t valueDim, float* output, const float* decays) {
  const Step step{query, key, value, decay, beta, keyDim, valueDim, decays};
  return decays == nullptr ? stepHead<false>(step, state, output) : stepHead<true>(step, state, output);
}

}  // namespace spillway
