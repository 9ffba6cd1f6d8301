// Decoding over pages of 8 and 4 bits.
#include "quantisedCacheTile.h"

namespace spillway::cuda {

void attendQuantisedParts(cudaStream_t stream, const PartTask& task, size_t count) {
  task.layout.type == CacheType::Q8 ? attendPartsIn<QuantisedCacheTile<8>>(stream, task, count)
                                    : attendPartsIn<QuantisedCacheTile<4>>(stream, task, count);
}

}  // namespace spillway::cuda
