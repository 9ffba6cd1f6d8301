// One token's step of a selective scan.
#pragma once
#include <cstddef>

namespace spillway {

// Of some channels (Mamba, Gu and Dao 2023). state, [stateDim, stride], from the first of these channels on: of each
// channel's element n exp(rates x step) is left, and input x step x written is added; output is what it holds by
// `read`. Sums run over stateDim in order, one product rounded after the other, so that it is the same on every
// processor. rates, negative: [stateDim, stride]; written, read: [stateDim]; steps, inputs, outputs: [channels].
void scanStep(float* state, const float* rates, size_t stride, const float* steps, const float* inputs,
              const float* written, const float* read, size_t stateDim, size_t channels, float* outputs);

}  // namespace spillway
