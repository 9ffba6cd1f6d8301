#include <algorithm>

#include "CpuPass.h"
#include "decay.h"
#include "scanStep.h"

namespace spillway {

namespace {

constexpr size_t kChannels = 64;  // at once

// Where in a row of `mixed` is what a selective scan has of a token: channels, their gates, what states are written and
// read by after what steps are made of, and the steps.
struct ScanRow {
  explicit ScanRow(const ScanSpec& scan) : channels(scan.channels), rank(scan.rank), stateDim(scan.stateDim) {}
  size_t channels, rank, stateDim;
  size_t gates() const { return channels; }
  size_t parts() const { return 2 * channels; }
  size_t written() const { return parts() + rank; }
  size_t steps() const { return written() + 2 * stateDim; }
};

}  // namespace

// Mamba (Gu and Dao 2023): channels through a convolution, of which a product makes time steps and what states are
// written and read by; each channel's state by its steps, the input once more beside what the state holds, and a gate.
// Token by token in order, so that chunks change no bit.
void CpuPass::prepareScan(size_t layer) const {
  const ScanSpec& scan = spec.recurrent.scan;
  const LayerWeights& layerWeights = weights.layer(layer);
  const ScanRow at(scan);
  const size_t stride = spec.mixedWidth(), count = tokens(), most = std::max(at.rank, at.stateDim);
  const ScratchScope scope(*this);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  float* inputs = scratch.take<float>(count * at.channels);
  float* ranks = scratch.take<float>(count * at.rank);
  float* ones = scratch.take<float>(most);
  if (!measuring) {
    std::fill_n(ones, most, 1.0f);
    rememberedBy(layer, remembered);
  }
  convolveMixed(layer, at.channels, remembered);
  float* const mixed = activations.mixed;
  forRows(count, at.channels,
          [&](size_t t, unsigned) { std::copy_n(mixed + t * stride, at.channels, inputs + t * at.channels); });
  const ProductJob made{&layerWeights.scanIn, nullptr, mixed + at.parts(), stride};
  Pass::multiply(&made, 1, inputs, count, at.channels, ProductOf::Tokens);
  const RowKernels& rows = compute.kernels.rows;
  forRows(count, 2 * at.rank, [&](size_t t, unsigned) {
    float* row = mixed + t * stride + at.parts();
    if (scan.normed) {
      const auto norm = [&](const float* weight, size_t elements, float* x) {
        rows.rmsNorm(x, weight == nullptr ? ones : weight, scan.norms.epsilon, elements, x);
      };
      norm(layerWeights.stepNorm, at.rank, row);
      norm(layerWeights.writtenNorm, at.stateDim, row + at.rank);
      norm(layerWeights.readNorm, at.stateDim, row + at.rank + at.stateDim);
    }
    std::copy_n(row, at.rank, ranks + t * at.rank);
  });
  const ProductJob steps{&layerWeights.scanStep, layerWeights.decayBias, mixed + at.steps(), stride};
  Pass::multiply(&steps, 1, ranks, count, at.rank, ProductOf::Tokens);
}

void CpuPass::applySelectiveScan(size_t layer) const {
  const ScanSpec& scan = spec.recurrent.scan;
  const ScanRow at(scan);
  const size_t width = at.channels, stateDim = at.stateDim, stride = spec.mixedWidth();
  const ScratchScope scope(*this);
  float* rates = scratch.take<float>(stateDim * width);
  if (measuring) return;
  const LayerWeights& layerWeights = weights.layer(layer);
  const RowKernels& rows = compute.kernels.rows;
  // As the file has them, an element of a channel after the other.
  forRows(width, stateDim * 8, [&](size_t c, unsigned) {
    for (size_t n = 0; n < stateDim; n++)
      rates[n * width + c] = -decayRate(spec.recurrent, layerWeights.decay[c * stateDim + n]);
  });
  const size_t blocks = (width + kChannels - 1) / kChannels;
  forRows(batch.ranges.size() * blocks, kChannels * stateDim * tokensOfRange(), [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / blocks];
    const size_t first = index % blocks * kChannels, channels = std::min(kChannels, width - first);
    float* state =
        cache.state(layer, static_cast<uint32_t>(range.sequence->state)) + (spec.recurrent.taps - 1) * width + first;
    for (size_t t = range.firstToken; t < size_t(range.firstToken) + range.tokens; t++) {
      float* row = activations.mixed + t * stride;
      const float* input = row + first;
      const float* written = row + at.written();
      float* step = row + at.steps() + first;
      float* gate = row + at.gates() + first;
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
