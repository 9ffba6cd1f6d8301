// What an algorithm of cuBLASLt has to show before it is used.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "../cpu/floatFormats.h"
#include "../cpu/panelLayout.h"
#include "CublasLtProducts.h"
#include "MemoryPool.h"

namespace spillway::cuda {
namespace {

constexpr size_t kMostOutputs = 64;
constexpr size_t kAlone = CublasLtProducts::kRowUnit;  // rows, the last ones, that are multiplied by themselves
constexpr size_t kRows = 256 + kAlone;                 // more than a tile has
constexpr double kMostError = 1e-4;                    // of Σ |w x|: sums in float, of up to some ten thousand numbers

// Halves between 0.5 and 2, of both signs, so that sums in another order are other sums.
std::vector<uint16_t> someHalves(size_t count, uint32_t state) {
  std::vector<uint16_t> halves(count);
  for (uint16_t& half : halves) {
    state = state * 1664525u + 1013904223u;
    half = static_cast<uint16_t>(0x3800u + (state >> 20 & 0x7ffu) + (state >> 16 & 0x8000u));
  }
  return halves;
}

struct Sizes {
  Sizes(uint32_t outputs, uint32_t inputs)
      : outputs(std::min<size_t>(CublasLtProducts::outputsAtATime(outputs, inputs), kMostOutputs)),
        columns(halfColumns(inputs)) {}
  size_t weights() const { return MemoryPool::aligned(outputs * columns * sizeof(uint16_t)); }
  size_t x() const { return MemoryPool::aligned(kRows * columns * sizeof(uint16_t)); }
  size_t many() const { return MemoryPool::aligned(kRows * outputs * sizeof(float)); }
  size_t alone() const { return MemoryPool::aligned(kAlone * outputs * sizeof(float)); }
  size_t outputs, columns;
};

template <typename T>
void copy(cudaStream_t stream, T* to, const T* from, size_t count, cudaMemcpyKind kind) {
  check(cudaMemcpyAsync(to, from, count * sizeof(T), kind, stream), "cudaMemcpyAsync");
}

}  // namespace

size_t CublasLtProducts::tryBytes(uint32_t outputs, uint32_t inputs) {
  const Sizes sizes(outputs, inputs);
  return sizes.weights() + sizes.x() + sizes.many() + sizes.alone();
}

bool CublasLtProducts::keepsBits(cudaStream_t stream, const cublaslt::Algorithm& algorithm, uint32_t outputs,
                                 uint32_t inputs, uint8_t* memory) const {
  const Sizes sizes(outputs, inputs);
  const std::vector<uint16_t> weights = someHalves(sizes.outputs * sizes.columns, 1),
                              x = someHalves(kRows * sizes.columns, 2);
  auto* weightsThere = reinterpret_cast<uint16_t*>(memory);
  auto* xThere = reinterpret_cast<uint16_t*>(memory + sizes.weights());
  auto* many = reinterpret_cast<float*>(memory + sizes.weights() + sizes.x());
  auto* alone = reinterpret_cast<float*>(memory + sizes.weights() + sizes.x() + sizes.many());
  copy(stream, weightsThere, weights.data(), weights.size(), cudaMemcpyHostToDevice);
  copy(stream, xThere, x.data(), x.size(), cudaMemcpyHostToDevice);
  // The last rows among all of them, and by themselves: then for as many outputs as a panel has, too.
  const size_t first = kRows - kAlone;
  std::vector<float> among(kAlone * sizes.outputs), found(kAlone * sizes.outputs), few(kAlone * kPanelOutputs);
  try {
    product(stream, algorithm, sizes.columns, weightsThere, sizes.outputs, xThere, kRows, many, sizes.outputs);
    copy(stream, among.data(), many + first * sizes.outputs, among.size(), cudaMemcpyDeviceToHost);
    product(stream, algorithm, sizes.columns, weightsThere, sizes.outputs, xThere + first * sizes.columns, kAlone,
            alone, sizes.outputs);
    copy(stream, found.data(), alone, found.size(), cudaMemcpyDeviceToHost);
    product(stream, algorithm, sizes.columns, weightsThere, kPanelOutputs, xThere + first * sizes.columns, kAlone,
            alone, kPanelOutputs);
    copy(stream, few.data(), alone, few.size(), cudaMemcpyDeviceToHost);
  } catch (const RefusedByCublasLt&) {
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return false;
  }
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  if (std::memcmp(among.data(), found.data(), found.size() * sizeof(float)) != 0) return false;
  for (size_t row = 0; row < kAlone; row++) {
    if (std::memcmp(&few[row * kPanelOutputs], &found[row * sizes.outputs], kPanelOutputs * sizeof(float)) != 0)
      return false;
    for (size_t output = 0; output < kPanelOutputs; output++) {
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < sizes.columns; k++) {
        const double term = static_cast<double>(halfToFloat(weights[output * sizes.columns + k])) *
                            halfToFloat(x[(first + row) * sizes.columns + k]);
        sum += term;
        magnitude += std::fabs(term);
      }
      if (!(std::fabs(found[row * sizes.outputs + output] - sum) <= kMostError * magnitude)) return false;
    }
  }
  return true;
}

}  // namespace spillway::cuda
