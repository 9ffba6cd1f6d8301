// What the files of the products on AMX declare to each other.
#pragma once
#include "../MatmulKernels.h"
#include "../simd.h"

namespace spillway::SPILLWAY_ISA {

void multiplyFourBits(const MatmulBlock& block, uint8_t* workspace);
void multiplyOtherBits(const MatmulBlock& block, uint8_t* workspace);

// The table for AMX: products of float activations are those of `wide`, the table for AVX-512.
const MatmulKernels& matmulKernels(const MatmulKernels& wide);

}  // namespace spillway::SPILLWAY_ISA
