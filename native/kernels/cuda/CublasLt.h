// cuBLASLt, opened while the program runs where there is one: nothing of it is needed to build. What is declared here
// is what is used of it; values and layouts are those of NVIDIA's cublasLt.h, the same in versions 11 to 13
// (native/tests/cuda/cublas_lt_test.cpp compares them where that header is about).
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "gpu.h"

namespace spillway::cuda {

namespace cublaslt {

// Statuses, types and attributes, by their meaning here.
constexpr int kSuccess = 0;
constexpr int kFloat = 0, kHalf = 2;  // cudaDataType
constexpr int kComputeInFloat = 68;
constexpr int32_t kTransposed = 1;
enum ProductAttribute { kTransposeA = 3 };
enum PreferenceAttribute { kMostWorkspaceBytes = 1, kReductionSchemes = 3, kAlignmentOfB = 6 };
enum AlgorithmAttribute { kSplitsOfInputs = 2, kReductionScheme = 3 };

struct Algorithm {
  uint64_t data[8];
};
struct Candidate {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;  // the rest means something if it is kSuccess
  float waves;
  int reserved[4];
};

// Handles are opaque. Matrices are column-major: [rows, columns], `stride` elements from one column to the next.
struct Functions {
  size_t (*version)();  // 10000 * major + 100 * minor + patch; 1000 * major in version 11
  int (*create)(void** library);
  int (*destroy)(void* library);
  int (*createProduct)(void** product, int compute, int scaleType);
  int (*setProduct)(void* product, int attribute, const void* value, size_t bytes);
  int (*destroyProduct)(void* product);
  int (*createLayout)(void** layout, int type, uint64_t rows, uint64_t columns, int64_t stride);
  int (*destroyLayout)(void* layout);
  int (*createPreference)(void** preference);
  int (*setPreference)(void* preference, int attribute, const void* value, size_t bytes);
  int (*destroyPreference)(void* preference);
  int (*find)(void* library, void* product, void* a, void* b, void* c, void* d, void* preference, int most,
              Candidate* found, int* count);
  int (*check)(void* library, void* product, void* a, void* b, void* c, void* d, const Algorithm* algorithm,
               Candidate* result);
  int (*read)(const Algorithm* algorithm, int attribute, void* value, size_t bytes, size_t* written);
  int (*multiply)(void* library, void* product, const void* alpha, const void* a, void* aLayout, const void* b,
                  void* bLayout, const void* beta, const void* c, void* cLayout, void* d, void* dLayout,
                  const Algorithm* algorithm, void* workspace, size_t workspaceBytes, cudaStream_t stream);
};

}  // namespace cublaslt

// A status that is no success.
class RefusedByCublasLt : public Error {
 public:
  RefusedByCublasLt(const char* function, int status)
      : Error(ErrorCode::Internal, std::string("cuBLASLt: ") + function + ": status " + std::to_string(status)) {}
};

class CublasLt {
 public:
  // For the device that the calling thread works with. The first that works of: the file that SPILLWAY_CUBLASLT names,
  // and no other, if that is set; else what the system finds as libcublasLt.so.13, .12 or .11; else the one of a Python
  // wheel (nvidia-cublas, nvidia-cublas-cu12) in the active environment, the user's or the system's packages. (The
  // emulation takes the file that SPILLWAY_EMULATED_CUBLASLT names and no other.) Null where there is none, with the
  // reason in `whyNot`, one line; throws nothing for want of it.
  static std::shared_ptr<const CublasLt> open(std::string& whyNot);
  ~CublasLt() { call.destroy(handle); }
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  const cublaslt::Functions call;
  void* const handle;
  const std::string path;

  // Throws RefusedByCublasLt unless the status is success.
  static void check(int status, const char* function) {
    if (status != cublaslt::kSuccess) throw RefusedByCublasLt(function, status);
  }

 private:
  CublasLt(const cublaslt::Functions& functions, void* library, std::string from)
      : call(functions), handle(library), path(std::move(from)) {}
};

}  // namespace spillway::cuda
