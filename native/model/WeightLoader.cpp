#include "WeightLoader.h"

#include <algorithm>
#include <cstring>

#include "../kernels/cpu/floatFormats.h"
#include "../runtime/Arena.h"
#include "../runtime/Error.h"

namespace spillway {

namespace {

constexpr size_t kBufferBytes = size_t(1) << 20;

// Consecutive rows of one weight, as many as one thread reads and packs at a time.
struct Unit {
  const Weights::Placed* weight;
  uint32_t firstRow;
  uint32_t rows;
};

size_t rowBytesOf(const WeightBinding& binding) { return weightRowBytes(binding.type, binding.columns); }

uint32_t rowsPerUnit(const WeightBinding& binding) {
  const size_t panels = kBufferBytes / (kPanelOutputs * rowBytesOf(binding));
  return static_cast<uint32_t>(std::max<size_t>(panels, 1) * kPanelOutputs);
}

// The rows follow each other in the buffer, whatever segments they come from.
void readRows(const Unit& unit, const std::vector<File>& files, uint8_t* buffer) {
  const WeightBinding& binding = *unit.weight->binding;
  const size_t rowBytes = rowBytesOf(binding);
  uint32_t skip = unit.firstRow;
  uint32_t wanted = unit.rows;
  for (const WeightSegment& segment : binding.segments) {
    if (skip >= segment.rows) {
      skip -= segment.rows;
      continue;
    }
    const uint32_t rows = std::min(wanted, segment.rows - skip);
    files[segment.file].read(segment.offset + uint64_t(skip) * rowBytes, buffer, rows * rowBytes, weightLabel(binding));
    buffer += rows * rowBytes;
    wanted -= rows;
    skip = 0;
    if (wanted == 0) return;
  }
}

void packRows(const Unit& unit, const uint8_t* buffer, uint8_t* matrix) {
  const WeightBinding& binding = *unit.weight->binding;
  const size_t rowBytes = rowBytesOf(binding);
  const size_t bytes = panelBytes(binding.type, binding.columns);
  for (uint32_t first = 0; first < unit.rows; first += kPanelOutputs) {
    const uint8_t* rows[kPanelOutputs];
    for (uint32_t r = 0; r < kPanelOutputs; r++) rows[r] = first + r < unit.rows ? buffer + (first + r) * rowBytes : nullptr;
    packPanel(binding.type, binding.columns, rows, matrix + (unit.firstRow + first) / kPanelOutputs * bytes);
  }
}

void convertVector(const Unit& unit, const uint8_t* buffer, float* vector) {
  const WeightBinding& binding = *unit.weight->binding;
  for (uint32_t i = 0; i < unit.rows; i++) {
    float value;
    if (binding.type == WeightType::F32) {
      std::memcpy(&value, buffer + i * sizeof(float), sizeof(float));
    } else {
      uint16_t half;
      std::memcpy(&half, buffer + i * sizeof(half), sizeof(half));
      value = binding.type == WeightType::F16 ? halfToFloat(half) : bfloat16ToFloat(half);
    }
    vector[unit.firstRow + i] = value + binding.add;
  }
}

}  // namespace

void loadWeights(const Weights& weights, const std::vector<File>& files, ThreadPool& pool, LoadProgress& progress) {
  std::vector<Unit> units;
  size_t bufferBytes = 0;
  for (const Weights::Placed& weight : weights.placed()) {
    const WeightBinding& binding = *weight.binding;
    const uint32_t most = rowsPerUnit(binding);
    bufferBytes = std::max(bufferBytes, std::min(most, binding.rows) * rowBytesOf(binding));
    for (uint32_t first = 0; first < binding.rows; first += std::min(most, binding.rows - first)) {
      units.push_back({&weight, first, std::min(most, binding.rows - first)});
    }
  }
  const size_t stride = Scratch::aligned(bufferBytes);
  const Arena buffers(stride * pool.threads(), "reading the weights");

  pool.parallelFor(units.size(), [&](size_t index, unsigned worker) {
    if (progress.stopped.load(std::memory_order_relaxed)) throw Error(ErrorCode::Cancelled, "loading was cancelled");
    const Unit& unit = units[index];
    uint8_t* buffer = buffers.data() + worker * stride;
    uint8_t* place = weights.block() + unit.weight->offset;
    readRows(unit, files, buffer);
    if (unit.weight->matrix != nullptr) packRows(unit, buffer, place);
    else convertVector(unit, buffer, reinterpret_cast<float*>(place));
    progress.bytes.fetch_add(unit.rows * rowBytesOf(*unit.weight->binding));
    if (progress.changed) progress.changed();
  });
}

}  // namespace spillway
