#include "deltaSteps.h"

#include "lanes.h"

namespace spillway {

namespace {

// Some columns, whose sums stay in registers, through all tokens. What a token changes of an element and what the next
// one forgets of it, the element is loaded and stored for once.
template <size_t Count, bool ByKey>
__attribute__((always_inline)) inline void stepColumns(float* state, size_t stride, size_t keyDim,
                                                       const DeltaTokens& tokens, size_t column) {
  const float *query = tokens.queries, *key = tokens.keys, *decays = tokens.decays;
  const size_t next = tokens.stride, block = keyDim * stride;
  float* const first = state + column;
  float decay = decays[0];
  Lanes sums[Count] = {}, held;
  float* row = first;
  for (size_t k = 0; k < keyDim; k++, row += stride) {
    for (size_t i = 0; i < Count; i++) {
      loadLanes(row + i * kLanes, held);
      held *= ByKey ? decays[k] : decay;
      storeLanes(held, row + i * kLanes);
      sums[i] += held * key[k];
    }
  }
  for (size_t t = 0; t < tokens.count; t++) {
    const float* value = tokens.values + t * next + column;
    const float beta = tokens.betas[t * next];
    Lanes changes[Count], outputs[Count] = {};
    for (size_t i = 0; i < Count; i++) {
      loadLanes(value + i * kLanes, changes[i]);
      changes[i] = (changes[i] - sums[i]) * beta;
      sums[i] = Lanes{};
    }
    row = first;
    if (t + 1 < tokens.count) {
      const float* nextKey = key + next;
      decays += next;
      decay = decays[0];
      for (size_t k = 0; k < keyDim; k++, row += stride) {
        for (size_t i = 0; i < Count; i++) {
          loadLanes(row + i * kLanes, held);
          held += key[k] * changes[i];
          outputs[i] += held * query[k];
          held *= ByKey ? decays[k] : decay;
          storeLanes(held, row + i * kLanes);
          sums[i] += held * nextKey[k];
        }
      }
    } else {
      for (size_t k = 0; k < keyDim; k++, row += stride) {
        for (size_t i = 0; i < Count; i++) {
          askFor(row + block + i * kLanes);
          loadLanes(row + i * kLanes, held);
          held += key[k] * changes[i];
          storeLanes(held, row + i * kLanes);
          outputs[i] += held * query[k];
        }
      }
    }
    for (size_t i = 0; i < Count; i++)
      storeLanes(outputs[i], tokens.outputs + t * tokens.outputStride + column + i * kLanes);
    query += next;
    key += next;
  }
}

__attribute__((always_inline)) inline void stepColumn(float* state, size_t stride, size_t keyDim,
                                                      const DeltaTokens& tokens, size_t column) {
  for (size_t t = 0; t < tokens.count; t++) {
    const size_t at = t * tokens.stride;
    const float *query = tokens.queries + at, *key = tokens.keys + at, *decays = tokens.decays + at;
    float sum = 0;
    for (size_t k = 0; k < keyDim; k++) {
      float& held = state[k * stride + column];
      held *= decays[tokens.byKey ? k : 0];
      sum += held * key[k];
    }
    const float change = (tokens.values[at + column] - sum) * tokens.betas[at];
    sum = 0;
    for (size_t k = 0; k < keyDim; k++) {
      float& held = state[k * stride + column];
      held += key[k] * change;
      sum += held * query[k];
    }
    tokens.outputs[t * tokens.outputStride + column] = sum;
  }
}

template <bool ByKey>
__attribute__((always_inline)) inline void stepBlock(float* state, size_t keyDim, size_t columns,
                                                     const DeltaTokens& tokens) {
  size_t column = 0;
  for (; column + 2 * kLanes <= columns; column += 2 * kLanes)
    stepColumns<2, ByKey>(state, columns, keyDim, tokens, column);
  for (; column + kLanes <= columns; column += kLanes) stepColumns<1, ByKey>(state, columns, keyDim, tokens, column);
  for (; column < columns; column++) stepColumn(state, columns, keyDim, tokens, column);
}

SPILLWAY_LOOPS deltaStepsLoops(float* state, size_t keyDim, size_t columns, const DeltaTokens& tokens) {
  if (tokens.count == 0) return;
  return tokens.byKey ? stepBlock<true>(state, keyDim, columns, tokens)
                      : stepBlock<false>(state, keyDim, columns, tokens);
}

}  // namespace

SPILLWAY_WIDEST(deltaSteps, (float* state, size_t keyDim, size_t columns, const DeltaTokens& tokens),
                (state, keyDim, columns, tokens))

}  // namespace spillway
