// cuBLASLt's functions as far as the backend calls them, by plain loops in the emulator's stream. Arguments that the
// real one would refuse are refused.
#include "fakeCublasLt.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "../../kernels/cpu/floatFormats.h"

namespace {

using spillway::fake::Control;

Control control;

constexpr int kSuccess = 0, kInvalidValue = 7, kNotSupported = 15;
constexpr int kFloat = 0, kHalf = 2, kComputeFloat = 68;

template <typename T>
int create(void** made) {
  *made = new T();
  control.objects++;
  return kSuccess;
}
template <typename T>
int destroy(void* made) {
  delete static_cast<T*>(made);
  control.objects--;
  return kSuccess;
}

struct Product {
  int compute = 0, scale = 0;
  int32_t transposed[2] = {0, 0};
};
struct Layout {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t stride = 0;
};
struct Preference {
  uint64_t workspaceBytes = UINT64_MAX;
  uint32_t schemes = 7, alignmentOfB = 256;
};
struct Algorithm {
  uint64_t data[8];
};
struct Result {
  Algorithm algorithm;
  size_t workspaceBytes;
  int state;
  float waves;
  int reserved[4];
};

template <typename T>
int assign(T& to, const void* value, size_t bytes) {
  if (bytes != sizeof(T)) return kInvalidValue;
  std::memcpy(&to, value, bytes);
  return kSuccess;
}

struct Matrices {
  const Layout &a, &b, &c, &d;
  Matrices(void* a, void* b, void* c, void* d)
      : a(*static_cast<Layout*>(a)),
        b(*static_cast<Layout*>(b)),
        c(*static_cast<Layout*>(c)),
        d(*static_cast<Layout*>(d)) {}
  bool fit(const Product& product) const {
    const auto plausible = [](const Layout& layout, int type) {
      return layout.type == type && layout.rows > 0 && layout.columns > 0 &&
             layout.stride >= static_cast<int64_t>(layout.rows);
    };
    return product.compute == kComputeFloat && product.scale == kFloat && product.transposed[0] == 1 &&
           product.transposed[1] == 0 && plausible(a, kHalf) && plausible(b, kHalf) && plausible(c, kFloat) &&
           plausible(d, kFloat) && a.rows == b.rows && d.rows == a.columns && d.columns == b.columns &&
           c.rows == d.rows && c.columns == d.columns;
  }
};

// The sums of one row: what takes the time, on memory of its own, so that no sanitizer needs to look.
#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O3"), no_sanitize("address", "undefined")))
#endif
void sumRow(const float* left, const float* row, size_t inputs, size_t outputs, bool backwards, float* sums) {
  for (size_t k = 0; k < inputs; k++) {
    const size_t at = backwards ? inputs - 1 - k : k;
    for (size_t output = 0; output < outputs; output++) sums[output] += left[at * outputs + output] * row[at];
  }
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED Control* fakeCublasLtControl() { return &control; }

EXPORTED size_t cublasLtGetVersion() { return control.version; }
EXPORTED int cublasLtCreate(void** library) {
  if (control.createStatus != kSuccess) return control.createStatus;
  control.libraries++;
  *library = &control;
  return kSuccess;
}
EXPORTED int cublasLtDestroy(void*) {
  control.libraries--;
  return kSuccess;
}

EXPORTED int cublasLtMatmulDescCreate(void** made, int compute, int scale) {
  create<Product>(made);
  *static_cast<Product*>(*made) = {compute, scale, {0, 0}};
  return kSuccess;
}
EXPORTED int cublasLtMatmulDescSetAttribute(void* product, int attribute, const void* value, size_t bytes) {
  if (attribute != 3 && attribute != 4) return kInvalidValue;
  return assign(static_cast<Product*>(product)->transposed[attribute - 3], value, bytes);
}
EXPORTED int cublasLtMatmulDescDestroy(void* made) { return destroy<Product>(made); }
EXPORTED int cublasLtMatrixLayoutCreate(void** made, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  create<Layout>(made);
  *static_cast<Layout*>(*made) = {type, rows, columns, stride};
  return kSuccess;
}
EXPORTED int cublasLtMatrixLayoutDestroy(void* made) { return destroy<Layout>(made); }
EXPORTED int cublasLtMatmulPreferenceCreate(void** made) { return create<Preference>(made); }
EXPORTED int cublasLtMatmulPreferenceSetAttribute(void* made, int attribute, const void* value, size_t bytes) {
  auto& preference = *static_cast<Preference*>(made);
  if (attribute == 1) return assign(preference.workspaceBytes, value, bytes);
  if (attribute == 3) return assign(preference.schemes, value, bytes);
  if (attribute == 6) return assign(preference.alignmentOfB, value, bytes);
  return kInvalidValue;
}
EXPORTED int cublasLtMatmulPreferenceDestroy(void* made) { return destroy<Preference>(made); }

EXPORTED int cublasLtMatmulAlgoGetHeuristic(void*, void* product, void* a, void* b, void* c, void* d, void*, int most,
                                            Result* found, int* count) {
  if (control.findStatus != kSuccess) return control.findStatus;
  if (!Matrices(a, b, c, d).fit(*static_cast<Product*>(product))) return kInvalidValue;
  *count = 0;
  for (int id = control.first; id < control.end && *count < most; id++) {
    found[*count] = {};
    found[*count].algorithm.data[3] = static_cast<uint64_t>(id);
    found[*count].workspaceBytes = id == spillway::fake::kWantsWorkspace ? 1024 : 0;
    ++*count;
  }
  return *count == 0 ? kNotSupported : kSuccess;
}

EXPORTED int cublasLtMatmulAlgoCheck(void*, void* product, void* a, void* b, void* c, void* d,
                                     const Algorithm* algorithm, Result* result) {
  const Matrices of(a, b, c, d);
  if (!of.fit(*static_cast<Product*>(product))) return kInvalidValue;
  if (algorithm->data[3] == spillway::fake::kNotForFewRows && of.b.columns < 64) return kNotSupported;
  *result = {};
  return kSuccess;
}

EXPORTED int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, int attribute, void* value, size_t bytes,
                                                  size_t* written) {
  if (bytes != sizeof(uint32_t)) return kInvalidValue;
  const bool splits = algorithm->data[3] == spillway::fake::kSplitsInputs,
             reduces = algorithm->data[3] == spillway::fake::kReducesInParts;
  const uint32_t answer = attribute == 2 ? (splits ? 4 : 1) : attribute == 3 ? (reduces ? 2 : 0) : 99;
  if (answer == 99) return kInvalidValue;
  std::memcpy(value, &answer, bytes);
  *written = bytes;
  return kSuccess;
}

EXPORTED int cublasLtMatmul(void*, void* product, const void* alpha, const void* a, void* aLayout, const void* b,
                            void* bLayout, const void* beta, const void* c, void* cLayout, void* d, void* dLayout,
                            const Algorithm* algorithm, void*, size_t, cudaStream_t stream) {
  if (control.multiplyStatus != kSuccess) return control.multiplyStatus;
  const Matrices of(aLayout, bLayout, cLayout, dLayout);
  const auto isAligned = [](const void* data, size_t bytes) { return reinterpret_cast<uintptr_t>(data) % bytes == 0; };
  // The alignments that were promised when the algorithm was chosen.
  if (!of.fit(*static_cast<Product*>(product)) || c != d || !isAligned(a, 256) || !isAligned(b, 64) ||
      !isAligned(d, 256))
    return kInvalidValue;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0) return kInvalidValue;
  const auto id = static_cast<int>(algorithm->data[3]);
  control.used = id;
  control.products++;
  control.rows += of.b.columns;
  control.enqueue(stream, [=, aOf = of.a, bOf = of.b, dOf = of.d] {
    const auto floats = [](const void* from, const Layout& layout) {
      std::vector<float> values(layout.rows * layout.columns);
      for (size_t i = 0; i < values.size(); i++)
        values[i] = spillway::halfToFloat(
            static_cast<const uint16_t*>(from)[i / layout.rows * static_cast<size_t>(layout.stride) + i % layout.rows]);
      return values;
    };
    const std::vector<float> weights = floats(a, aOf), right = floats(b, bOf);
    std::vector<float> left(weights.size());  // transposed
    for (size_t i = 0; i < left.size(); i++) left[i % aOf.rows * aOf.columns + i / aOf.rows] = weights[i];
    const size_t inputs = id == spillway::fake::kForgetsTheLast ? aOf.rows - 1 : aOf.rows;
    const bool backwards = id == spillway::fake::kKnowsItsCompany && dOf.columns > 100;
    for (size_t row = 0; row < dOf.columns; row++) {
      std::vector<float> sums(dOf.rows);
      sumRow(left.data(), right.data() + row * aOf.rows, inputs, dOf.rows, backwards, sums.data());
      std::memcpy(static_cast<float*>(d) + row * static_cast<size_t>(dOf.stride), sums.data(),
                  sums.size() * sizeof(float));
    }
  });
  return kSuccess;
}
