#include "CublasLtProducts.h"

#include <algorithm>

#include "../cpu/panelLayout.h"
#include "MemoryPool.h"

namespace spillway::cuda {
namespace {

using cublaslt::Algorithm;
using cublaslt::Candidate;

constexpr size_t kHalvesBytes = size_t{64} << 20;
constexpr uint32_t kMostOutputs = 8192, kLeastOutputs = 128;  // at a time
constexpr size_t kMostRows = 1024;                            // likewise
constexpr size_t kTypicalRows = 512;                          // that algorithms are chosen for
constexpr int kMostCandidates = 16;
constexpr uint32_t kRowAlignment = 64;  // of a run's first row: its columns are multiples of 32

size_t upTo(size_t unit, size_t count) { return (count + unit - 1) / unit * unit; }

// What is made by one function of the library and ended by another.
class Made {
 public:
  // create(&made) gives a status.
  template <typename Create>
  Made(int (*end)(void*), const char* function, Create create) : end_(end) {
    CublasLt::check(create(&made_), function);
  }
  ~Made() { end_(made_); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  void* get() const { return made_; }

 private:
  int (*end_)(void*);
  void* made_ = nullptr;
};

// Row-major matrices are column-major ones with rows and columns exchanged.
class Layout : public Made {
 public:
  Layout(const CublasLt& library, int type, size_t rows, size_t columns, size_t stride)
      : Made(library.call.destroyLayout, "cublasLtMatrixLayoutCreate", [&](void** made) {
          return library.call.createLayout(made, type, columns, rows, static_cast<int64_t>(stride));
        }) {}
};

// [outputs, inputs] and [rows, inputs] halves, [rows, outputs] floats.
struct Layouts {
  Layouts(const CublasLt& library, size_t inputs, size_t outputs, size_t rows, size_t stride)
      : weights(library, cublaslt::kHalf, outputs, inputs, inputs),
        x(library, cublaslt::kHalf, rows, inputs, inputs),
        products(library, cublaslt::kFloat, rows, outputs, stride) {}
  Layout weights, x, products;
};

}  // namespace

std::unique_ptr<CublasLtProducts> CublasLtProducts::open(std::string& whyNot) {
  std::shared_ptr<const CublasLt> library = CublasLt::open(whyNot);
  if (library == nullptr) return nullptr;
  try {
    return std::unique_ptr<CublasLtProducts>(new CublasLtProducts(std::move(library)));
  } catch (const Error& error) {
    whyNot = error.what();
    return nullptr;
  }
}

CublasLtProducts::CublasLtProducts(std::shared_ptr<const CublasLt> library) : library_(std::move(library)) {
  const cublaslt::Functions& call = library_->call;
  CublasLt::check(call.createProduct(&description_, cublaslt::kComputeInFloat, cublaslt::kFloat),
                  "cublasLtMatmulDescCreate");
  const int status =
      call.setProduct(description_, cublaslt::kTransposeA, &cublaslt::kTransposed, sizeof cublaslt::kTransposed);
  if (status == cublaslt::kSuccess) return;
  call.destroyProduct(description_);
  CublasLt::check(status, "cublasLtMatmulDescSetAttribute");
}

CublasLtProducts::~CublasLtProducts() { library_->call.destroyProduct(description_); }

uint32_t CublasLtProducts::outputsAtATime(uint32_t outputs, uint32_t inputs) {
  const size_t fitting = kHalvesBytes / (halfColumns(inputs) * sizeof(uint16_t)) / kLeastOutputs * kLeastOutputs;
  const size_t most = std::min<size_t>(std::max<size_t>(fitting, kLeastOutputs), kMostOutputs);
  return static_cast<uint32_t>(std::min(most, upTo(kPanelOutputs, outputs)));
}

size_t CublasLtProducts::workspaceBytes(uint32_t outputs, uint32_t inputs, size_t rows) {
  const size_t some = outputsAtATime(outputs, inputs);
  return MemoryPool::aligned(some * halfColumns(inputs) * sizeof(uint16_t)) +
         MemoryPool::aligned(upTo(kRowUnit, std::min(rows, kMostRows)) * some * sizeof(float));
}

// One product, in one sequence: with no more than that a row's result depends on the row alone.
bool CublasLtProducts::fits(const Candidate& candidate) const {
  if (candidate.state != cublaslt::kSuccess || candidate.workspaceBytes != 0) return false;
  const auto atMost = [&](cublaslt::AlgorithmAttribute attribute, uint32_t most) {
    uint32_t value = 0;
    size_t written = 0;
    return library_->call.read(&candidate.algorithm, attribute, &value, sizeof value, &written) == cublaslt::kSuccess &&
           value <= most;
  };
  return atMost(cublaslt::kSplitsOfInputs, 1) && atMost(cublaslt::kReductionScheme, 0);
}

bool CublasLtProducts::takes(const Algorithm& algorithm, size_t inputs, size_t outputs, size_t rows,
                             size_t stride) const {
  const Layouts of(*library_, inputs, outputs, rows, stride);
  Candidate result{};
  const int status = library_->call.check(library_->handle, description_, of.weights.get(), of.x.get(),
                                          of.products.get(), of.products.get(), &algorithm, &result);
  return status == cublaslt::kSuccess && result.workspaceBytes == 0;
}

bool CublasLtProducts::prepare(cudaStream_t stream, uint32_t outputs, uint32_t inputs, uint8_t* memory) {
  const std::pair shape{outputs, inputs};
  if (algorithms_.count(shape) == 0) algorithms_.emplace(shape, choose(stream, outputs, inputs, memory));
  return serves(outputs, inputs);
}

std::optional<Algorithm> CublasLtProducts::choose(cudaStream_t stream, uint32_t outputs, uint32_t inputs,
                                                  uint8_t* memory) const {
  const cublaslt::Functions& call = library_->call;
  const size_t some = outputsAtATime(outputs, inputs), columns = halfColumns(inputs);
  Candidate found[kMostCandidates] = {};
  int count = 0;
  try {
    const Layouts of(*library_, columns, some, kTypicalRows, some);
    const Made preference(call.destroyPreference, "cublasLtMatmulPreferenceCreate", call.createPreference);
    const auto prefer = [&](int attribute, auto value) {
      CublasLt::check(call.setPreference(preference.get(), attribute, &value, sizeof value),
                      "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(cublaslt::kMostWorkspaceBytes, uint64_t{0});
    prefer(cublaslt::kReductionSchemes, uint32_t{0});
    prefer(cublaslt::kAlignmentOfB, kRowAlignment);
    const int searched = call.find(library_->handle, description_, of.weights.get(), of.x.get(), of.products.get(),
                                   of.products.get(), preference.get(), kMostCandidates, found, &count);
    if (searched != cublaslt::kSuccess) return {};
    for (int i = 0; i < std::min(count, kMostCandidates); i++) {
      const Algorithm& algorithm = found[i].algorithm;
      bool good = fits(found[i]);
      for (const size_t part : {kPanelOutputs, some})
        for (const size_t rows : {kRowUnit, kMostRows}) good = good && takes(algorithm, columns, part, rows, some);
      if (good && keepsBits(stream, algorithm, outputs, inputs, memory)) return algorithm;
    }
  } catch (const RefusedByCublasLt&) {}
  return {};
}

void CublasLtProducts::product(cudaStream_t stream, const Algorithm& algorithm, size_t inputs, const uint16_t* halves,
                               size_t outputs, const uint16_t* x, size_t rows, float* products, size_t stride) const {
  const Layouts of(*library_, inputs, outputs, rows, stride);
  const float one = 1, zero = 0;
  CublasLt::check(
      library_->call.multiply(library_->handle, description_, &one, halves, of.weights.get(), x, of.x.get(), &zero,
                              products, of.products.get(), products, of.products.get(), &algorithm, nullptr, 0, stream),
      "cublasLtMatmul");
}

void CublasLtProducts::multiply(cudaStream_t stream, uint32_t outputs, const DeviceMatrix& weights, const HalfRows& x,
                                const RowRun* runs, size_t runCount, const ProductOutput& output,
                                uint8_t* workspace) const {
  const Algorithm& chosen = algorithm(outputs, weights.inputs);
  const size_t most = outputsAtATime(outputs, weights.inputs), columns = halfColumns(weights.inputs);
  auto* halves = reinterpret_cast<uint16_t*>(workspace);
  auto* products = reinterpret_cast<float*>(workspace + MemoryPool::aligned(most * columns * sizeof(uint16_t)));
  for (size_t first = 0, some; first < weights.outputs; first += some) {
    some = std::min(most, weights.outputs - first);
    unpackHalves(stream, weights, static_cast<uint32_t>(first), static_cast<uint32_t>(some), halves);
    for (const RowRun* run = runs; run != runs + runCount; run++) {
      for (size_t done = 0, rows; done < run->count; done += rows) {
        rows = std::min(kMostRows, run->count - done);
        const HalfRows part = rowsOf(x, run->first + done, rows);
        product(stream, chosen, columns, halves, upTo(kPanelOutputs, some), part.values, upTo(kRowUnit, rows), products,
                most);
        scaleProducts(stream, products, most, part.factors, rows, static_cast<uint32_t>(some),
                      {output.bias == nullptr ? nullptr : output.bias + first,
                       output.values + (run->first + done) * output.stride + first, output.stride, output.adds});
      }
    }
  }
}

}  // namespace spillway::cuda
