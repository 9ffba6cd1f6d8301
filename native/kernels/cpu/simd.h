// Sixteen float lanes with the same meaning, and the same bits, on every instruction set.
//
// How files are built with it. A kernel file `xyz.cpp` includes "simd.h", puts everything into `namespace
// spillway::SPILLWAY_ISA`, and is compiled for each of these, each time with -O3 -ffp-contract=off (never -ffast-math)
// and
//   -DSPILLWAY_ISA=scalar   (no further flags)
//   -DSPILLWAY_ISA=avx2     -mavx2 -mfma -mf16c
//   -DSPILLWAY_ISA=avx512   -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni -mavx2 -mfma -mf16c
// Files of the folder amx are compiled once, with SPILLWAY_ISA=amx: the flags of avx512 and those of AMX and bfloat16.
// Files of the folder avxvnni, and those that multiply bytes, once more as
//   -DSPILLWAY_ISA=avxvnni  the flags of avx2 and -mavxvnni
//   -DSPILLWAY_ISA=evexvnni those of avx2: for tests and benchmarks alone (dpbusd256.h)
// On AArch64 they are compiled four times, as scalar and as
//   -DSPILLWAY_ISA=neon     (no further flags: AArch64 has it)
//   -DSPILLWAY_ISA=dotprod  -march=armv8.2-a+dotprod
//   -DSPILLWAY_ISA=i8mm     that and +i8mm
// In CMake: one OBJECT library an instruction set over one list of sources. Each instruction set's entry point is a
// function such as `const RowKernels& rowKernels()` in its namespace; Kernels.cpp, compiled once and for the baseline,
// declares them and puts them into tables. These files include no STL and define no inline function outside this
// namespace (`static inline` is fine): the linker keeps one copy of a shared inline function, and it could be the one
// with AVX-512 in it. `nm -C xyz.o | grep ' [WVu] '` must print nothing but this namespace.
//
// f32x16 is a value. Lane i of a result depends on lane i of the arguments only, unless the name says reduce.
//   load(p) store(p, v) loadPartial(p, n[, fill]) storePartial(p, v, n)
//                               unaligned; n in 0..16, nothing beyond p[n) is touched; fill: 0
//   loadHalf loadBfloat16 storeHalf, each also Partial
//                               16-bit floats as uint16_t; storeHalf rounds to nearest even
//   zero() set1(x)
//   add sub mul div sqrt neg abs
//                               correctly rounded
//   fma(a, b, c) = a * b + c, fnma(a, b, c) = c - a * b
//                               rounded once
//   max(a, b) = a > b ? a : b; min(a, b) = a < b ? a : b
//                               so b where either is NaN
//   selectLess(a, b, x, y) = a < b ? x : y
//                               y where either is NaN
//   notLess(a, b)               bit i: not a < b in lane i, so set where either is NaN
//   storeSelected(p, v, lanes)  the lanes whose bit is set, one after another; what the rest of the 16 places holds
//                               then is anything
//   swapLanes<n>(v)             lane i of the result is lane i ^ n, n being 1, 2, 4, 8
//   copySign(magnitude, sign)
//   reduceAdd(v) reduceMax(v)   one fixed tree: lanes i and i+8, then i and i+4, i and i+2, 0 and 1
//   exp(v)                      within 2 ulp wherever the result is normal; exp(-inf) = 0, inf from 88.73 up,
//                               NaN stays NaN
//   reduceMaxEach(v, out)       out[j] = reduceMax(v[j]) for four vectors without NaN at once
// i32x16: add, sub, min, max, shiftLeft<n>, shiftRight<n> (arithmetic), set1Int, asInt(f), asFloat(i), toFloat(i).
// Bits of a NaN's payload are the one thing that may differ.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "floatFormats.h"

#define SPILLWAY_ISA_LEVEL_scalar 0
#define SPILLWAY_ISA_LEVEL_avx2 1
#define SPILLWAY_ISA_LEVEL_avx512 2
#define SPILLWAY_ISA_LEVEL_amx 2
#define SPILLWAY_ISA_LEVEL_neon 3
#define SPILLWAY_ISA_LEVEL_dotprod 3
#define SPILLWAY_ISA_LEVEL_i8mm 3
#define SPILLWAY_ISA_LEVEL_avxvnni 4
#define SPILLWAY_ISA_LEVEL_evexvnni 4
#define SPILLWAY_JOIN_(a, b) a##b
#define SPILLWAY_JOIN(a, b) SPILLWAY_JOIN_(a, b)
#define SPILLWAY_ISA_LEVEL SPILLWAY_JOIN(SPILLWAY_ISA_LEVEL_, SPILLWAY_ISA)

// Before a loop of constant length over an array of vectors: unrolled, the array becomes registers. Not under a
// sanitizer, whose checks would make such a function take minutes to compile, nor in scalar code, which has no
// registers for it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SPILLWAY_ISA_LEVEL == 0
#define SPILLWAY_UNROLL(times) _Pragma("GCC unroll 1")
#elif defined(__clang__)
#define SPILLWAY_UNROLL(times) _Pragma("unroll")
#else
#define SPILLWAY_UNROLL_(text) _Pragma(#text)
#define SPILLWAY_UNROLL(times) SPILLWAY_UNROLL_(GCC unroll times)
#endif

#ifndef SPILLWAY_ISA
#error "SPILLWAY_ISA must be scalar, avx2, avxvnni, evexvnni, avx512, amx, neon, dotprod or i8mm"
#elif SPILLWAY_ISA_LEVEL == 3
#include "simdNeon.h"
#elif SPILLWAY_ISA_LEVEL == 2
#include "simdAvx512.h"
#elif SPILLWAY_ISA_LEVEL == 1 || SPILLWAY_ISA_LEVEL == 4
#include "simdAvx2.h"
#else
#include "simdScalar.h"
#endif

namespace spillway::SPILLWAY_ISA {

static inline f32x16 loadPartial(const float* p, size_t n) { return loadPartial(p, n, 0.0f); }
static inline f32x16 neg(f32x16 v) {
  return asFloat(sub(asInt(v), set1Int(INT32_MIN)));
}  // flips the sign bit: x - 2^31 modulo 2^32
static inline f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return fma(neg(a), b, c); }

// e^x = 2^n e^r with n the nearest integer to x / ln 2: a polynomial of degree 6 for e^r (Chebyshev interpolation of
// (e^r - 1 - r) / r²; its own error is 0.1 ulp), and 2^n in two factors, so that the steps to infinity and into the
// subnormals happen in the last multiplication alone.
static inline f32x16 exp(f32x16 v) {
  const f32x16 x = min(set1(89.0f), max(set1(-104.0f), v));  // NaN passes: the second argument is kept
  const f32x16 magic = set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits
  const f32x16 shifted = fma(x, set1(1.44269504f), magic);
  const f32x16 n = sub(shifted, magic);
  f32x16 r = fma(n, set1(-0x1.62e43p-1f), x);  // ln 2 in two parts, the first with zeros at its end
  r = fma(n, set1(0x1.05c61p-29f), r);
  f32x16 q = set1(0x1.6d113cp-10f);
  q = fma(q, r, set1(0x1.120ba2p-7f));
  q = fma(q, r, set1(0x1.55551ap-5f));
  q = fma(q, r, set1(0x1.5554dcp-3f));
  q = fma(q, r, set1(0.5f));
  const f32x16 p = add(set1(1.0f), fma(mul(r, r), q, r));
  const i32x16 whole = sub(asInt(shifted), set1Int(0x4b400000));
  const i32x16 half = shiftRight<1>(whole);
  const f32x16 first = asFloat(shiftLeft<23>(add(half, set1Int(127))));
  const f32x16 second = asFloat(shiftLeft<23>(add(sub(whole, half), set1Int(127))));
  return mul(mul(p, first), second);
}

}  // namespace spillway::SPILLWAY_ISA
