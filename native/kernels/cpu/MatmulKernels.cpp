#include "InstructionSet.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {
namespace {

void multiplyQuantised(const MatmulBlock& block, uint8_t* workspace) {
  withWeightType(block.type, [&](auto type) {
    constexpr WeightType T = decltype(type)::value;
    if constexpr (isQuantised(T))
      multiplyTypesOf<panelFormat(T).bits>(block, workspace);
    else
      multiplyFloat(block, workspace);  // float types have no 8-bit product
  });
}

}  // namespace

const MatmulKernels& matmulKernels() {
  static const MatmulKernels kernels{QuantisedInput::Groups, SPILLWAY_ISA_LEVEL == 2 && shiftsAreFree(), quantiseRows,
                                     multiplyQuantised, multiplyFloat};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
