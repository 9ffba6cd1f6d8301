// Products of many rows by cuBLASLt: weights become halves once for all rows, some outputs at a time, then its product,
// sums in float, then the rows' factors and the bias.
//
// A row's result does not depend on its company here either. Which algorithm multiplies follows from the shape of the
// whole matrix alone: it is chosen once, for a fixed number of rows, among those that sum a row's products in one
// sequence (no splitting of the inputs, no workspace), and tried: rows among others and by themselves must have the
// same bits, and be the product. Every call names that algorithm, for however many rows and whichever part of the
// matrix. Where none is found multiply() is left to serve. Bits depend on the version of the library, and on the
// device.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "CublasLt.h"
#include "Matmul.h"

namespace spillway::cuda {

// Rows [first, first + count) of a product's.
struct RowRun {
  size_t first, count;
};

class CublasLtProducts {
 public:
  // As many rows as a run is filled up to: of HalfRows there has to be room for kRowUnit - 1 more, whatever they hold.
  static constexpr size_t kRowUnit = 16;

  // For the device that the calling thread works with. Null where cuBLASLt cannot be used, with the reason in `whyNot`,
  // one line.
  static std::unique_ptr<CublasLtProducts> open(std::string& whyNot);
  ~CublasLtProducts();
  CublasLtProducts(const CublasLtProducts&) = delete;
  CublasLtProducts& operator=(const CublasLtProducts&) = delete;

  // Chooses for matrices of this shape, by trying: a second call does nothing. memory: tryBytes() on the device,
  // aligned as MemoryPool does. Returns when the stream has ended. False where no algorithm will do; throws what CUDA
  // complains of.
  bool prepare(cudaStream_t stream, uint32_t outputs, uint32_t inputs, uint8_t* memory);
  static size_t tryBytes(uint32_t outputs, uint32_t inputs);
  bool serves(uint32_t outputs, uint32_t inputs) const {
    const auto found = algorithms_.find({outputs, inputs});
    return found != algorithms_.end() && found->second.has_value();
  }

  // As multiply() of Matmul.h, but for rounding, for these runs of rows. weights: the matrix, or whole panels of one
  // with `outputs` outputs, a shape that is served. workspace: workspaceBytes() for the most rows that any run has,
  // aligned as MemoryPool does. Throws Error(Internal) for what cuBLASLt refuses.
  void multiply(cudaStream_t stream, uint32_t outputs, const DeviceMatrix& weights, const HalfRows& x,
                const RowRun* runs, size_t runCount, const ProductOutput& output, uint8_t* workspace) const;
  // Bounded: 96 MiB, unless 128 outputs take more.
  static size_t workspaceBytes(uint32_t outputs, uint32_t inputs, size_t rows);

  // products[row][o] = Σ halves[o][k] * x[row][k], nothing else: what its speed is compared by. `rows` a multiple of
  // kRowUnit, outputs of 16; x, products: as in multiply()'s parts.
  void product(cudaStream_t stream, const cublaslt::Algorithm& algorithm, size_t inputs, const uint16_t* halves,
               size_t outputs, const uint16_t* x, size_t rows, float* products, size_t stride) const;
  const cublaslt::Algorithm& algorithm(uint32_t outputs, uint32_t inputs) const {
    return *algorithms_.at({outputs, inputs});
  }
  const std::string& path() const { return library_->path; }
  size_t version() const { return library_->call.version(); }
  // Of the halves that multiply() has at a time.
  static uint32_t outputsAtATime(uint32_t outputs, uint32_t inputs);

 private:
  explicit CublasLtProducts(std::shared_ptr<const CublasLt> library);
  std::optional<cublaslt::Algorithm> choose(cudaStream_t stream, uint32_t outputs, uint32_t inputs,
                                            uint8_t* memory) const;
  bool fits(const cublaslt::Candidate& candidate) const;
  bool takes(const cublaslt::Algorithm& algorithm, size_t inputs, size_t outputs, size_t rows, size_t stride) const;
  bool keepsBits(cudaStream_t stream, const cublaslt::Algorithm& algorithm, uint32_t outputs, uint32_t inputs,
                 uint8_t* memory) const;

  std::shared_ptr<const CublasLt> library_;
  void* description_ = nullptr;  // halves times halves, in float, the first transposed
  std::map<std::pair<uint32_t, uint32_t>, std::optional<cublaslt::Algorithm>>
      algorithms_;  // by outputs and inputs; none where none will do
};

}  // namespace spillway::cuda
