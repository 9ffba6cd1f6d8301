// Memory that is read soon, asked for in time. Included by sources that are compiled for each instruction set (simd.h).
#pragma once
#include <stdint.h>

namespace spillway::SPILLWAY_ISA {

// Asks for a line of memory, for the second-level cache. Asked to bring more lines into the first one than it can note
// down (two dozen), an AMD stands still: decode at 145 tokens, asked for that way, took 288 us a token of SmolLM2 and
// takes 177 so; 8 bits 310 and 198, 4 bits 209 and 160.
static inline void prefetchLine(const uint8_t* line) { __builtin_prefetch(line, 0, 2); }

}  // namespace spillway::SPILLWAY_ISA
