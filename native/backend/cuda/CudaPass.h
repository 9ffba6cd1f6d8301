// A pass's operations on a device that CUDA drives.
#pragma once
#include <functional>
#include <memory>

#include "../../kernels/cuda/Attention.h"
#include "../../kernels/cuda/CublasLtProducts.h"
#include "../../kernels/cuda/Matmul.h"
#include "../../kernels/cuda/RowKernels.h"
#include "../../model/CacheMemory.h"
#include "../../model/Pass.h"
#include "../../system/ThreadPool.h"
#include "Link.h"

namespace spillway {

// What the device keeps for all tasks.
struct GpuConstants {
  const uint32_t* places = nullptr;  // [limits.tokensPerSquare]: 0, 1, 2 ...
  const float* slopes = nullptr;     // [heads] with ALiBi
};

// Pages of the cache on the device: page tables name them from `first` on.
struct DevicePages {
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

// Weights, activations and scratch are on the device. An operation puts its work into the stream and returns; where it
// needs something back (experts, attention on the host, sampled tokens) it waits for that alone, and whoever is after
// it with it.
struct CudaPass final : Pass {
  CudaPass(const DecoderSpec& spec, const Weights& weights, const Compute& compute, const Batch& batch,
           Activations& activations, Scratch& scratch, Scratch& host, Link* link, float keepKeys,
           const DevicePages& pages, const GpuConstants& constants, const CacheMemory& hostPages, bool hostPinned,
           bool fetches, bool hostAttends, uint64_t mostPages, const GpuLibraryProducts& library)
      : Pass(spec, weights, compute, batch, activations, scratch, host, link == nullptr, keepKeys),
        pages(pages),
        constants(constants),
        hostPages(hostPages),
        hostPinned(hostPinned),
        fetches(fetches),
        hostAttends(hostAttends),
        mostPages(mostPages),
        link(link),
        library(library) {}

  const DevicePages& pages;
  const GpuConstants& constants;
  const CacheMemory& hostPages;
  bool hostPinned;                        // the device reads and writes them where they are
  bool fetches;                           // pages that live elsewhere come to the device
  bool hostAttends;                       // the processor attends to pages in host memory and on disk, if not all come
  const FetchedPages* fetched = nullptr;  // those of the square at hand, if it has any, and where they are
  uint8_t* fetchedData = nullptr;
  std::function<void(size_t group)> fetchNext;  // brings another group of them there, in place of the one before
  uint64_t mostPages;                           // that a batch reaches
  Link* link;                                   // null while measuring
  GpuLibraryProducts library;

  const CacheLayout& layout() const { return hostPages.layout(); }
  // Of an entry of Batch::pages, where it is on the device; null for those that are elsewhere.
  uint8_t* pageHere(size_t layer, size_t entry) const {
    const int32_t page = batch.pages[entry];
    if (pages.holds(page)) return pages.page(layer, page);
    if (fetched == nullptr || fetched->placeOf[entry] == FetchedPages::kNone) return nullptr;
    return fetchedData + fetched->placeOf[entry] * pages.pageBytes;
  }

  void lookUpTokens(const StoredMatrix& embedding, float scale, float* to) const override;
  void addPositions(const StoredMatrix& embedding) const override;
  void addTypes(const StoredMatrix& embedding) const override;
  void norm(const float* x, const float* weight, const float* bias, float* y) const override;
  void addBranch(float* branch, const float* branchNorm, const float* weight, const float* bias,
                 float* next) const override;
  void addBranches(const float* first, float* second) const override;
  // For products on halves (HalfRows) rows are made so once for all of them; for those in float they stand as they are.
  MatrixInput prepared(const StoredMatrix* const* weights, size_t count, const float* input, size_t rows,
                       size_t columns, ProductOf of) const override;
  MatrixInput normed(const StoredMatrix* const* weights, size_t count, const float* weight,
                     const float* bias) const override;
  using Pass::multiply;
  void multiply(const ProductJob* products, size_t count, const MatrixInput& input, ProductOf of,
                Epilogue epilogue = Epilogue::Store) const override;
  MatrixInput activated(const LayerWeights& layer, const MatrixInput& input) const override;
  void fillRotary() const override;
  // New keys and values stay in the activations: attention stores them.
  void finishHeads(size_t layer, float* keys, float* values) const override;
  void attend(size_t layer) const override;
  ExpertRouting route(const LayerWeights& layer, const float* input, float* output) const override;
  ExpertTokens tokensOf(const ExpertRouting& routing, uint32_t expert) const override;
  ExpertTokens gated(const StoredMatrix& gate, const float* input) const override;
  void gatherRows(const float* x, const ExpertTokens& of, size_t width, float* to) const override;
  void scatterRows(const float* x, const ExpertTokens& of, size_t width, float* to) const override;
  void activate(float* x, const float* up, size_t rows, size_t width) const override;
  void finish(size_t layer) const override;
  std::unique_ptr<HeadResult> head() const override;

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
  void normRows(const float* x, const float* weight, const float* bias, size_t rows, float* y) const;

 private:
  void add(const float* x, float* y) const;
  // branch *= residualScale, [tokens, hiddenSize].
  void scaleBranch(float* branch) const;
  template <typename IdOf>
  void lookUp(const StoredMatrix& matrix, IdOf idOf, float* to) const;
  void prepareHeads(size_t layer, float* x, uint32_t heads, const float* norm, const float* bias) const;
  void normHeads(float* x, uint32_t heads, const float* norm, const float* bias) const;
  bool onHalves(ProductOf of) const { return of != ProductOf::Exact && compute.precision == Precision::Default; }
  // Whether another library may multiply some of the rows.
  bool sharesProducts(ProductOf of) const { return onHalves(of) && of == ProductOf::Tokens && library.wanted; }
  static cuda::HalfRows halvesOf(const MatrixInput& input);
  MatrixInput takeInput(const float* values, size_t rows, size_t columns, ProductOf of) const;
  uint8_t* takeWorkspace(const ProductJob* products, size_t count, size_t rows) const;
};

}  // namespace spillway
