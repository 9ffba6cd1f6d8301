// Attention of prompts over keys and values in 16-bit floats. Compiled for each instruction set.
#pragma once
#include "AttentionKernels.h"

namespace spillway::SPILLWAY_ISA {

// For queries of which each is of a prompt (AttentionBlock::denseBefore), where products need not be exact.
void attendPrompts(const AttentionBlock* blocks, uint32_t count);

}  // namespace spillway::SPILLWAY_ISA
