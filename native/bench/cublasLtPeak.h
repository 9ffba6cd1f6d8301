// What cuBLASLt reaches on a device when nothing is asked of it but speed: any algorithm, any order of sums, a large
// workspace.
#pragma once
#include <memory>

#include "../kernels/cuda/CublasLt.h"

namespace spillway::cuda {

// products[rows, outputs] = x[rows, inputs] * weights[outputs, inputs]ᵀ, halves, sums in float; all dense.
class CublasLtPeak {
 public:
  static constexpr size_t kWorkspaceBytes = size_t{64} << 20;

  // Throws RefusedByCublasLt.
  CublasLtPeak(std::shared_ptr<const CublasLt> library, size_t outputs, size_t inputs, size_t rows, void* workspace)
      : library_(std::move(library)), workspace_(workspace) {
    using namespace cublaslt;
    const Functions& call = library_->call;
    CublasLt::check(call.createProduct(&product_, kComputeInFloat, kFloat), "cublasLtMatmulDescCreate");
    CublasLt::check(call.setProduct(product_, kTransposeA, &kTransposed, sizeof kTransposed),
                    "cublasLtMatmulDescSetAttribute");
    CublasLt::check(call.createLayout(&weights_, kHalf, inputs, outputs, static_cast<int64_t>(inputs)),
                    "cublasLtMatrixLayoutCreate");
    CublasLt::check(call.createLayout(&x_, kHalf, inputs, rows, static_cast<int64_t>(inputs)),
                    "cublasLtMatrixLayoutCreate");
    CublasLt::check(call.createLayout(&products_, kFloat, outputs, rows, static_cast<int64_t>(outputs)),
                    "cublasLtMatrixLayoutCreate");
    CublasLt::check(call.createPreference(&preference_), "cublasLtMatmulPreferenceCreate");
    const uint64_t most = kWorkspaceBytes;
    CublasLt::check(call.setPreference(preference_, kMostWorkspaceBytes, &most, sizeof most),
                    "cublasLtMatmulPreferenceSetAttribute");
    int count = 0;
    CublasLt::check(
        call.find(library_->handle, product_, weights_, x_, products_, products_, preference_, 1, &best_, &count),
        "cublasLtMatmulAlgoGetHeuristic");
  }
  // The bench ends with the process: what was made of the library is left to it.
  void run(cudaStream_t stream, const uint16_t* weights, const uint16_t* x, float* products) const {
    const float one = 1, zero = 0;
    CublasLt::check(
        library_->call.multiply(library_->handle, product_, &one, weights, weights_, x, x_, &zero, products, products_,
                                products, products_, &best_.algorithm, workspace_, kWorkspaceBytes, stream),
        "cublasLtMatmul");
  }

 private:
  std::shared_ptr<const CublasLt> library_;
  void* workspace_;
  void *product_ = nullptr, *weights_ = nullptr, *x_ = nullptr, *products_ = nullptr, *preference_ = nullptr;
  cublaslt::Candidate best_{};
};

}  // namespace spillway::cuda
