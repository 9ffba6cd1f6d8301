// The CUDA kernels that memory bandwidth bounds, on a real device: seconds, bytes that must move, and their share of
// the bandwidth that a copy within the device's memory reaches; and products of prompts, by the own kernels and by
// cuBLASLt, beside what cuBLASLt reaches with halves that are ready. Prints JSON.  cudaKernels [repetitions=20] Buffers
// are larger than the second-level cache taken together, so that what is read comes from memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../kernels/cuda/Attention.h"
#include "../kernels/cuda/CublasLtProducts.h"
#include "../kernels/cuda/Devices.h"
#include "../kernels/cuda/Matmul.h"
#include "../kernels/cuda/MemoryPool.h"
#include "../kernels/cpu/Matmul.h"
#include "cublasLtPeak.h"

namespace {
using namespace spillway;
using namespace spillway::cuda;

int repetitions = 20;

// Bytes that are neither NaN nor infinite as halves or floats, so that no kernel takes a short cut.
template <typename T>
T* filled(MemoryPool& pool, cudaStream_t stream, size_t count) {
  const MemoryPool::Block block = pool.take(count * sizeof(T), stream, "a benchmark's buffer");
  check(cudaMemsetAsync(block.data, 0x25, block.bytes, stream), "cudaMemsetAsync");
  return reinterpret_cast<T*>(block.data);
}

// Runs that are measured together: one by itself would end before the host has said that it ended.
constexpr int kTogether = 10;

// The median over repetitions, after three that do not count. run(i): the i-th time.
double secondsOf(cudaStream_t stream, const std::function<void(int)>& run) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  std::vector<double> times;
  for (int i = 0; i < repetitions + 3; i++) {
    check(cudaEventRecord(begin, stream), "cudaEventRecord");
    for (int k = 0; k < kTogether; k++) run(i * kTogether + k);
    check(cudaEventRecord(end, stream), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i >= 3) times.push_back(milliseconds / 1e3 / kTogether);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double copyBandwidth = 0;
bool first = true;

void report(const std::string& name, double seconds, double bytes) {
  std::printf(
      "%s\n    {\"name\": \"%s\", \"seconds\": %.9f, \"bytes\": %.0f, \"bytesPerSecond\": %.4g, \"shareOfBandwidth\": "
      "%.4f}",
      first ? "" : ",", name.c_str(), seconds, bytes, bytes / seconds, bytes / seconds / copyBandwidth);
  first = false;
}

// blocks: of that kind, instead of those that multiply() takes.
void measureProducts(cudaStream_t stream, MemoryPool& pool, WeightType type, size_t rows,
                     std::optional<ProductBlocks> blocks = {}) {
  constexpr uint32_t kOutputs = 4096, kInputs = 4096;
  const size_t bytes = packedBytes(type, kOutputs, kInputs), copies = std::max<size_t>(2, (size_t{256} << 20) / bytes);
  uint8_t* panels = filled<uint8_t>(pool, stream, bytes * copies);
  const HalfRows x = {filled<uint16_t>(pool, stream, rows * kInputs), filled<float>(pool, stream, rows), rows, kInputs};
  float* output = filled<float>(pool, stream, rows * kOutputs);
  const double seconds = secondsOf(stream, [&](int i) {
    multiply(stream, {type, kOutputs, kInputs, panels + static_cast<size_t>(i) % copies * bytes}, x,
             {nullptr, output, kOutputs}, blocks.value_or(blocksFor(rows, kOutputs)));
  });
  const std::string what = blocks ? std::string("blocks (") + nameOf(*blocks) + ") " : "multiply ";
  report(what + weightTypeName(type) + " 4096x4096, rows " + std::to_string(rows), seconds,
         static_cast<double>(bytes + rows * (2 * kInputs + 4 * kOutputs)));
}

// Operations a second; the own kernel's and cuBLASLt's with all that they do to weights, the peak without.
struct PrefillProduct {
  std::string name;
  double own = 0, cublasLt = 0, peak = 0;  // 0: not measured
};

PrefillProduct measurePrefill(cudaStream_t stream, MemoryPool& pool, CublasLtProducts* products,
                              const std::shared_ptr<const CublasLt>& library, WeightType type, uint32_t outputs,
                              uint32_t inputs, size_t rows) {
  const double operations = 2.0 * outputs * inputs * static_cast<double>(rows);
  PrefillProduct result;
  result.name = std::string("prefill product ") + weightTypeName(type) + " " + std::to_string(outputs) + "x" +
                std::to_string(inputs) + ", rows " + std::to_string(rows);
  const DeviceMatrix matrix = {type, outputs, inputs,
                               filled<uint8_t>(pool, stream, packedBytes(type, outputs, inputs))};
  const HalfRows x = {filled<uint16_t>(pool, stream, (rows + CublasLtProducts::kRowUnit - 1) * inputs),
                      filled<float>(pool, stream, rows), rows, inputs};
  float* output = filled<float>(pool, stream, rows * outputs);
  result.own = operations / secondsOf(stream, [&](int) { multiply(stream, matrix, x, {nullptr, output, outputs}); });
  if (products != nullptr &&
      products->prepare(stream, outputs, inputs,
                        filled<uint8_t>(pool, stream, CublasLtProducts::tryBytes(outputs, inputs)))) {
    uint8_t* workspace = filled<uint8_t>(pool, stream, CublasLtProducts::workspaceBytes(outputs, inputs, rows));
    const RowRun all = {0, rows};
    result.cublasLt = operations / secondsOf(stream, [&](int) {
                        products->multiply(stream, outputs, matrix, x, &all, 1, {nullptr, output, outputs}, workspace);
                      });
  }
  if (library != nullptr) {
    const CublasLtPeak peak(library, outputs, inputs, rows,
                            filled<uint8_t>(pool, stream, CublasLtPeak::kWorkspaceBytes));
    const uint16_t* halves = filled<uint16_t>(pool, stream, size_t{outputs} * inputs);
    result.peak = operations / secondsOf(stream, [&](int) { peak.run(stream, halves, x.values, output); });
  }
  return result;
}

void print(const PrefillProduct& product, bool isFirst) {
  const auto number = [](double value) {
    char text[40] = "null";
    if (value > 0) std::snprintf(text, sizeof text, "%.4g", value);
    return std::string(text);
  };
  std::printf(
      "%s\n    {\"name\": \"%s\", \"ownOperationsPerSecond\": %s, \"cublasLtOperationsPerSecond\": %s, "
      "\"cublasLtPeakOperationsPerSecond\": %s, \"ownShareOfPeak\": %s, "
      "\"cublasLtShareOfPeak\": %s}",
      isFirst ? "" : ",", product.name.c_str(), number(product.own).c_str(), number(product.cublasLt).c_str(),
      number(product.peak).c_str(), number(product.peak > 0 ? product.own / product.peak : 0).c_str(),
      number(product.peak > 0 ? product.cublasLt / product.peak : 0).c_str());
}

// A library that refuses is left out, with the reason: the other figures are printed all the same.
void measurePrefills(cudaStream_t stream) {
  std::string whyNot;
  std::shared_ptr<const CublasLt> library = CublasLt::open(whyNot);
  std::unique_ptr<CublasLtProducts> products = library == nullptr ? nullptr : CublasLtProducts::open(whyNot);
  std::vector<PrefillProduct> found;
  for (const WeightType type : {WeightType::Q4_0, WeightType::Q8_0, WeightType::F16})
    for (const auto& [outputs, inputs] :
         {std::pair<uint32_t, uint32_t>{11008, 4096}, std::pair<uint32_t, uint32_t>{4096, 11008}})
      for (const size_t rows : {256, 512, 2048}) {
        const auto measure = [&, outputs = outputs, inputs = inputs] {
          MemoryPool pool(MemoryKind::Device, size_t{1} << 30);
          found.push_back(measurePrefill(stream, pool, products.get(), library, type, outputs, inputs, rows));
        };
        try {
          measure();
        } catch (const RefusedByCublasLt& refused) {
          whyNot = refused.what();
          library = nullptr;
          products = nullptr;
          measure();
        }
      }
  std::string quoted;
  for (const char letter : library == nullptr ? whyNot : library->path)
    quoted += letter == '"' || letter == '\\' || static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
  std::printf(",\n  \"cublasLt\": \"%s\",\n  \"prefillProducts\": [", quoted.c_str());
  for (size_t i = 0; i < found.size(); i++) print(found[i], i == 0);
  std::printf("\n  ]");
}

void measureDecoding(cudaStream_t stream, MemoryPool& pool, uint32_t heads, uint32_t kvHeads, uint32_t headDim,
                     uint32_t rows, uint32_t context) {
  const CacheLayout layout = {CacheType::F16, kvHeads, headDim, 64};
  const size_t pageBytes = cachePageBytes(layout), pagesPerRow = (context + 63) / 64;
  uint8_t* memory = filled<uint8_t>(pool, stream, rows * pagesPerRow * pageBytes);
  std::vector<const uint8_t*> table;
  for (size_t i = 0; i < rows * pagesPerRow; i++) table.push_back(memory + i * pageBytes);
  const uint8_t** pages = filled<const uint8_t*>(pool, stream, table.size());
  AttentionToken* tokens = filled<AttentionToken>(pool, stream, rows);
  std::vector<AttentionToken> list;
  for (uint32_t row = 0; row < rows; row++) list.push_back({pages + row * pagesPerRow, context - 1});
  check(cudaMemcpyAsync(pages, table.data(), table.size() * sizeof(table[0]), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  check(cudaMemcpyAsync(tokens, list.data(), list.size() * sizeof(list[0]), cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const size_t width = size_t{heads} * headDim;
  float* queries = filled<float>(pool, stream, rows * width);
  float* outputs = filled<float>(pool, stream, rows * width);
  const uint32_t parts = attentionParts(context - 1);
  const AttentionPartials partials = {filled<AttentionPartial>(pool, stream, size_t{rows} * heads * parts),
                                      filled<float>(pool, stream, rows * width * parts), parts};
  const AttentionShape shape = {heads, 0.1f, 0, nullptr, false};
  const double seconds = secondsOf(stream, [&](int) {
    decodeAttention(stream, layout, shape, tokens, rows, queries, width, outputs, width, partials);
  });
  report("decode attention, heads " + std::to_string(heads) + "/" + std::to_string(kvHeads) + " of " +
             std::to_string(headDim) + ", rows " + std::to_string(rows) + ", context " + std::to_string(context),
         seconds, 2.0 * rows * kvHeads * headDim * context * 2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) repetitions = std::max(1, std::atoi(argv[1]));
  try {
    const std::vector<Gpu> gpus = listGpus();
    if (gpus.empty()) {
      std::fprintf(stderr, "no GPU\n");
      return 1;
    }
    const Stream stream;
    constexpr size_t kCopyBytes = size_t{512} << 20;
    {
      MemoryPool pool(MemoryKind::Device, 2 * kCopyBytes);
      uint8_t* from = filled<uint8_t>(pool, stream.get(), kCopyBytes);
      uint8_t* to = filled<uint8_t>(pool, stream.get(), kCopyBytes);
      const double seconds = secondsOf(stream.get(), [&](int) {
        check(cudaMemcpyAsync(to, from, kCopyBytes, cudaMemcpyDeviceToDevice, stream.get()), "cudaMemcpyAsync");
      });
      copyBandwidth = 2.0 * kCopyBytes / seconds;  // read and written
    }
    std::printf(
        "{\n  \"device\": \"%s\",\n  \"computeCapability\": \"%d.%d\",\n  \"memoryBytes\": %llu,\n  "
        "\"copyBytesPerSecond\": %.4g,\n  \"results\": [",
        gpus[0].name.c_str(), gpus[0].major, gpus[0].minor, static_cast<unsigned long long>(gpus[0].memoryBytes),
        copyBandwidth);
    for (const WeightType type :
         {WeightType::Q4_0, WeightType::Q4_1, WeightType::Q8_0, WeightType::Q4_K, WeightType::F16})
      for (const size_t rows : {1, 16, 64, 128}) {
        MemoryPool pool(MemoryKind::Device, size_t{512} << 20);
        measureProducts(stream.get(), pool, type, rows);
      }
    // What blocksFor() goes by.
    for (const ProductBlocks blocks : kProductBlocks)
      for (const size_t rows : {64, 256, 512, 2048}) {
        if (!areThere(blocks) || (blocks == ProductBlocks::Rows16 && rows > 64)) continue;
        MemoryPool pool(MemoryKind::Device, size_t{512} << 20);
        measureProducts(stream.get(), pool, WeightType::F16, rows, blocks);
      }
    struct Shape {
      uint32_t heads, kvHeads, headDim;
    };
    for (const Shape& shape : {Shape{32, 32, 128}, Shape{32, 8, 128}, Shape{64, 8, 128}, Shape{9, 3, 64}}) {
      MemoryPool pool(MemoryKind::Device, size_t{4} << 30);
      measureDecoding(stream.get(), pool, shape.heads, shape.kvHeads, shape.headDim, 64, 1024);
    }
    std::printf("\n  ]");
    measurePrefills(stream.get());
    std::printf("\n}\n");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
