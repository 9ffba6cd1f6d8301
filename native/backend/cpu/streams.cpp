#include <algorithm>
#include <cmath>

#include "CpuPass.h"

namespace spillway {

namespace {

constexpr size_t kMost = StreamsSpec::kMost;

float meanSquare(const float* x, size_t n) {
  float sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
  return sum / static_cast<float>(n);
}

// A row as large as another one, by their squares' means.
float magnitudeFactor(float wanted, const float* row, size_t width) {
  return std::sqrt(wanted) / std::sqrt(std::max(meanSquare(row, width), 1e-5f));
}

}  // namespace

// AltUp (Baykal et al. 2023), as Gemma 3n has it. Stream s of the hidden states begins after those before it, of all
// of the batch's tokens.
void CpuPass::beginStreams() const {
  const GlobalWeights& global = weights.global();
  const StoredMatrix* const matrices[] = {&global.streamIn1, &global.streamIn2, &global.streamIn3};
  const size_t width = spec.hiddenSize, elements = batch.tokens.size() * width;
  float* first = activations.hidden;
  for (size_t s = 1; s < spec.streams.count; s++) {
    float* stream = first + s * elements;
    Pass::multiply(*matrices[s - 1], nullptr, first, tokens(), stream, ProductOf::Tokens);
    forRows(tokens(), width, [&](size_t t, unsigned) {
      const float factor = magnitudeFactor(meanSquare(first + t * width, width), stream + t * width, width);
      compute.kernels.rows.scale(factor, stream + t * width, width);
    });
  }
}

void CpuPass::joinStreams() const {
  const GlobalWeights& global = weights.global();
  const StoredMatrix* const matrices[] = {&global.streamOut1, &global.streamOut2, &global.streamOut3};
  const size_t width = spec.hiddenSize, elements = batch.tokens.size() * width, streams = spec.streams.count;
  const ScratchScope scope(*this);
  float* made = scratch.take<float>((streams - 1) * tokens() * width);
  for (size_t s = 1; s < streams; s++)
    Pass::multiply(*matrices[s - 1], nullptr, activations.hidden + s * elements, tokens(),
                   made + (s - 1) * tokens() * width, ProductOf::Tokens);
  const RowKernels& rows = compute.kernels.rows;
  forRows(tokens(), streams * width, [&](size_t t, unsigned) {
    float* first = activations.hidden + t * width;
    const float wanted = meanSquare(first, width);
    for (size_t s = 1; s < streams; s++) {
      const float* row = made + ((s - 1) * tokens() + t) * width;
      rows.addScaled(row, magnitudeFactor(wanted, row, width), first, width);
    }
    rows.scale(1.0f / static_cast<float>(streams), first, width);
  });
}

void CpuPass::routeStreams(const LayerWeights& layer, const float* row, float* normed, float* routed) const {
  const size_t width = spec.hiddenSize;
  const float scale = 1.0f / static_cast<float>(width);
  normRow(row, layer.streamNorm, nullptr, normed);
  for (size_t s = 0; s < spec.streams.count; s++) {
    const float* weights = layer.streamRouter + s * width;
    float sum = 0;
    for (size_t i = 0; i < width; i++) sum += normed[i] * scale * weights[i];
    routed[s] = std::tanh(sum);
  }
}

void CpuPass::predictStreams(size_t layer) const {
  const LayerWeights& layerWeights = weights.layer(layer);
  const size_t width = spec.hiddenSize, elements = batch.tokens.size() * width, streams = spec.streams.count;
  const ScratchScope scope(*this);
  float* room = scratch.take<float>(size_t(compute.pool.threads()) * width);
  forRows(tokens(), streams * streams * width, [&](size_t t, unsigned worker) {
    float* rows = activations.hidden + t * width;
    float routed[kMost], factors[kMost * kMost];
    routeStreams(layerWeights, rows, room + worker * width, routed);
    for (size_t k = 0; k < streams * streams; k++) {
      factors[k] = 0;
      for (size_t s = 0; s < streams; s++) factors[k] += layerWeights.streamPredict[k * streams + s] * routed[s];
    }
    for (size_t i = 0; i < width; i++) {
      float held[kMost];
      for (size_t s = 0; s < streams; s++) held[s] = rows[s * elements + i];
      for (size_t s = 0; s < streams; s++) {
        float sum = 0;
        for (size_t from = 0; from < streams; from++) sum += held[from] * factors[s * streams + from];
        rows[s * elements + i] = sum + held[s];
      }
    }
  });
}

void CpuPass::bypassAttention(size_t layer, float* bypass, float* predicted) const {
  const LayerWeights& layerWeights = weights.layer(layer);
  const size_t width = spec.hiddenSize, count = tokens();
  const ScratchScope scope(*this);
  float* inner = scratch.take<float>(count * spec.streams.bypassRank);
  float* made = scratch.take<float>(count * width);
  norm(activations.hidden, layerWeights.norm1, nullptr, bypass);
  Pass::multiply(layerWeights.bypassIn, nullptr, bypass, count, inner, ProductOf::Tokens);
  Pass::multiply(layerWeights.bypassOut, nullptr, inner, count, made, ProductOf::Tokens);
  norm(made, layerWeights.bypassNorm, nullptr, made);
  addRows(made, bypass);
  forRows(count, width,
          [&](size_t t, unsigned) { std::copy_n(activations.hidden + t * width, width, predicted + t * width); });
}

void CpuPass::addBypass(const float* bypass) const {
  const size_t width = spec.hiddenSize;
  addRows(bypass, activations.hidden);
  forRows(tokens(), width, [&](size_t t, unsigned) {
    compute.kernels.rows.scale(std::sqrt(0.5f), activations.hidden + t * width, width);
  });
}

void CpuPass::correctStreams(size_t layer, const float* predicted) const {
  const LayerWeights& layerWeights = weights.layer(layer);
  const size_t width = spec.hiddenSize, elements = batch.tokens.size() * width, streams = spec.streams.count,
               count = tokens();
  const ScratchScope scope(*this);
  float* room = scratch.take<float>(size_t(compute.pool.threads()) * width);
  float* read = scratch.take<float>(count * width);
  float* branch = scratch.take<float>(count * width);
  const RowKernels& rows = compute.kernels.rows;
  forRows(count, streams * width, [&](size_t t, unsigned worker) {
    float* first = activations.hidden + t * width;
    const float* before = predicted + t * width;
    float routed[kMost];
    routeStreams(layerWeights, first, room + worker * width, routed);
    float* change = room + worker * width;
    for (size_t i = 0; i < width; i++) change[i] = first[i] - before[i];
    std::copy_n(before, width, first);
    for (size_t s = 0; s < streams; s++) {
      float factor = 0;
      for (size_t from = 0; from < streams; from++)
        factor += layerWeights.streamCorrect[s * streams + from] * routed[from];
      rows.addScaled(change, factor + 1.0f, first + s * elements, width);
    }
    for (size_t i = 0; i < width; i++)
      read[t * width + i] = layerWeights.streamScale == nullptr ? first[i] : first[i] * layerWeights.streamScale[i];
  });
  makeLayerInput(layer, read, branch);
  norm(branch, layerWeights.inputPostNorm, nullptr, branch);
  forRows(count, streams * width, [&](size_t t, unsigned) {
    for (size_t s = 1; s < streams; s++)
      rows.add(branch + t * width, activations.hidden + s * elements + t * width, width);
  });
  if (layer + 1 == spec.layers && spec.samples()) joinStreams();
}

void CpuPass::cutOff(float deviations, float* x, size_t width) const {
  forRows(tokens(), 4 * width, [&](size_t t, unsigned) {
    float* row = x + t * width;
    float sum = 0, squares = 0;
    for (size_t i = 0; i < width; i++) sum += row[i];
    const float mean = sum / static_cast<float>(width);
    for (size_t i = 0; i < width; i++) squares += (row[i] - mean) * (row[i] - mean);
    const float least = mean + std::sqrt(squares / static_cast<float>(width)) * deviations;
    for (size_t i = 0; i < width; i++) row[i] = row[i] > least ? row[i] - least : row[i] <= least ? 0.0f : row[i];
  });
}

}  // namespace spillway
