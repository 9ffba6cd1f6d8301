// A pass's operations on the processor.
#pragma once
#include <algorithm>
#include <functional>

#include "../../model/Pass.h"
#include "../../model/CacheMemory.h"
#include "../../system/ThreadPool.h"

namespace spillway {

struct CpuPass final : Pass {
  CpuPass(const DecoderSpec& spec, const Weights& weights, const CacheMemory& cache, const Compute& compute,
          const Batch& batch, Activations& activations, Scratch& scratch, bool measuring, float keepKeys)
      : Pass(spec, weights, compute, batch, activations, scratch, scratch, measuring, keepKeys), cache(cache) {}

  const CacheMemory& cache;
  // Brings experts that are not there, where there may be some. Called before any of them is computed with.
  std::function<void(const ExpertChoice* choices, size_t count)> bringExperts;
  // Brings values of chosen keys, where some are not there: Staging::loadValues.
  std::function<void(const uint64_t* const* chosen)> bringValues;
  const float* distances = nullptr;  // distanceBiases(), where the model has some

  void lookUpTokens(const StoredMatrix& embedding, float scale, float* to) const override;
  void addPositions(const StoredMatrix& embedding) const override;
  void addTypes(const StoredMatrix& embedding) const override;
  void norm(const float* x, const float* weight, const float* bias, float* y) const override;
  void addBranch(float* branch, const float* branchNorm, const float* weight, const float* bias,
                 float* next) const override;
  void addBranches(const float* first, float* second) const override;
  void addRows(const float* x, float* y) const override;
  MatrixInput prepared(const StoredMatrix* const* weights, size_t count, const float* input, size_t rows,
                       size_t columns, ProductOf of) const override;
  MatrixInput normed(const StoredMatrix* const* weights, size_t count, const float* weight,
                     const float* bias) const override;
  using Pass::multiply;
  void multiply(const ProductJob* products, size_t count, const MatrixInput& input, ProductOf of,
                Epilogue epilogue = Epilogue::Store) const override;
  MatrixInput activated(const LayerWeights& layer, const MatrixInput& input) const override;
  void fillRotary() const override;
  void finishHeads(size_t layer, float* keys, float* values) const override;
  void projectLatent(size_t layer, float* keys) const override;
  void prepareScan(size_t layer) const override;
  void beginStreams() const override;
  void predictStreams(size_t layer) const override;
  void bypassAttention(size_t layer, float* bypass, float* predicted) const override;
  void addBypass(const float* bypass) const override;
  void correctStreams(size_t layer, const float* predicted) const override;
  void projectDistances(size_t layer) const override;
  void finishFactorised(float* embedded) const override;
  void attend(size_t layer) const override;
  // Before that, where pages on disk have brought their keys alone.
  void chooseValues(size_t layer, const AttentionShape& shape) const;
  // attend() where keys between a row's first and last ones are let go.
  void attendEvicted(size_t layer, const AttentionShape& shape) const;
  // attend() with biases of scores by distance and content.
  void attendDisentangled(size_t layer, const AttentionShape& shape) const;
  // What layers do instead that remember a state.
  void applyDeltaRule(size_t layer) const;
  void applyShortConvolution(size_t layer) const;
  void applyStateSpace(size_t layer) const;
  void applySelectiveScan(size_t layer) const;
  void applyLightning(size_t layer) const;
  void applyRgLru(size_t layer) const;
  void weighBranch(const BranchSum& sum, float* branch) const override;
  ExpertRouting route(const LayerWeights& layer, const float* input, float* output) const override;
  ExpertTokens tokensOf(const ExpertRouting& routing, uint32_t expert) const override;
  ExpertTokens gated(const StoredMatrix& gate, const float* input) const override;
  void weighRows(float* x, const ExpertRouting& routing, const ExpertTokens& of, size_t width) const override;
  void gatherRows(const float* x, const ExpertTokens& of, size_t width, float* to) const override;
  void scatterRows(const float* x, const ExpertTokens& of, size_t width, float* to) const override;
  void activate(float* x, const float* up, size_t rows, size_t width) const override;
  // Of a gate's rows what is above its mean by so many standard deviations, and how much it is (Gemma 3n).
  void cutOff(float deviations, float* x, size_t width) const;
  // The same of all tokens' rows with Activation::Xielu.
  void activateXielu(const XieluSpec& numbers, float* x, size_t width) const;
  void addLayerInput(size_t layer) const override;
  void scaleLayer(size_t layer) const override;
  void finish(size_t layer) const override;
  void finished(size_t layer) const override;
  std::unique_ptr<HeadResult> head() const override;

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
  void normRow(const float* x, const float* weight, const float* bias, float* y) const {
    if (spec.norm == NormKind::Rms)
      compute.kernels.rows.rmsNorm(x, weight, spec.normEpsilon, spec.hiddenSize, y);
    else
      compute.kernels.rows.layerNorm(x, weight, bias, spec.normEpsilon, spec.hiddenSize, y);
  }

  // What a layer remembers of each range's sequence, with nothing in it before the first position. Throws
  // Error(InvalidArgument) where a range does not go on from what the layer has seen.
  void rememberedBy(size_t layer, float** states) const;
  // Of a range, on average.
  size_t tokensOfRange() const { return std::max<size_t>(1, tokens() / std::max<size_t>(1, batch.ranges.size())); }
  // The weights of a layer's convolution over `width` channels as convolve() takes them, in scratch: of each kLanes
  // channels [taps, kLanes].
  const float* turnTaps(size_t layer, size_t width) const;
  // Of some channels of a range's rows, from `channel` on, a multiple of kLanes: each element becomes the sum of its
  // channel's last elements, itself included, by the layer's weights. What comes next of the channels begins with the
  // last ones, kept in `last`, [taps - 1, width].
  void convolve(const BatchRange& range, const float* turned, float* last, size_t width, size_t channel,
                size_t channels) const;
  static constexpr size_t kConvolvedChannels = 256;  // at once
  // The first `width` channels of all rows so, with the layer's bias, where it has one, and, `activated`, SiLU after
  // it. remembered: of each range.
  void convolveMixed(size_t layer, size_t width, float* const* remembered, bool activated = true) const;

 private:
  template <typename RowOf>
  void addEmbeddings(const StoredMatrix& matrix, const RowOf& rowOf) const;
  // branch, [tokens, hiddenSize] = what a layer makes of a token's inputs and of `read`, the hidden states or others.
  void makeLayerInput(size_t layer, const float* read, float* branch) const;
  // The streams of hidden states become one.
  void joinStreams() const;
  // coefficients of a token: what the layer's router makes of a row of its first stream.
  void routeStreams(const LayerWeights& layer, const float* row, float* normed, float* routed) const;
  // What latent attention gives becomes its heads' values.
  void expandLatent(size_t layer) const;
  void gateHeads(const LayerSpec& layerSpec) const;
  void gatherValues(const LayerSpec& layerSpec) const;
  // A row of a matrix that may stream.
  void unpackOutput(const StoredMatrix& matrix, size_t output, float* to) const;
  // What products are computed on. Without rounding of the input where they are to be exact: for small ones on which
  // much depends. What is not of all tokens is little, and is not rounded to words.
  Compute computeOf(ProductOf of) const {
    const Precision others = compute.precision == Precision::Words ? Precision::Default : compute.precision;
    return {compute.kernels, compute.pool,
            of == ProductOf::Exact    ? Precision::Float32
            : of == ProductOf::Others ? others
                                      : compute.precision};
  }
  QuantisedInput quantisedRows(const StoredMatrix* const* weights, size_t count) const;
  void finishTokens(size_t layer) const;
  void finishWanted(size_t layer) const;
};

// Some tokens of a batch. None given: all.
using OfToken = std::function<bool(const BatchToken&)>;
// Pages in memory that go on from what another sequence has computed begin as copies of that one's, before the first
// token of the sequence's own is stored there. copies: of which of these tokens.
void copyPages(const CpuPass& pass, size_t layer, const OfToken& copies = {});
// Leaves in Batch::pagePointers where the pages of the layer's group are that are in memory; null for others.
void pointToPages(const CpuPass& pass, size_t layer);
// For a batch with pages on disk, first: new keys and values from the activations into the pages, in the pool, the
// staging buffer and the tails. Leaves the pages' places in Batch::pagePointers. stores: of which tokens. Throws
// Error(InvalidArgument) unless this batch and layer were projected last.
void placePages(const CpuPass& pass, size_t layer, const OfToken& stores = {});

}  // namespace spillway
