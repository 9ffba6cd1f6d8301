// vpdpbusd on 256 bits. Included by sources that are compiled for AVX-VNNI.
#pragma once
#include "simd.h"

namespace spillway::SPILLWAY_ISA {

// Adds to each lane of 32 bits the products of four unsigned with four signed bytes.
static inline __m256i dpbusd(__m256i sum, __m256i unsignedBytes, __m256i signedBytes) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(sum, unsignedBytes, signedBytes);
#else  // The same instruction as AVX-512 encodes it: for tests and benchmarks on processors that have that one alone.
       // In assembly, so that the compiler keeps to AVX2's sixteen registers, and speed is comparable, too.
  __asm__("vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(unsignedBytes), "x"(signedBytes));
  return sum;
#endif
}

}  // namespace spillway::SPILLWAY_ISA
