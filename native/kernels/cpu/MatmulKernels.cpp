#include "InstructionSet.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {
namespace {

void roundRows(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* to) {
  quantiseRows(values, stride, rows, columns, reinterpret_cast<QuantisedTile*>(to));
}

void multiplyQuantised(const MatmulBlock& block, uint8_t* workspace) {
  switch (block.type) {
    case WeightType::Q4_0: return multiplyQ4_0(block, workspace);
    case WeightType::Q4_1: return multiplyQ4_1(block, workspace);
    case WeightType::Q4_G64: return multiplyQ4_G64(block, workspace);
    case WeightType::Q5_0: return multiplyQ5_0(block, workspace);
    case WeightType::Q5_1: return multiplyQ5_1(block, workspace);
    case WeightType::Q8_0: return multiplyQ8_0(block, workspace);
    case WeightType::Q2_K: return multiplyQ2_K(block, workspace);
    case WeightType::Q3_K: return multiplyQ3_K(block, workspace);
    case WeightType::Q4_K: return multiplyQ4_K(block, workspace);
    case WeightType::Q5_K: return multiplyQ5_K(block, workspace);
    case WeightType::Q6_K: return multiplyQ6_K(block, workspace);
    default: return multiplyFloat(block, workspace);  // float types have no 8-bit product
  }
}

}  // namespace

const MatmulKernels& matmulKernels() {
  static const MatmulKernels kernels{RoundedInput::Groups, SPILLWAY_ISA_LEVEL == 2 && shiftsAreFree(), roundRows,
                                     multiplyQuantised, multiplyFloat};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
