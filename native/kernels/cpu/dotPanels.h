// Products of rows with panels of 16 rows, for scores' biases. Compiled for each instruction set.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "simd.h"

namespace spillway::SPILLWAY_ISA {

void dotPanels(const float* rows, size_t count, size_t rowStride, const float* panels, size_t panelCount, size_t depth,
               float* outputs, size_t outputStride);

}  // namespace spillway::SPILLWAY_ISA
