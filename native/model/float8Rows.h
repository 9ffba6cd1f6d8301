// Rows of 8-bit floats, as checkpoints of FP8 have them, into half precision.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../system/File.h"
#include "Weights.h"

namespace spillway {

// An element of F32, F16 or BF16, wherever it lies.
float floatElement(WeightType type, const uint8_t* bytes);

// The value as such an element.
void putFloat(WeightType type, float value, uint8_t* bytes);

// Throws FileError, naming the role, for what is no finite number.
void checkScale(float scale, const File& file, const std::string& label);

// What the byte stands for: E4M3 without infinities, one NaN of either sign (Micikevicius et al., "FP8 Formats for Deep
// Learning", table 1).
float float8ToFloat(uint8_t byte);

// The scales of consecutive rows.
class Float8RowScales {
 public:
  // `binding` has float8, and outlives this.
  explicit Float8RowScales(const WeightBinding& binding);

  // Appends those of `rows` rows of the tensor from `firstRow` on. Throws FileError, naming file and role.
  void read(const std::vector<File>& files, uint64_t firstRow, uint32_t rows);

  // `count` rows of bytes, one after another, of which the first has the scales of row `first` of those read. Each
  // product of byte and scale is rounded once.
  void toHalves(const uint8_t* rows, uint32_t first, uint32_t count, uint16_t* halves) const;
  // The same of one byte, of row `row` of those read.
  uint16_t toHalf(uint8_t byte, uint32_t row, uint32_t column) const;

 private:
  const WeightBinding* binding_;
  uint32_t perRow_;             // scales
  std::vector<float> scales_;   // perRow_ for each row of blocks that was read
  std::vector<uint32_t> rows_;  // where in them each row's begin
};

}  // namespace spillway
