#include "WeightUnit.h"

#include <algorithm>

#include "../kernels/cpu/compressRows.h"
#include "fileRows.h"
#include "float8Rows.h"

namespace spillway {

namespace {

constexpr size_t kBufferBytes = size_t(1) << 20;
// Where each row of the file is an input's, a unit reads some of all of them: one of few rows would read little at a
// time.
constexpr size_t kTurnedBufferBytes = size_t(16) << 20;

uint32_t rowsPerUnit(const WeightBinding& binding) {
  const bool turned = binding.inputRow != 0 || (binding.packed && binding.packed->order != PackedIntegers::Order::Rows);
  const size_t bytes = turned ? kTurnedBufferBytes : kBufferBytes;
  const size_t panels = bytes / (kPanelOutputs * binding.fileRowBytes());
  return static_cast<uint32_t>(std::max<size_t>(panels, 1) * kPanelOutputs);
}

// Calls take(what of a segment the run is) for each run of rows that the unit is made of, in order.
template <typename Take>
void forRuns(const WeightUnit& unit, Take take) {
  const WeightBinding& binding = *unit.weight->binding;
  uint32_t skip = unit.firstRow;
  uint32_t wanted = unit.rows;
  for (const WeightSegment& segment : binding.segments) {
    if (skip >= segment.rows) {
      skip -= segment.rows;
      continue;
    }
    const uint32_t rows = std::min(wanted, segment.rows - skip);
    take({segment.file, segment.offset + uint64_t(skip) * segment.step * binding.pitchBytes(), rows, segment.step});
    wanted -= rows;
    skip = 0;
    if (wanted == 0) return;
  }
}

// The rows follow each other in the buffer, whatever segments they come from.
void readRows(const WeightUnit& unit, const std::vector<File>& files, uint8_t* buffer) {
  const WeightBinding& binding = *unit.weight->binding;
  forRuns(unit, [&](const WeightSegment& run) {
    readFileRows(binding, run, files, buffer);
    buffer += run.rows * binding.fileRowBytes();
  });
}

// Those of the unit's rows, in order.
Float8RowScales readScales(const WeightUnit& unit, const std::vector<File>& files) {
  const WeightBinding& binding = *unit.weight->binding;
  Float8RowScales scales(binding);
  forRuns(unit, [&](const WeightSegment& run) {
    scales.read(files, (run.offset - binding.float8->tensorOffset) / binding.columns, run.rows);
  });
  return scales;
}

void packRows(const WeightUnit& unit, const std::vector<File>& files, const uint8_t* buffer, uint8_t* panels) {
  const WeightBinding& binding = *unit.weight->binding;
  const WeightType type = binding.storedType();
  const size_t fileRowBytes = binding.fileRowBytes(), rowBytes = weightRowBytes(type, binding.columns);
  const size_t bytes = panelBytes(type, binding.columns);
  std::vector<uint8_t> compressed(binding.compressed ? kPanelOutputs * rowBytes : 0);
  std::optional<Float8RowScales> scales;
  if (binding.float8 && binding.inputRow == 0) scales = readScales(unit, files);
  std::vector<uint16_t> halves(scales ? kPanelOutputs * size_t(binding.columns) : 0);
  for (uint32_t first = 0; first < unit.rows; first += kPanelOutputs, panels += bytes) {
    const uint32_t count = std::min<uint32_t>(kPanelOutputs, unit.rows - first);
    const uint8_t* from = buffer + first * fileRowBytes;
    if (scales) {
      scales->toHalves(from, first, count, halves.data());
      from = reinterpret_cast<const uint8_t*>(halves.data());
    }
    if (binding.compressed) {
      compressRows(binding.type, from, count, binding.columns, type, compressed.data());
      from = compressed.data();
    }
    const uint8_t* rows[kPanelOutputs];
    for (uint32_t r = 0; r < kPanelOutputs; r++) rows[r] = r < count ? from + r * rowBytes : nullptr;
    packPanel(type, binding.columns, rows, panels);
  }
}

void convertVector(const WeightUnit& unit, const uint8_t* buffer, float* vector) {
  const WeightBinding& binding = *unit.weight->binding;
  const size_t bytes = binding.fileRowBytes();
  for (uint32_t i = 0; i < unit.rows; i++) vector[i] = floatElement(binding.type, buffer + i * bytes) + binding.add;
  std::fill(vector + unit.rows, vector + unit.bytes() / sizeof(float), 0.0f);
}

}  // namespace

uint64_t WeightUnit::fileBytes() const { return uint64_t(rows) * weight->binding->fileRowBytes(); }

uint64_t WeightUnit::offset() const {
  const WeightBinding& binding = *weight->binding;
  return weight->offset + (weight->matrix != nullptr
                               ? firstRow / kPanelOutputs * uint64_t(panelBytes(binding.storedType(), binding.columns))
                               : uint64_t(firstRow) * sizeof(float));
}

uint64_t WeightUnit::bytes() const {
  const WeightBinding& binding = *weight->binding;
  return weight->matrix != nullptr ? packedBytes(binding.storedType(), rows, binding.columns)
                                   : Scratch::aligned(rows * sizeof(float));
}

std::vector<WeightUnit> weightUnits(const Weights& weights, size_t first, size_t end) {
  std::vector<WeightUnit> units;
  for (size_t w = first; w < end; w++) {
    const Weights::Placed& weight = weights.placed()[w];
    const uint32_t rows = weight.binding->rows;
    const uint32_t most = rowsPerUnit(*weight.binding);
    for (uint32_t row = 0; row < rows; row += std::min(most, rows - row))
      units.push_back({&weight, row, std::min(most, rows - row)});
  }
  return units;
}

uint64_t mostFileBytes(const std::vector<WeightUnit>& units) {
  uint64_t most = 0;
  for (const WeightUnit& unit : units) most = std::max(most, unit.fileBytes());
  return most;
}

void packUnit(const WeightUnit& unit, const std::vector<File>& files, uint8_t* buffer, uint8_t* place) {
  readRows(unit, files, buffer);
  if (unit.weight->matrix != nullptr)
    packRows(unit, files, buffer, place);
  else
    convertVector(unit, buffer, reinterpret_cast<float*>(place));
}

}  // namespace spillway
