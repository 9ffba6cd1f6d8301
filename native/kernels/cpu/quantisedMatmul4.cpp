// Types of four bits.
#include "quantisedMatmul.h"

namespace spillway::SPILLWAY_ISA {

template void multiplyTypesOf<4>(const MatmulBlock& block, uint8_t* workspace);

}  // namespace spillway::SPILLWAY_ISA
