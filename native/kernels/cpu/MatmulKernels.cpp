#include "InstructionSet.h"
#include "matmulIsa.h"

namespace spillway::SPILLWAY_ISA {
namespace {

void multiplyQuantised(const MatmulBlock& block, uint8_t* workspace) {
  multiplyByType(block, workspace, multiplyFloat);
}

}  // namespace

const MatmulKernels& matmulKernels() {
  static const MatmulKernels kernels{QuantisedInput::Groups, SPILLWAY_ISA_LEVEL == 2 ? mostRowsInPlace() : 0,
                                     quantiseRows,           quantiseEvenly,
                                     multiplyQuantised,      multiplyFloat,
                                     multiplyWords};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
