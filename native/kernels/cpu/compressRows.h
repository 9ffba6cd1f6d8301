// Weights of any type turned into one of fewer bits: while a model is packed. Portable.
#pragma once
#include <cstddef>
#include <cstdint>

#include "WeightType.h"

namespace spillway {

// What compressed weights may be stored in.
bool isCompressedType(WeightType type);  // Q4_G64, Q8_0 or Q8_R

// One row of floats as blocks of `type`, one of the above; inputs is a multiple of its block.
//   Q4_G64  group of 64: weight = minimum + q * scale (FlexGen, section 4.3), both rounded to half precision before q
//   is chosen. Scale and minimum are
//           those of least squared error among a dozen that are tried: the group's own minimum and (maximum - minimum)
//           / 15, narrower ranges, and regressions from their codes. A second takes some tens of millions of weights a
//           core.
//   Q8_0    group of 32: weight = q * scale, scale = max |w| / 127
//   Q8_R    the same with the whole row for a group; each block has its scale
// Values beyond the range of half precision, or not finite, make their group's weights infinite or NaN, as they are in
// the file.
void compressRow(WeightType type, const float* values, size_t inputs, uint8_t* row);

// `count` rows (1 to 16) as they stand in a file, one after another, into rows of `type`, one after another.
void compressRows(WeightType from, const uint8_t* rows, size_t count, size_t inputs, WeightType type,
                  uint8_t* compressed);

}  // namespace spillway
