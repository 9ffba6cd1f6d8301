// Types of two and three bits.
#include "quantisedMatmul.h"

namespace spillway::SPILLWAY_ISA {

void multiplyQ2_K(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q2_K>(block, workspace); }
void multiplyQ3_K(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q3_K>(block, workspace); }

}  // namespace spillway::SPILLWAY_ISA
