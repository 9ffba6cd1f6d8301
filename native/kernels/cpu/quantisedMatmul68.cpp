// Types of six and eight bits.
#include "quantisedMatmul.h"

namespace spillway::SPILLWAY_ISA {

template void multiplyTypesOf<6>(const MatmulBlock& block, uint8_t* workspace);
template void multiplyTypesOf<8>(const MatmulBlock& block, uint8_t* workspace);

}  // namespace spillway::SPILLWAY_ISA
