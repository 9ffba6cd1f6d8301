// Attention over keys and values of 8 and 4 bits (CacheLayout.h). Compiled for each instruction set.
#pragma once
#include "AttentionKernels.h"

namespace spillway::SPILLWAY_ISA {

void attendQuantised(const AttentionBlock* blocks, uint32_t count);
void storeQuantised(const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys, const float* values);

}  // namespace spillway::SPILLWAY_ISA
