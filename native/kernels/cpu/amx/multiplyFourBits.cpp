#include "multiplyTiles.h"

namespace spillway::SPILLWAY_ISA {

template void multiplyTypesOf<true>(const MatmulBlock& block, uint8_t* workspace);

}  // namespace spillway::SPILLWAY_ISA
