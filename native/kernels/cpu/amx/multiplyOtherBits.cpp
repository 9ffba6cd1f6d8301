#include "matmulAmx.h"
#include "multiplyTiles.h"

namespace spillway::SPILLWAY_ISA {

void multiplyOtherBits(const MatmulBlock& block, uint8_t* workspace) {
  switch (block.type) {
    case WeightType::Q2_K: return multiplyBlock<TileUnpacker<WeightType::Q2_K>>(block, workspace);
    case WeightType::Q3_K: return multiplyBlock<TileUnpacker<WeightType::Q3_K>>(block, workspace);
    case WeightType::Q5_0: return multiplyBlock<TileUnpacker<WeightType::Q5_0>>(block, workspace);
    case WeightType::Q5_1: return multiplyBlock<TileUnpacker<WeightType::Q5_1>>(block, workspace);
    case WeightType::Q5_K: return multiplyBlock<TileUnpacker<WeightType::Q5_K>>(block, workspace);
    case WeightType::Q6_K: return multiplyBlock<TileUnpacker<WeightType::Q6_K>>(block, workspace);
    default: return multiplyBlock<TileUnpacker<WeightType::Q8_0>>(block, workspace);
  }
}

}  // namespace spillway::SPILLWAY_ISA
