#include "matmulAmx.h"
#include "multiplyTiles.h"

namespace spillway::SPILLWAY_ISA {

void multiplyFourBits(const MatmulBlock& block, uint8_t* workspace) {
  switch (block.type) {
    case WeightType::Q4_0: return multiplyBlock<TileUnpacker<WeightType::Q4_0>>(block, workspace);
    case WeightType::Q4_1: return multiplyBlock<TileUnpacker<WeightType::Q4_1>>(block, workspace);
    case WeightType::Q4_G64: return multiplyBlock<TileUnpacker<WeightType::Q4_G64>>(block, workspace);
    default: return multiplyBlock<TileUnpacker<WeightType::Q4_K>>(block, workspace);
  }
}

}  // namespace spillway::SPILLWAY_ISA
