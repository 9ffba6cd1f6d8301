// What one task of a pass computes: the five parts of src/bindings/Addon.ts (COMPUTE_PARTS).
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "../../kernels/cpu/Kernels.h"
#include "../../kernels/cpu/Matmul.h"
#include "../../system/Scratch.h"
#include "../../system/ThreadPool.h"
#include "../../model/Activations.h"
#include "../../model/Batch.h"
#include "../../model/DecoderSpec.h"
#include "../../model/ComputeTask.h"
#include "../../model/PagePool.h"
#include "../../model/StoredMatrix.h"
#include "../../model/Weights.h"

namespace spillway {

// All that a task works with. In a measuring pass no memory is touched: the parts only take from scratch what they
// would need.
struct Pass {
  const DecoderSpec& spec;
  const Weights& weights;
  const PagePool& cache;
  const Compute& compute;
  const Batch& batch;
  Activations& activations;
  Scratch& scratch;
  bool measuring = false;
  float keepKeys = 1;                 // below 1: sparse attention (AttentionShape::keep)
  const uint8_t* streamed = nullptr;  // the buffer that holds what streams of the layer at hand, if anything does
  uint8_t* staged = nullptr;          // the staging buffer of the square at hand, if it has pages to stage
  size_t stagedBytes = 0;             // of a place in it
  size_t leading = SIZE_MAX;          // how many of the batch's tokens the task is about: the first ones

  static constexpr size_t kMostProducts = 3;

  size_t tokens() const { return std::min(leading, batch.tokens.size()); }

  // body(row, worker) for every row, in parallel where that is worth it. `width`: elements that one row is about.
  template <typename Body>
  void forRows(size_t rows, size_t width, Body body) const {
    if (measuring) return;
    constexpr size_t kWorthwhile = 8192;  // elements; a few microseconds of work, about what it costs to share it
    const size_t chunk = std::max<size_t>(1, kWorthwhile / std::max<size_t>(1, width));
    compute.pool.parallelFor((rows + chunk - 1) / chunk, [&](size_t index, unsigned worker) {
      for (size_t row = index * chunk; row < std::min(rows, (index + 1) * chunk); row++) body(row, worker);
    });
  }

  // y = norm(x) of one row, hiddenSize elements. y may be x.
  void norm(const float* x, const float* weight, const float* bias, float* y) const {
    if (spec.norm == NormKind::Rms)
      compute.kernels.rows.rmsNorm(x, weight, spec.normEpsilon, spec.hiddenSize, y);
    else
      compute.kernels.rows.layerNorm(x, weight, bias, spec.normEpsilon, spec.hiddenSize, y);
  }

  // Whether products with these weights take rounded rows and nothing else: then whole rows need not stand in memory as
  // floats.
  bool takeRoundedRows(const StoredMatrix* const* weights, size_t count) const {
    return std::all_of(weights, weights + count,
                       [this](const StoredMatrix* each) { return usesRoundedInput(compute, each->type); });
  }
  // The same of parts of rows: groups of 8 bits are rounded as the whole row is.
  bool takeRoundedParts(const StoredMatrix* const* weights, size_t count) const {
    return compute.kernels.matmul.rounded == RoundedInput::Bfloat16 && takeRoundedRows(weights, count);
  }
  // The norm of hidden states, [tokens, hiddenSize], as input of products with these weights. Lives in scratch.
  template <size_t Count>
  MatrixInput normed(const StoredMatrix* const (&weights)[Count], const float* weight, const float* bias) const {
    const size_t width = spec.hiddenSize;
    const auto make = [this, weight, bias, width](size_t t, float* to) {
      norm(activations.hidden + t * width, weight, bias, to);
    };
    if (takeRoundedRows(weights, Count)) {
      const RowMaker maker{
          [](const void* context, size_t row, float* to) { (*static_cast<decltype(&make)>(context))(row, to); }, &make};
      return prepareRounded(compute, maker, tokens(), width, scratch);
    }
    float* rows = scratch.take<float>(tokens() * width);
    forRows(tokens(), width, [&](size_t t, unsigned) { make(t, rows + t * width); });
    return prepared(weights, Count, rows, tokens(), width, compute);
  }
  // Rows as input of products with these weights. What is rounded lives in scratch.
  MatrixInput prepared(const StoredMatrix* const* weights, size_t count, const float* input, size_t rows,
                       size_t columns, const Compute& on) const {
    const bool round = std::any_of(weights, weights + count,
                                   [&on](const StoredMatrix* each) { return usesRoundedInput(on, each->type); });
    return prepareInput(on, input, rows, columns, columns, round, scratch);
  }

  // output_i = input · weights_iᵀ + bias_i for up to three jobs; or added to output_i.
  void multiply(const ProductJob* products, size_t count, const MatrixInput& input, const Compute& on,
                Epilogue epilogue = Epilogue::Store) const {
    SplitProduct split[kMostProducts];
    MatmulJob jobs[2 * kMostProducts];
    size_t jobCount = 0;
    for (size_t p = 0; p < count; p++) {
      split[p].cut(products[p], streamed);
      for (size_t j = 0; j < split[p].count; j++) {
        jobs[jobCount] = split[p].jobs[j];
        jobs[jobCount++].epilogue = epilogue;
      }
    }
    matmul(on, jobs, jobCount, input, scratch);
  }
  void multiply(const ProductJob* products, size_t count, const float* input, size_t rows, size_t columns,
                const Compute& on) const {
    const StoredMatrix* weights[kMostProducts];
    for (size_t p = 0; p < count; p++) weights[p] = products[p].weights;
    const size_t mark = scratch.used();
    multiply(products, count, prepared(weights, count, input, rows, columns, on), on);
    scratch.release(mark);
  }
  void multiply(const ProductJob* products, size_t count, const float* input, size_t rows, size_t columns) const {
    multiply(products, count, input, rows, columns, compute);
  }
  // Without rounding of the input, whatever the precision: for small products on which much depends.
  void multiplyExactly(const StoredMatrix& weights, const float* input, size_t rows, float* output) const {
    const ProductJob product{&weights, nullptr, output, weights.outputs};
    multiply(&product, 1, input, rows, weights.inputs, Compute{compute.kernels, compute.pool, Precision::Float32});
  }
  void multiply(const StoredMatrix& weights, const float* bias, const float* input, size_t rows, float* output) const {
    const ProductJob product{&weights, bias, output, weights.outputs};
    multiply(&product, 1, input, rows, weights.inputs);
  }
  // output += input · weightsᵀ + bias
  void multiplyAdding(const StoredMatrix& weights, const float* bias, const MatrixInput& input, float* output) const {
    const ProductJob product{&weights, bias, output, weights.outputs};
    multiply(&product, 1, input, compute, Epilogue::Add);
  }
};

// Throws Error(InvalidArgument) for a range past a row's known tokens.
void checkKnown(const Batch& batch);
// Throws Error(InvalidArgument) unless keys and values in the activations are those that this layer projected for this
// batch; they count as used up then.
void takeKeys(const Batch& batch, Activations& activations, size_t layer);

// Token (and learned position) embeddings into the activations. Throws as checkKnown().
void embed(const Pass& pass);
// Norm, q k v, q/k norms, rotation; queries go into the activations, keys and values into the cache's pages, or, where
// the batch has pages on disk, into the activations too.
void project(const Pass& pass, size_t layer);
// Attention over the pages; queries become attention outputs.
void attendLayer(const Pass& pass, size_t layer);
// Pages in memory that go on from what another row has computed begin as copies of that one's, before the first token
// of the row's own is stored there.
void copyPages(const Pass& pass, size_t layer);
// For a batch with pages on disk, first: new keys and values from the activations into the pages, in the pool, the
// staging buffer and the tails. Leaves the pages' places in Batch::pagePointers. Throws Error(InvalidArgument) unless
// this batch and layer were projected last.
void placePages(const Pass& pass, size_t layer);
// Output projection, residual, feed-forward block. After a model's last layer only the hidden states of tokens whose
// logits the head computes are of use.
void finish(const Pass& pass, size_t layer);
// Final norm, language-model head, and sampling or scoring for the ranges that ask for it.
std::unique_ptr<HeadResult> head(const Pass& pass);

// output = the feed-forward block of `input`; both [tokens, hiddenSize], not overlapping.
void feedForward(const Pass& pass, const LayerWeights& layer, const float* input, float* output);
// The same without experts, of rows that were prepared for it; or, with Epilogue::Add, added to the output.
void feedForwardDense(const Pass& pass, const LayerWeights& layer, const MatrixInput& input, float* output,
                      Epilogue epilogue);
void feedForwardExperts(const Pass& pass, const LayerWeights& layer, const float* input, float* output);

// Scratch bytes that the largest batch within the limits needs in its hungriest part. Computes nothing. keepsKeys: see
// Activations.
size_t measureScratch(const DecoderSpec& spec, const Weights& weights, const PagePool& cache, const Compute& compute,
                      const Limits& limits, bool keepsKeys, float keepKeys = 1);

}  // namespace spillway
