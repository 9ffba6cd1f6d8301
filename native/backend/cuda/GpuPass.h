// What one task of a pass computes on the device: the parts of Pass.h, made of the device's kernels. A part puts its
// work into the stream and returns; where it needs something back it waits for that alone.
#pragma once
#include <cstring>
#include <memory>

#include "../../kernels/cuda/Attention.h"
#include "../../kernels/cuda/CublasLtProducts.h"
#include "../../kernels/cuda/Matmul.h"
#include "../../kernels/cuda/RowKernels.h"
#include "../cpu/Pass.h"
#include "Link.h"

namespace spillway {

// What the device keeps for all tasks.
struct GpuConstants {
  const uint32_t* places = nullptr;  // [limits.tokensPerSquare]: 0, 1, 2 ...
  const float* slopes = nullptr;     // [heads] with ALiBi
};

// Pages of the cache on the device: page tables name them from `first` on.
struct GpuPages {
  uint8_t* data = nullptr;
  uint32_t first = 0, count = 0;
  size_t pageBytes = 0;

  bool holds(int32_t page) const { return page >= 0 && static_cast<uint32_t>(page) >= first; }
  uint8_t* page(size_t layer, int32_t page) const {
    return data + (layer * count + (static_cast<uint32_t>(page) - first)) * pageBytes;
  }
};

// What multiplies long prompts. Which tokens are of one follows from a token and its sequence's prompt alone, so that
// no token's result depends on its company.
struct GpuLibraryProducts {
  bool wanted = false;                            // memory is provided for them
  uint32_t longPromptTokens = 0;                  // tokens of a prompt of so many, or more
  const cuda::CublasLtProducts* found = nullptr;  // null: the device's own kernels multiply everything
};

// What a product is of.
enum class ProductOf : uint8_t {
  Tokens,  // the batch's tokens, row by row; others are multiplied by the device's own kernels alone
  Others,
  Exact,  // others, in float32, whatever the precision
};

// All that a task works with. Weights and activations are on the device. In a measuring pass nothing is touched: the
// parts only take from both scratches what they would need.
struct GpuPass {
  const DecoderSpec& spec;
  const Weights& weights;
  const GpuPages& pages;
  const GpuConstants& constants;
  const PagePool& hostPages;
  const Compute& compute;  // of the processor
  uint64_t mostPages;      // that a batch reaches
  const Batch& batch;
  Activations& activations;
  Scratch& scratch;  // of the device
  Scratch& host;
  Link* link;                         // null while measuring
  float keepKeys = 1;                 // below 1: sparse attention (AttentionShape::keep)
  const uint8_t* streamed = nullptr;  // the buffer on the device that holds the rest of the layer at hand
  uint8_t* staged = nullptr;  // the staging buffer of the square at hand, in host memory, if it has pages to stage
  size_t stagedBytes = 0;     // of a place in it
  GpuLibraryProducts library{};

  bool measuring() const { return link == nullptr; }
  size_t tokens() const { return batch.tokens.size(); }
  const CacheLayout& layout() const { return hostPages.layout(); }

  // launch(stream), but while measuring.
  template <typename Launch>
  void run(Launch launch) const {
    if (link != nullptr) launch(link->stream());
  }
  // body(index, worker) in parallel on the host, but while measuring.
  template <typename Body>
  void forEach(size_t count, Body body) const {
    if (link != nullptr) compute.pool.parallelFor(count, body);
  }

  // A copy on the device, in its scratch.
  template <typename T>
  T* upload(const T* values, size_t count) const {
    T* to = scratch.take<T>(count);
    if (link != nullptr) link->upload(to, values, count * sizeof(T));
    return to;
  }

  // y = norm(x), [rows, hiddenSize] both; y may be x.
  void norm(const float* x, const float* weight, const float* bias, size_t rows, float* y) const;
  // output_i = input · weights_iᵀ + bias_i for products that share their input [rows, columns].
  void multiply(const ProductJob* products, size_t count, const float* input, size_t rows, size_t columns,
                ProductOf of) const;
  void multiply(const StoredMatrix& weights, const float* bias, const float* input, size_t rows, float* output,
                ProductOf of) const {
    const ProductJob product{&weights, bias, output, weights.outputs};
    multiply(&product, 1, input, rows, weights.inputs, of);
  }
  void add(const float* x, float* y, size_t n) const {
    run([&](cudaStream_t stream) { cuda::add(stream, x, y, n); });
  }
};

void embed(const GpuPass& pass);
// New keys and values stay in the activations: attention stores them.
void project(const GpuPass& pass, size_t layer);
void attendLayer(const GpuPass& pass, size_t layer);
void finish(const GpuPass& pass, size_t layer);
std::unique_ptr<HeadResult> head(const GpuPass& pass);

// output = the feed-forward block of `input`; both [tokens, hiddenSize], not overlapping.
void feedForward(const GpuPass& pass, const LayerWeights& layer, const float* input, float* output);
void feedForwardExperts(const GpuPass& pass, const LayerWeights& layer, const float* input, float* output);

}  // namespace spillway
