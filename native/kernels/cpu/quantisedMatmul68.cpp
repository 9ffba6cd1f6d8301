// Types of six and eight bits.
#include "quantisedMatmul.h"

namespace spillway::SPILLWAY_ISA {

void multiplyQ6_K(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q6_K>(block, workspace); }
void multiplyQ8_0(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q8_0>(block, workspace); }

}  // namespace spillway::SPILLWAY_ISA
