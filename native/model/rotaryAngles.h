// Angles of rotary position encodings: in float32, as transformers computes them.
#pragma once
#include <cmath>
#include <cstddef>

#include "DecoderSpec.h"

namespace spillway {

// Of every pair of elements at a position, times the table's scale. cosines, sines: as many as the table has
// frequencies. The angle is float32; its cosine is rounded to that from a double's, because C libraries differ in the
// last bit of a float's (glibc, musl, Apple's), and results should not.
inline void rotaryAngles(const RotaryTable& table, uint32_t position, float* cosines, float* sines) {
  for (size_t i = 0; i < table.frequencies.size(); i++) {
    const double angle = static_cast<float>(position) * table.frequencies[i];
    cosines[i] = static_cast<float>(std::cos(angle)) * table.scale;
    sines[i] = static_cast<float>(std::sin(angle)) * table.scale;
  }
}

}  // namespace spillway
