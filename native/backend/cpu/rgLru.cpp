#include <algorithm>
#include <cmath>

#include "CpuPass.h"
#include "decay.h"
#include "lanes.h"

namespace spillway {

namespace {

// Of some tokens and some outputs of a block, whose sums stay in registers.
template <size_t Tokens, size_t Count>
__attribute__((always_inline)) inline void multiplySome(const float* x, size_t stride, const float* weights,
                                                        const float* bias, size_t width, float* y) {
  Lanes sums[Tokens][Count], held;
  for (size_t t = 0; t < Tokens; t++)
    for (size_t i = 0; i < Count; i++) loadLanes(bias + i * kLanes, sums[t][i]);
  for (size_t k = 0; k < width; k++, weights += width) {
    for (size_t i = 0; i < Count; i++) {
      loadLanes(weights + i * kLanes, held);
      for (size_t t = 0; t < Tokens; t++) sums[t][i] += held * x[t * stride + k];
    }
  }
  for (size_t t = 0; t < Tokens; t++)
    for (size_t i = 0; i < Count; i++) storeLanes(sums[t][i], y + t * stride + i * kLanes);
}

template <size_t Tokens>
__attribute__((always_inline)) inline void multiplyTokens(const float* x, size_t stride, const float* weights,
                                                          const float* bias, size_t width, float* y) {
  size_t first = 0;
  for (; first + 2 * kLanes <= width; first += 2 * kLanes)
    multiplySome<Tokens, 2>(x, stride, weights + first, bias + first, width, y + first);
  for (; first + kLanes <= width; first += kLanes)
    multiplySome<Tokens, 1>(x, stride, weights + first, bias + first, width, y + first);
  for (; first < width; first++) {
    for (size_t t = 0; t < Tokens; t++) {
      float sum = bias[first];
      for (size_t k = 0; k < width; k++) sum += weights[k * width + first] * x[t * stride + k];
      y[t * stride + first] = sum;
    }
  }
}

// y = x · weights + bias of tokens' channels of a block; weights: [inputs, outputs], `width` each. Sums run over the
// inputs in order, one product rounded after the other.
SPILLWAY_LOOPS multiplyBlockLoops(const float* x, size_t tokens, size_t stride, const float* weights, const float* bias,
                                  size_t width, float* y) {
  size_t t = 0;
  for (; t + 4 <= tokens; t += 4) multiplyTokens<4>(x + t * stride, stride, weights, bias, width, y + t * stride);
  for (; t < tokens; t++) multiplyTokens<1>(x + t * stride, stride, weights, bias, width, y + t * stride);
}
SPILLWAY_WIDEST(multiplyBlock,
                (const float* x, size_t tokens, size_t stride, const float* weights, const float* bias, size_t width,
                 float* y),
                (x, tokens, stride, weights, bias, width, y))

}  // namespace

// The real-gated linear recurrent unit (De et al. 2024, as RecurrentGemma has it): channels through a convolution, of
// which two gates are made; a number of each channel, of which a share is left, and to which the channel is added by a
// gate and by the root of what that share, squared, leaves of 1; and a gate that is a product of its own. Token by
// token in order, so that chunks change no bit.
void CpuPass::applyRgLru(size_t layer) const {
  const LruSpec& lru = spec.recurrent.lru;
  const size_t width = lru.width(), blocks = lru.blocks, each = lru.blockDim, stride = spec.mixedWidth();
  const ScratchScope scope(*this);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  float* rates = scratch.take<float>(width);
  const LayerWeights& own = weights.layer(layer);
  if (!measuring) {
    rememberedBy(layer, remembered);
    for (size_t c = 0; c < width; c++) rates[c] = -8.0f * softplus(own.decay[c]);
  }
  convolveMixed(layer, width, remembered, false);
  const RowKernels& rows = compute.kernels.rows;
  forRows(batch.ranges.size() * blocks, 2 * each * each * tokensOfRange(), [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / blocks];
    const size_t first = index % blocks * each;
    float* row = activations.mixed + range.firstToken * stride + first;
    float *gate = row + width, *input = gate + width, *forget = input + width;
    multiplyBlock(row, range.tokens, stride, own.lruInput + first * each, own.lruInputBias + first, each, input);
    multiplyBlock(row, range.tokens, stride, own.lruForget + first * each, own.lruForgetBias + first, each, forget);
    float* state = remembered[index / blocks] + (spec.recurrent.taps - 1) * width + first;
    float* output = activations.queries + range.firstToken * width + first;
    for (size_t t = 0; t < range.tokens; t++) {
      const bool begins = range.firstPosition + t == 0;
      for (size_t c = 0; c < each; c++) {
        const float left = rates[first + c] * logistic(forget[t * stride + c]);  // as a logarithm
        const float share = begins ? 1.0f : std::sqrt(1.0f - std::exp(2.0f * left));
        state[c] = std::exp(left) * state[c] + row[t * stride + c] * logistic(input[t * stride + c]) * share;
      }
      rows.activate(spec.activation, gate + t * stride, state, each);
      std::copy_n(gate + t * stride, each, output + t * width);
    }
  });
}

}  // namespace spillway
