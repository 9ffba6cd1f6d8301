// Types of two and three bits.
#include "quantisedMatmul.h"

namespace spillway::SPILLWAY_ISA {

template void multiplyTypesOf<2>(const MatmulBlock& block, uint8_t* workspace);
template void multiplyTypesOf<3>(const MatmulBlock& block, uint8_t* workspace);

}  // namespace spillway::SPILLWAY_ISA
