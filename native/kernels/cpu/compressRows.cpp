#include "compressRows.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "Matmul.h"
#include "floatFormats.h"

namespace spillway {
namespace {

void putHalf(uint16_t half, uint8_t* at) { std::memcpy(at, &half, sizeof half); }

// (value - minimum) / scale to the nearest of 0 to `most`; anything for values that are not finite, whose group's scale is not finite either.
unsigned nearest(float value, float most) { return static_cast<unsigned>(value >= most ? most : value > 0 ? std::nearbyint(value) : 0.0f); }

void compress4(const float* values, uint8_t* block) {
  constexpr size_t kInputs = 64;
  float least = values[0], most = values[0], sum = 0;
  for (size_t i = 0; i < kInputs; i++) {
    least = std::min(least, values[i]);
    most = std::max(most, values[i]);
    sum += values[i] * 0.0f;  // NaN where a value is not finite
  }
  const uint16_t offset = floatToHalf(least + sum);
  const uint16_t scale = floatToHalf((most - halfToFloat(offset)) / 15 + sum);
  putHalf(scale, block);
  putHalf(offset, block + 2);
  const float step = halfToFloat(scale), from = halfToFloat(offset);
  const float inverse = step > 0 && std::isfinite(step) ? 1 / step : 0.0f;
  for (size_t i = 0; i < kInputs / 2; i++) {
    const unsigned low = nearest((values[i] - from) * inverse, 15), high = nearest((values[kInputs / 2 + i] - from) * inverse, 15);
    block[4 + i] = static_cast<uint8_t>(low | (high << 4));
  }
}

void compress8(const float* values, uint8_t* block) {
  constexpr size_t kInputs = 32;
  float largest = 0, sum = 0;
  for (size_t i = 0; i < kInputs; i++) {
    largest = std::max(largest, std::fabs(values[i]));
    sum += values[i] * 0.0f;
  }
  const uint16_t scale = floatToHalf(largest / 127 + sum);
  putHalf(scale, block);
  const float step = halfToFloat(scale);
  const float inverse = step > 0 && std::isfinite(step) ? 1 / step : 0.0f;
  for (size_t i = 0; i < kInputs; i++) {
    const unsigned size = nearest(std::fabs(values[i]) * inverse, 127);
    block[2 + i] = static_cast<uint8_t>(values[i] < 0 ? 0u - size : size);
  }
}

}  // namespace

bool isCompressedType(WeightType type) { return type == WeightType::Q4_G64 || type == WeightType::Q8_0; }

void compressRow(WeightType type, const float* values, size_t inputs, uint8_t* row) {
  const size_t elements = weightBlockElements(type);
  for (size_t k = 0; k < inputs; k += elements, row += weightBlockBytes(type)) {
    if (type == WeightType::Q4_G64) compress4(values + k, row);
    else compress8(values + k, row);
  }
}

void compressRows(WeightType from, const uint8_t* rows, size_t count, size_t inputs, WeightType type, uint8_t* compressed) {
  // By way of a panel, from which every type's values are known as floats.
  const size_t bytes = panelBytes(from, inputs);
  const std::unique_ptr<uint8_t, void (*)(void*)> panel(static_cast<uint8_t*>(std::aligned_alloc(kVectorBytes, bytes)), std::free);
  if (panel == nullptr) throw std::bad_alloc();
  const uint8_t* pointers[kPanelOutputs];
  for (size_t r = 0; r < kPanelOutputs; r++) pointers[r] = r < count ? rows + r * weightRowBytes(from, inputs) : nullptr;
  packPanel(from, inputs, pointers, panel.get());
  const WeightMatrix matrix{from, kPanelOutputs, static_cast<uint32_t>(inputs), panel.get()};
  std::vector<float> values(inputs);
  for (size_t r = 0; r < count; r++) {
    unpackRow(matrix, r, values.data());
    compressRow(type, values.data(), inputs, compressed + r * weightRowBytes(type, inputs));
  }
}

}  // namespace spillway
