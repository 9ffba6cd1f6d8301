// What the files of the products on AMX declare to each other.
#pragma once
#include "../MatmulKernels.h"
#include "../simd.h"

namespace spillway::SPILLWAY_ISA {

// Rounded activations times the types whose numbers are stored in four bits, or in another number of them. Two sources:
// the compiler's time adds up.
template <bool FourBits>
void multiplyTypesOf(const MatmulBlock& block, uint8_t* workspace);
extern template void multiplyTypesOf<true>(const MatmulBlock& block, uint8_t* workspace);
extern template void multiplyTypesOf<false>(const MatmulBlock& block, uint8_t* workspace);

// The table for AMX: products of float activations are those of `wide`, the table for AVX-512.
const MatmulKernels& matmulKernels(const MatmulKernels& wide);

}  // namespace spillway::SPILLWAY_ISA
