// What one task of a pass works with, and the operations that a layer is made of. The layer is written once over these
// (layer.h); each backend computes them in its own way, fused as far as it fuses them on the processor.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

#include "../kernels/cpu/Kernels.h"
#include "../kernels/cpu/Matmul.h"
#include "../system/Scratch.h"
#include "Activations.h"
#include "Batch.h"
#include "ComputeTask.h"
#include "DecoderSpec.h"
#include "StoredMatrix.h"
#include "Weights.h"
#include "chooseExperts.h"

namespace spillway {

// What a product is of.
enum class ProductOf : uint8_t {
  Tokens,  // the batch's tokens, row by row: what long prompts are multiplied with may differ (GpuLibraryProducts)
  Others,
  Exact,  // others, in float32, whatever the precision
};

// Which tokens go to which expert: a backend's own (Pass::route).
struct ExpertRouting {
  ExpertChoice* choices;  // [tokens, expertsPerToken]
  uint32_t* tokens;
  float* shares;
  size_t* ends;
};
// Tokens of one expert, and the weight that each gives it: where the backend computes.
struct ExpertTokens {
  const uint32_t* tokens;
  const float* shares;
  size_t count;
};

// Weights, activations and scratch are where the backend computes. In a measuring pass no memory is touched: operations
// only take from both scratches what they would need.
struct Pass {
  Pass(const DecoderSpec& spec, const Weights& weights, const Compute& compute, const Batch& batch,
       Activations& activations, Scratch& scratch, Scratch& host, bool measuring, float keepKeys)
      : spec(spec),
        weights(weights),
        compute(compute),
        batch(batch),
        activations(activations),
        scratch(scratch),
        host(host),
        measuring(measuring),
        keepKeys(keepKeys) {}
  virtual ~Pass() = default;

  const DecoderSpec& spec;
  const Weights& weights;
  const Compute& compute;  // of the processor
  const Batch& batch;
  Activations& activations;
  Scratch& scratch;
  Scratch& host;  // in host memory; may be the same
  bool measuring;
  float keepKeys;                     // below 1: sparse attention (AttentionShape::keep)
  const uint8_t* streamed = nullptr;  // the buffer that holds what streams of the layer at hand, if anything does
  uint8_t* staged = nullptr;  // the staging buffer of the square at hand, in host memory, if it has pages to stage
  size_t stagedBytes = 0;     // of a place in it
  size_t leading = SIZE_MAX;  // how many of the batch's tokens the task is about: the first ones

  static constexpr size_t kMostProducts = 3;

  size_t tokens() const { return std::min(leading, batch.tokens.size()); }
  // Where what stands beside attention leaves its outputs, [tokens, stateValues].
  float* besideOutputs() const { return activations.queries + batch.tokens.size() * spec.queryWidth(); }

  // What experts gave that the next layer adds (DecoderSpec::expertsAside), [tokens, hiddenSize].
  float* aside() const { return activations.hidden + batch.tokens.size() * spec.hiddenSize; }

  // --- Embedding.
  // to = scale times the embeddings of the batch's tokens.
  virtual void lookUpTokens(const StoredMatrix& embedding, float scale, float* to) const = 0;
  // hidden += the embeddings of their positions; of their types (Sequence::typeOf).
  virtual void addPositions(const StoredMatrix& embedding) const = 0;
  virtual void addTypes(const StoredMatrix& embedding) const = 0;

  // embedded, [tokens, embeddingSize], with positions and types, normed (DecoderSpec::embeddingFactorised). Of the
  // processor.
  virtual void finishFactorised(float* embedded) const;

  // --- Norms and sums of rows [tokens, hiddenSize].
  // y = norm(x); y may be x.
  virtual void norm(const float* x, const float* weight, const float* bias, float* y) const = 0;
  // How a branch ends: hidden += branch, which is normed first where `branchNorm` is given, and multiplied by the
  // decoder's residualScale; and, where `next` is given, next = norm(hidden). next may be the hidden states themselves.
  virtual void addBranch(float* branch, const float* branchNorm, const float* weight, const float* bias,
                         float* next) const = 0;
  // What stands before addBranch() where a sum has weights: hidden *= kept, branch *= added. Of the processor.
  virtual void weighBranch(const BranchSum& sum, float* branch) const;
  // hidden += second + first, in this order, times residualScale; second is overwritten.
  virtual void addBranches(const float* first, float* second) const = 0;

  // y += x. Of the processor.
  virtual void addRows(const float* x, float* y) const;

  // --- Products.
  // Rows as input of products with these weights. What is made of them lives in scratch.
  virtual MatrixInput prepared(const StoredMatrix* const* weights, size_t count, const float* input, size_t rows,
                               size_t columns, ProductOf of) const = 0;
  // The norm of the hidden states as such input.
  virtual MatrixInput normed(const StoredMatrix* const* weights, size_t count, const float* weight,
                             const float* bias) const = 0;
  // output_i = input · weights_iᵀ + bias_i for up to three jobs; or, of one, added to the output.
  virtual void multiply(const ProductJob* products, size_t count, const MatrixInput& input, ProductOf of,
                        Epilogue epilogue = Epilogue::Store) const = 0;
  // The inner rows of a dense feed-forward block, activation(gate · x) * (up · x) or activation(up · x), as input of
  // its last product. They live in scratch.
  virtual MatrixInput activated(const LayerWeights& layer, const MatrixInput& input) const = 0;

  // --- Attention.
  // Cosines and sines of all tokens' angles; once a pass, by its first layer here.
  virtual void fillRotary() const = 0;
  // Norms and rotation of new queries and keys. Keys and values go into the cache's pages where these are at hand;
  // where not, attention stores them.
  virtual void finishHeads(size_t layer, float* keys, float* values) const = 0;
  // What project() does instead of a layer of latent attention. `keys`: [tokens, headDim] of latent rows. Of the
  // processor.
  virtual void projectLatent(size_t layer, float* keys) const;
  // What project() does last of a selective scan, which needs the layer's matrices: the convolution, and of what comes
  // out of it the time steps, and what states are written and read by. Of the processor.
  virtual void prepareScan(size_t layer) const;
  // Of streams (StreamsSpec), all of the processor: the others begin as products of the first; a layer's predictions
  // come in place of them; `bypass` becomes what stands beside attention, `predicted` a copy of the first, [tokens,
  // hiddenSize] both; the first is added to it; all are corrected, and get the layer's inputs.
  virtual void beginStreams() const;
  virtual void predictStreams(size_t layer) const;
  virtual void bypassAttention(size_t layer, float* bypass, float* predicted) const;
  virtual void addBypass(const float* bypass) const;
  virtual void correctStreams(size_t layer, const float* predicted) const;
  // Queries and keys of the distances between tokens, of disentangled attention. Of the processor.
  virtual void projectDistances(size_t layer) const;
  // Attention over the pages; queries become attention outputs. All of it is a backend's own: on a device tokens attend
  // there, on the processor, or on both.
  virtual void attend(size_t layer) const = 0;

  // --- Experts.
  // Chooses each token's experts, and fills `output`, [tokens, hiddenSize], with zeros. What is returned lives in
  // scratch.
  virtual ExpertRouting route(const LayerWeights& layer, const float* input, float* output) const = 0;
  // In a measuring pass, all of the batch. Valid until the next call.
  virtual ExpertTokens tokensOf(const ExpertRouting& routing, uint32_t expert) const = 0;
  // All tokens, each with the logistic function of what a matrix of one output makes of its input. Lives in scratch.
  virtual ExpertTokens gated(const StoredMatrix& gate, const float* input) const = 0;
  // x_i *= share_i, after which all shares count as 1. Of the processor.
  virtual void weighRows(float* x, const ExpertRouting& routing, const ExpertTokens& of, size_t width) const;
  // to_i = x_token(i), `width` elements each; and to_token(i) += share_i * x_i.
  virtual void gatherRows(const float* x, const ExpertTokens& of, size_t width, float* to) const = 0;
  virtual void scatterRows(const float* x, const ExpertTokens& of, size_t width, float* to) const = 0;
  // x = activation(x) * up, [rows, width] both.
  virtual void activate(float* x, const float* up, size_t rows, size_t width) const = 0;

  // --- The end of a layer.
  // What it adds of its tokens' embeddings to what it has made of them, and the factor of its outputs
  // (DecoderSpec::layerInputSize, layerScale). Of the processor.
  virtual void addLayerInput(size_t layer) const;
  virtual void scaleLayer(size_t layer) const;

  // --- What a backend does around the layers.
  // finishLayer(), or as much of it as is still wanted.
  virtual void finish(size_t layer) const = 0;
  // After a layer of which all is there: a look at the hidden states, where a backend takes one.
  virtual void finished(size_t /*layer*/) const {}
  // Final norm, language-model head, and sampling or scoring for the ranges that ask for it: a backend's own.
  virtual std::unique_ptr<HeadResult> head() const = 0;

  // Of rows [rows, columns] that stand as they are.
  void multiply(const ProductJob* products, size_t count, const float* input, size_t rows, size_t columns,
                ProductOf of) const;
  void multiply(const StoredMatrix& weights, const float* bias, const float* input, size_t rows, float* output,
                ProductOf of) const {
    const ProductJob product{&weights, bias, output, weights.outputs};
    multiply(&product, 1, input, rows, weights.inputs, of);
  }
};

// What is taken of a pass's scratch while one of these exists is given back when it goes.
class ScratchScope {
 public:
  explicit ScratchScope(const Pass& pass) : pass_(pass), mark_(pass.scratch.used()), hostMark_(pass.host.used()) {}
  ~ScratchScope() {
    pass_.host.release(hostMark_);
    pass_.scratch.release(mark_);
  }
  ScratchScope(const ScratchScope&) = delete;
  ScratchScope& operator=(const ScratchScope&) = delete;

 private:
  const Pass& pass_;
  size_t mark_, hostMark_;
};

}  // namespace spillway
