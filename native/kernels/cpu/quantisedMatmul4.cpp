// Types of four bits. (A file a few types: each is a set of register tiles, and the compiler's time adds up.)
#include "quantisedMatmul.h"

namespace spillway::SPILLWAY_ISA {

void multiplyQ4_0(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q4_0>(block, workspace); }
void multiplyQ4_1(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q4_1>(block, workspace); }
void multiplyQ4_G64(const MatmulBlock& block, uint8_t* workspace) {
  multiplyType<WeightType::Q4_G64>(block, workspace);
}
void multiplyQ4_K(const MatmulBlock& block, uint8_t* workspace) { multiplyType<WeightType::Q4_K>(block, workspace); }

}  // namespace spillway::SPILLWAY_ISA
