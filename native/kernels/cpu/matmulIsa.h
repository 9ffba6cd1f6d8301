// What the files of the matrix product that are compiled for each instruction set declare to each other.
#pragma once
#include "MatmulKernels.h"

namespace spillway::SPILLWAY_ISA {

void quantiseRows(const float* values, size_t stride, size_t rows, size_t columns, QuantisedTile* tiles);
void multiplyFloat(const MatmulBlock& block, uint8_t* workspace);

void multiplyQ4_0(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ4_1(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ4_G64(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ5_0(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ5_1(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ8_0(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ2_K(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ3_K(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ4_K(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ5_K(const MatmulBlock& block, uint8_t* workspace);
void multiplyQ6_K(const MatmulBlock& block, uint8_t* workspace);

}  // namespace spillway::SPILLWAY_ISA
