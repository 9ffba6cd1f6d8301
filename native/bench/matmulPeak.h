// What the arithmetic units give when nothing else is in the way: products per second of a loop over registers.
#pragma once
#include "../kernels/cpu/InstructionSet.h"

namespace spillway::bench {

// Operations (a multiplication and an addition are two) per second on `threads` threads; 0 where there is no such loop.
// The best of `rounds` of a few milliseconds each; one round, in turns with what is measured, is the peak at that
// moment on a machine with neighbours. Products of rounded activations with weights. AVX-512 and AVX-VNNI: vpdpbusd.
// AVX2: vpmaddubsw with 16-bit sums, widened once per eight; for weights of over 6 bits each product is widened. AMX:
// tdpbf16ps; these are products of floats of 16 bits, and the only ones here that are not of 8-bit integers.
double peakQuantised(InstructionSet set, unsigned threads, int weightBits = 4, int rounds = 25);
double peakFloat(InstructionSet set, unsigned threads, int rounds = 25);  // fused multiply-add

}  // namespace spillway::bench
