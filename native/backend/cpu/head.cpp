#include <algorithm>
#include <cmath>
#include <limits>

#include "../../model/headRows.h"
#include "../../model/pooling.h"
#include "CpuPass.h"

namespace spillway {

namespace {

// Greedy sequences need the largest logit only: their logits exist for so many outputs at a time that they stay in the
// processor's caches.
constexpr size_t kSliceBytes = size_t(1) << 20;
constexpr size_t kSliceOutputs = 1024;  // a slice is a multiple of it

// All that is wanted is the first token of the largest logit.
bool takesLargest(const Sequence& sequence) {
  return !(sequence.sampling.temperature > 0) && sequence.takesLogitsAsTheyAre() && sequence.logprobs < 0 &&
         !sequence.certainty && sequence.grammar == nullptr;
}

// The hidden state of one of the batch's tokens after the final norm.
void finalNorm(const CpuPass& pass, uint32_t token, float* normed) {
  const size_t width = pass.spec.hiddenSize;
  const float* hidden = pass.activations.hidden + size_t(token) * width;
  const GlobalWeights& weights = pass.weights.global();
  if (pass.spec.finalNorm)
    pass.normRow(hidden, weights.finalNorm, weights.finalNormBias, normed);
  else
    std::copy_n(hidden, width, normed);
}

void capLogits(const CpuPass& pass, float* logits, size_t n) {
  if (pass.spec.logitScale != 1) pass.compute.kernels.rows.scale(pass.spec.logitScale, logits, n);
  if (pass.spec.logitSoftCap != 0) pass.compute.kernels.rows.softCap(pass.spec.logitSoftCap, logits, n);
}

// The largest logits of some sequences, slice by slice of the vocabulary; of equal ones the first, as
// RowKernels::argMax has it.
void takeLargest(const CpuPass& pass, const WantedLogits* wanted, size_t rows, const float* input, size_t width,
                 float* logits, float* largest, HeadResult& result) {
  const StoredMatrix& weights = pass.weights.head();
  const float* bias = pass.weights.global().headBias;
  const size_t slice = std::max<size_t>(1, kSliceBytes / (rows * sizeof(float) * kSliceOutputs)) * kSliceOutputs;
  const size_t mark = pass.scratch.used();
  const MatrixInput prepared =
      prepareInput(pass.compute, input, rows, width, width, quantisedInput(pass.compute, weights.type), pass.scratch);
  std::fill_n(largest, rows, -std::numeric_limits<float>::infinity());
  for (size_t r = 0; r < rows; r++) result.tokens[wanted[r].result] = 0;
  for (size_t first = 0; first < weights.outputs; first += slice) {
    const uint32_t outputs = static_cast<uint32_t>(std::min(slice, weights.outputs - first));
    const WeightMatrix part{weights.type, outputs, weights.inputs,
                            weights.panels + first / kPanelOutputs * panelBytes(weights.type, weights.inputs)};
    const MatmulJob job{&part, bias == nullptr ? nullptr : bias + first, logits, outputs};
    matmul(pass.compute, &job, 1, prepared, pass.scratch);
    pass.forRows(rows, outputs, [&](size_t r, unsigned) {
      capLogits(pass, logits + r * outputs, outputs);
      float value;
      size_t index;
      pass.compute.kernels.rows.argMax(logits + r * outputs, outputs, &value, &index);
      if (value <= largest[r] || std::isnan(largest[r])) return;  // a NaN counts as above all: it has to show
      largest[r] = value;
      result.tokens[wanted[r].result] = static_cast<int32_t>(first + index);
    });
  }
  for (size_t r = 0; r < rows; r++)
    if (!std::isfinite(largest[r])) result.tokens[wanted[r].result] = kNotFinite;
  pass.scratch.release(mark);
}

void activatePooled(const CpuPass& pass, PooledActivation activation, float* rows, size_t count) {
  const RowKernels& kernels = pass.compute.kernels.rows;
  switch (activation) {
    case PooledActivation::None: return;
    case PooledActivation::Tanh:
      for (size_t i = 0; i < count; i++) rows[i] = std::tanh(rows[i]);
      return;
    case PooledActivation::Relu: return kernels.activate(Activation::Relu, rows, nullptr, count);
    case PooledActivation::Gelu: return kernels.activate(Activation::Gelu, rows, nullptr, count);
    case PooledActivation::GeluTanh: return kernels.activate(Activation::GeluTanh, rows, nullptr, count);
    case PooledActivation::Silu: return kernels.activate(Activation::Silu, rows, nullptr, count);
  }
}

// The model's layers over pooled hidden states, of so many rows, in scratch. They are few rows a pass: float32 costs
// nothing there. @returns [rows, pooledWidth]
const float* throughPooledLayers(const CpuPass& pass, const float* input, size_t rows) {
  size_t width = pass.spec.hiddenSize;
  for (size_t l = 0; l < pass.spec.pooledLayers.size(); l++) {
    const PooledLayer& layer = pass.spec.pooledLayers[l];
    const PooledWeights& weights = pass.weights.global().pooled[l];
    float* output = pass.scratch.take<float>(rows * layer.outputs);
    if (layer.norm) {
      pass.forRows(rows, width, [&](size_t r, unsigned) {
        pass.compute.kernels.rows.layerNorm(input + r * width, weights.norm, weights.bias, layer.epsilon, width,
                                            output + r * width);
      });
    } else {
      const ProductJob job{&weights.weight, weights.bias, output, layer.outputs};
      pass.multiply(&job, 1, input, rows, width, ProductOf::Exact);
      if (!pass.measuring) activatePooled(pass, layer.activation, output, rows * layer.outputs);
    }
    input = output;
    width = layer.outputs;
  }
  return input;
}

// What a row's last pooled token leaves of it goes through the model's layers over such states, into `result`.
void takePooled(const CpuPass& pass, HeadResult& result) {
  const size_t width = pass.spec.hiddenSize;
  if (!pass.measuring) takeEmbeddings(pass.batch, width, result);
  const size_t rows = pass.measuring ? pass.batch.ranges.size() : result.embedded.size();
  if (pass.spec.pooledLayers.empty() || rows == 0) return;
  const ScratchScope scope(pass);
  const float* made = throughPooledLayers(pass, result.embeddings.data(), rows);
  if (!pass.measuring) result.embeddings.assign(made, made + rows * pass.spec.pooledWidth());
}

void poolHidden(const CpuPass& pass, HeadResult& result) {
  const std::vector<uint32_t> tokens = pass.measuring ? std::vector<uint32_t>(pass.tokens()) : listPooled(pass.batch);
  if (tokens.empty() && result.embedded.empty()) return;
  const size_t width = pass.spec.hiddenSize, most = std::min(headRowsAtATime(pass.spec), tokens.size());
  const size_t mark = pass.scratch.used();
  float* normed = pass.scratch.take<float>(most * width);
  for (size_t first = 0, rows; first < tokens.size() && !pass.measuring; first += rows) {
    rows = std::min(most, tokens.size() - first);
    pass.forRows(rows, width, [&](size_t i, unsigned) { finalNorm(pass, tokens[first + i], normed + i * width); });
    pool(pass.batch, &tokens[first], rows, normed, width);
  }
  pass.scratch.release(mark);
  takePooled(pass, result);
}

}  // namespace

std::unique_ptr<HeadResult> CpuPass::head() const {
  const CpuPass& pass = *this;
  const GlobalWeights& weights = this->weights.global();
  const size_t width = spec.hiddenSize;
  const size_t vocabulary = spec.vocabularySize;
  auto result = std::make_unique<HeadResult>();
  std::vector<WantedLogits> wanted;
  if (!measuring) wanted = listWanted(batch, *result, takesLargest);
  if (measuring && spec.causal) wanted.resize(tokens());
  poolHidden(pass, *result);
  if (wanted.empty()) return result;

  const size_t mark = scratch.used();
  const size_t most = std::min(headRowsAtATime(spec), wanted.size());
  const size_t workspaceBytes = Scratch::aligned(vocabulary * 8);
  float* last = scratch.take<float>(most * width);
  float* projected = present(weights.outputProjection) ? scratch.take<float>(most * spec.embeddingSize) : nullptr;
  float* logits = scratch.take<float>(most * vocabulary);
  uint8_t* workspaces = scratch.take<uint8_t>(workspaceBytes * compute.pool.threads());
  float* largest = scratch.take<float>(most);
  const bool sliced = !streams(this->weights.head());
  const auto greedyEnd = std::find_if(wanted.begin(), wanted.end(),
                                      [sliced](const WantedLogits& entry) { return !(sliced && entry.first); });
  const size_t greedyRows = static_cast<size_t>(greedyEnd - wanted.begin());

  for (size_t first = 0, rows; first < wanted.size(); first += rows) {
    const bool greedy = first < greedyRows;
    rows = std::min(most, (greedy ? greedyRows : wanted.size()) - first);
    forRows(rows, width, [&](size_t i, unsigned) { finalNorm(pass, wanted[first + i].token, last + i * width); });
    const bool project = present(weights.outputProjection);
    if (project) multiply(weights.outputProjection, nullptr, last, rows, projected, ProductOf::Others);
    const float* input = project ? projected : last;
    if (greedy) {
      takeLargest(pass, &wanted[first], rows, input, project ? spec.embeddingSize : width, logits, largest, *result);
      continue;
    }
    multiply(this->weights.head(), weights.headBias, input, rows, logits, ProductOf::Others);
    forRows(rows, vocabulary, [&](size_t i, unsigned worker) {
      capLogits(pass, logits + i * vocabulary, vocabulary);
      useLogits(compute.kernels, batch, wanted[first + i], logits + i * vocabulary, vocabulary,
                workspaces + worker * workspaceBytes, *result);
    });
    if (measuring) break;
  }
  scratch.release(mark);

  if (!measuring) appendSampled(batch, wanted, *result);
  return result;
}

}  // namespace spillway
