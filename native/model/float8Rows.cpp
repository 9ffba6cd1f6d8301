#include "float8Rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "../kernels/cpu/floatFormats.h"
#include "../system/Error.h"

namespace spillway {

namespace {

std::array<float, 256> table() {
  std::array<float, 256> values{};
  for (unsigned byte = 0; byte < 256; byte++) {
    const unsigned exponent = byte >> 3 & 15u, mantissa = byte & 7u;
    const float magnitude = (byte & 0x7fu) == 0x7fu ? std::numeric_limits<float>::quiet_NaN()
                            : exponent == 0
                                ? std::ldexp(static_cast<float>(mantissa), -9)
                                : std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
    values[byte] = (byte & 0x80u) != 0 ? -magnitude : magnitude;
  }
  return values;
}

const std::array<float, 256>& values() {
  static const std::array<float, 256> kValues = table();
  return kValues;
}

// Rounded to the nearest, even ones among equals.
uint16_t floatToBfloat16(float value) {
  const uint32_t bits = bitsOfFloat(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace

float floatElement(WeightType type, const uint8_t* bytes) {
  if (type == WeightType::F32) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint16_t half;
  std::memcpy(&half, bytes, sizeof(half));
  return type == WeightType::F16 ? halfToFloat(half) : bfloat16ToFloat(half);
}

void putFloat(WeightType type, float value, uint8_t* bytes) {
  if (type == WeightType::F32) {
    std::memcpy(bytes, &value, sizeof(value));
    return;
  }
  const uint16_t half = type == WeightType::F16 ? floatToHalf(value) : floatToBfloat16(value);
  std::memcpy(bytes, &half, sizeof(half));
}

void checkScale(float scale, const File& file, const std::string& label) {
  if (!std::isfinite(scale))
    throw FileError(file.path(), label, "a scale of " + std::to_string(scale), "a finite number");
}

float float8ToFloat(uint8_t byte) { return values()[byte]; }

Float8RowScales::Float8RowScales(const WeightBinding& binding)
    : binding_(&binding), perRow_((binding.scaledColumns() - 1) / binding.float8->blockColumns + 1) {}

void Float8RowScales::read(const std::vector<File>& files, uint64_t firstRow, uint32_t rows) {
  const Float8Scales& scales = *binding_->float8;
  const size_t scaleBytes = weightRowBytes(scales.type, 1);
  const uint64_t firstBlock = firstRow / scales.blockRows, lastBlock = (firstRow + rows - 1) / scales.blockRows;
  const size_t there = scales_.size();
  std::vector<uint8_t> bytes((lastBlock - firstBlock + 1) * perRow_ * scaleBytes);
  files[scales.file].read(scales.offset + firstBlock * perRow_ * scaleBytes, bytes.data(), bytes.size(),
                          weightLabel(*binding_));
  for (size_t at = 0; at < bytes.size(); at += scaleBytes) {
    scales_.push_back(floatElement(scales.type, &bytes[at]));
    checkScale(scales_.back(), files[scales.file], weightLabel(*binding_));
  }
  for (uint32_t row = 0; row < rows; row++) {
    const uint64_t block = (firstRow + row) / scales.blockRows - firstBlock;
    rows_.push_back(static_cast<uint32_t>(there + block * perRow_));
  }
}

void Float8RowScales::toHalves(const uint8_t* rows, uint32_t first, uint32_t count, uint16_t* halves) const {
  const std::array<float, 256>& value = values();
  const uint32_t columns = binding_->columns, blockColumns = binding_->float8->blockColumns;
  for (uint32_t row = first; row < first + count; row++) {
    const float* scale = &scales_[rows_[row]];
    for (uint32_t begin = 0; begin < columns; begin += std::min(blockColumns, columns - begin), scale++) {
      const uint32_t end = begin + std::min(blockColumns, columns - begin);
      for (uint32_t column = begin; column < end; column++) *halves++ = floatToHalf(value[*rows++] * *scale);
    }
  }
}

uint16_t Float8RowScales::toHalf(uint8_t byte, uint32_t row, uint32_t column) const {
  return floatToHalf(values()[byte] * scales_[rows_[row] + column / binding_->float8->blockColumns]);
}

}  // namespace spillway
