// Types of five bits.
#include "quantisedMatmul.h"

namespace spillway::SPILLWAY_ISA {

void multiplyQ5_0(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q5_0>(block, workspace); }
void multiplyQ5_1(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q5_1>(block, workspace); }
void multiplyQ5_K(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q5_K>(block, workspace); }

}  // namespace spillway::SPILLWAY_ISA
