#include <algorithm>

#include "CpuPass.h"
#include "decay.h"
#include "scanStep.h"

namespace spillway {

namespace {

constexpr size_t kChannels = 64;  // at once

}  // namespace

// Mamba (Gu and Dao 2023): channels through a convolution, of which a product makes time steps and what states are
// written and read by; each channel's state by its steps, the input once more beside what the state holds, and a gate.
// Token by token in order, so that chunks change no bit.
void CpuPass::applySelectiveScan(size_t layer) const {
  const RecurrentSpec& scan = spec.recurrent;
  const LayerWeights& layerWeights = weights.layer(layer);
  const size_t width = scan.scanChannels, stateDim = scan.scanState, rank = scan.scanRank, stride = spec.mixedWidth(),
               parts = rank + 2 * stateDim, count = tokens();
  const ScratchScope scope(*this);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  float* made = scratch.take<float>(count * parts);
  float* steps = scratch.take<float>(count * width);
  float* rates = scratch.take<float>(stateDim * width);
  float* inputs = scratch.take<float>(count * width);
  if (!measuring) {
    rememberedBy(layer, remembered);
    convolveMixed(layer, width, remembered);
  }
  forRows(count, width, [&](size_t t, unsigned) { std::copy_n(activations.mixed + t * stride, width, inputs + t * width); });
  Pass::multiply(layerWeights.scanIn, nullptr, inputs, count, made, ProductOf::Tokens);
  const RowKernels& rows = compute.kernels.rows;
  {
    const ScratchScope inner(*this);
    float* ranks = scratch.take<float>(count * rank);
    float* ones = scratch.take<float>(std::max(rank, stateDim));
    if (!measuring) std::fill_n(ones, std::max(rank, stateDim), 1.0f);
    forRows(count, parts, [&](size_t t, unsigned) {
      float* row = made + t * parts;
      if (scan.scanNorms != ScanNorms::None) {
        const auto norm = [&](const float* weight, size_t elements, float* x) {
          rows.rmsNorm(x, weight == nullptr ? ones : weight, scan.scanEpsilon, elements, x);
        };
        norm(layerWeights.stepNorm, rank, row);
        norm(layerWeights.writtenNorm, stateDim, row + rank);
        norm(layerWeights.readNorm, stateDim, row + rank + stateDim);
      }
      std::copy_n(row, rank, ranks + t * rank);
    });
    Pass::multiply(layerWeights.scanStep, layerWeights.decayBias, ranks, count, steps, ProductOf::Tokens);
  }
  // As the file has them, an element of a channel after the other.
  forRows(width, stateDim * 8, [&](size_t c, unsigned) {
    for (size_t n = 0; n < stateDim; n++)
      rates[n * width + c] = -decayRate(scan, layerWeights.decay[c * stateDim + n]);
  });
  const size_t blocks = (width + kChannels - 1) / kChannels;
  forRows(batch.ranges.size() * blocks, kChannels * stateDim * tokensOfRange(), [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / blocks];
    const size_t first = index % blocks * kChannels, channels = std::min(kChannels, width - first);
    float* state = remembered[index / blocks] + (scan.taps - 1) * width + first;
    for (size_t t = range.firstToken; t < size_t(range.firstToken) + range.tokens; t++) {
      const float* written = made + t * parts + rank;
      const float* input = inputs + t * width + first;
      float* step = steps + t * width + first;
      float* gate = activations.mixed + t * stride + width + first;
      float* output = activations.queries + t * width + first;
      for (size_t c = 0; c < channels; c++) step[c] = softplus(step[c]);
      scanStep(state, rates + first, width, step, input, written, written + stateDim, stateDim, channels, output);
      for (size_t c = 0; c < channels; c++) output[c] += input[c] * layerWeights.skip[first + c];
      rows.activate(Activation::Silu, gate, output, channels);
      std::copy_n(gate, channels, output);
    }
  });
}

}  // namespace spillway
