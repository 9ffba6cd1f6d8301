// Decoding over pages of 8 and 4 bits.
#include "quantisedTile.h"

namespace spillway::cuda {

void attendQuantisedParts(cudaStream_t stream, const PartTask& task, size_t count) {
  task.layout.type == CacheType::Q8 ? attendPartsIn<QuantisedTile<8>>(stream, task, count)
                                    : attendPartsIn<QuantisedTile<4>>(stream, task, count);
}

}  // namespace spillway::cuda
