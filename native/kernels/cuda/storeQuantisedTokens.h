// storeTokens() for pages of 8 and 4 bits.
#pragma once
#include "Attention.h"

namespace spillway::cuda {

void storeQuantisedTokens(cudaStream_t stream, const CacheLayout& layout, const AttentionToken* tokens, size_t count,
                          const float* keys, const float* values, size_t stride);

}  // namespace spillway::cuda
