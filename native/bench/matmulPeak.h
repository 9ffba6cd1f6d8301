// What the arithmetic units give when nothing else is in the way: products per second of a loop over registers.
#pragma once
#include "../kernels/cpu/InstructionSet.h"

namespace spillway::bench {

// Operations (a multiplication and an addition are two) per second on `threads` threads, best of several; 0 where there is no such loop.
double peakInt8(InstructionSet set, unsigned threads);   // AVX-512: vpdpbusd; AVX2: vpmaddubsw with 16-bit sums, widened once per eight
double peakFloat(InstructionSet set, unsigned threads);  // fused multiply-add

}  // namespace spillway::bench
