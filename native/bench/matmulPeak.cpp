#include "matmulPeak.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <thread>
#include <vector>

namespace spillway::bench {
namespace {

constexpr long kIterations = 1000 * 1000;  // a few milliseconds

#if defined(__x86_64__)
// In assembly, so that every accumulator is a register and none is optimised away. Twelve chains cover the latency.
#define TWELVE(step)                                                                                             \
  step("0") step("1") step("2") step("3") step("4") step("5") step("6") step("7") step("8") step("9") step("10") \
      step("11")

#define ZERO512(k) "vpxord %%zmm" k ",%%zmm" k ",%%zmm" k "\n"
#define DOT512(k) "vpdpbusd %%zmm13,%%zmm12,%%zmm" k "\n"
#define FMA512(k) "vfmadd231ps %%zmm13,%%zmm12,%%zmm" k "\n"
#define CLOBBER512                                                                                                    \
  "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10", "zmm11", "zmm12", "zmm13", \
      "cc"
__attribute__((target("avx512f,avx512vnni"))) double dot512() {
  long n = kIterations;
  asm volatile(TWELVE(ZERO512) ZERO512("12") ZERO512("13") "1:\n" TWELVE(DOT512) TWELVE(DOT512) "dec %0\n jnz 1b\n"
               : "+r"(n)::CLOBBER512);
  return 24.0 * 128;
}
__attribute__((target("avx512f"))) double fma512() {
  long n = kIterations;
  asm volatile(TWELVE(ZERO512) ZERO512("12") ZERO512("13") "1:\n" TWELVE(FMA512) TWELVE(FMA512) "dec %0\n jnz 1b\n"
               : "+r"(n)::CLOBBER512);
  return 24.0 * 32;
}

#define ZERO256(k) "vpxor %%ymm" k ",%%ymm" k ",%%ymm" k "\n"
#define FMA256(k) "vfmadd231ps %%ymm13,%%ymm12,%%ymm" k "\n"
#define CLOBBER256                                                                                                    \
  "ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7", "ymm8", "ymm9", "ymm10", "ymm11", "ymm12", "ymm13", \
      "ymm14", "ymm15", "cc"
#define DOT256(k) "vpdpbusd %%ymm13,%%ymm12,%%ymm" k "\n"
// On a processor without AVX-512 the same, as VEX encodes it.
#define DOT256_VEX(k) "%{vex%} " DOT256(k)
__attribute__((target("avx2"))) double dot256() {
  long n = kIterations;
  asm volatile(TWELVE(ZERO256) ZERO256("12") ZERO256("13") "1:\n" TWELVE(DOT256) TWELVE(DOT256) "dec %0\n jnz 1b\n"
               : "+r"(n)::CLOBBER256);
  return 24.0 * 64;
}
#if defined(SPILLWAY_AVXVNNI_KERNELS)  // and an assembler that knows it
__attribute__((target("avx2"))) double dot256Vex() {
  long n = kIterations;
  asm volatile(TWELVE(ZERO256) ZERO256("12") ZERO256("13") "1:\n" TWELVE(DOT256_VEX)
                   TWELVE(DOT256_VEX) "dec %0\n jnz 1b\n"
               : "+r"(n)::CLOBBER256);
  return 24.0 * 64;
}
#endif
__attribute__((target("avx2,fma"))) double fma256() {
  long n = kIterations;
  asm volatile(TWELVE(ZERO256) ZERO256("12") ZERO256("13") "1:\n" TWELVE(FMA256) TWELVE(FMA256) "dec %0\n jnz 1b\n"
               : "+r"(n)::CLOBBER256);
  return 24.0 * 16;
}
#define EIGHT(step)                                                                                           \
  step("0", "8") step("1", "9") step("2", "10") step("3", "11") step("4", "8") step("5", "9") step("6", "10") \
      step("7", "11")
#define ADD16(k, t) "vpmaddubsw %%ymm13,%%ymm12,%%ymm" t "\n vpaddw %%ymm" t ",%%ymm" k ",%%ymm" k "\n"
#define WIDEN(k, t)                                                                                                  \
  "vpmaddwd %%ymm14,%%ymm" k ",%%ymm" t "\n vpaddd %%ymm" t ",%%ymm15,%%ymm15\n vpxor %%ymm" k ",%%ymm" k ",%%ymm" k \
  "\n"
__attribute__((target("avx2"))) double words256() {
  long n = kIterations;
  asm volatile(TWELVE(ZERO256) ZERO256("12") ZERO256("13") ZERO256("14") ZERO256("15") "1:\n" EIGHT(ADD16) EIGHT(ADD16)
                   EIGHT(ADD16) EIGHT(ADD16) EIGHT(ADD16) EIGHT(ADD16) EIGHT(ADD16) EIGHT(ADD16)
                       EIGHT(WIDEN) "dec %0\n jnz 1b\n"
               : "+r"(n)::CLOBBER256);
  return 64.0 * 64;
}
#define WIDE(k, t)                                                                                             \
  "vpmaddubsw %%ymm13,%%ymm12,%%ymm" t "\n vpmaddwd %%ymm14,%%ymm" t ",%%ymm" t "\n vpaddd %%ymm" t ",%%ymm" k \
  ",%%ymm" k "\n"
__attribute__((target("avx2"))) double widened256() {
  long n = kIterations;
  asm volatile(TWELVE(ZERO256) ZERO256("12") ZERO256("13") ZERO256("14") "1:\n" EIGHT(WIDE)
                   EIGHT(WIDE) "dec %0\n jnz 1b\n"
               : "+r"(n)::CLOBBER256);
  return 16.0 * 64;
}
#endif

#if defined(SPILLWAY_AMX_KERNELS)
#define MULTIPLY_TILE(k, rows, weights) "tdpbf16ps %%tmm" weights ", %%tmm" rows ", %%tmm" k "\n"
#define FOUR_TILES \
  MULTIPLY_TILE("0", "4", "6") MULTIPLY_TILE("1", "4", "7") MULTIPLY_TILE("2", "5", "6") MULTIPLY_TILE("3", "5", "7")
// An eighth of the iterations: each takes the time of several of the others'.
double tiles() {
  struct {
    uint8_t palette = 1, startRow = 0, reserved[14] = {};
    uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } shape;
  long n = kIterations / 8;
  asm volatile("ldtilecfg %1\n1:\n" FOUR_TILES "dec %0\n jnz 1b\n tilerelease\n" : "+r"(n) : "m"(shape) : "cc");
  return 4.0 * 16 * 16 * 32 * 2 / 8;
}
#endif

double secondsOf(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The loop returns its operations an iteration. One thread: in processor time, as the products are measured.
double rate(double (*loop)(), unsigned threads, int rounds) {
  double best = 0;
  for (int round = 0; round < rounds; round++) {
    const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const double begin = secondsOf(clock);
    std::vector<std::thread> helpers;
    for (unsigned i = 1; i < threads; i++) helpers.emplace_back([loop] { loop(); });
    const double operations = loop() * kIterations;
    for (std::thread& helper : helpers) helper.join();
    best = std::max(best, operations * threads / (secondsOf(clock) - begin));
  }
  return best;
}

}  // namespace

double peakQuantised([[maybe_unused]] InstructionSet set, [[maybe_unused]] unsigned threads,
                     [[maybe_unused]] int weightBits, [[maybe_unused]] int rounds) {
#if defined(__x86_64__)
#if defined(SPILLWAY_AMX_KERNELS)
  if (set == InstructionSet::Amx) return rate(tiles, threads, rounds);
#endif
  if (set == InstructionSet::Avx512) return rate(dot512, threads, rounds);
#if defined(SPILLWAY_AVXVNNI_KERNELS)
  if (set == InstructionSet::AvxVnni)
    return rate(hasSet(cpuFeatures(), InstructionSet::AvxVnni) ? dot256Vex : dot256, threads, rounds);
#endif
  if (set == InstructionSet::Avx2) return rate(weightBits > 6 ? widened256 : words256, threads, rounds);
#endif
  return 0;
}

double peakFloat([[maybe_unused]] InstructionSet set, [[maybe_unused]] unsigned threads, [[maybe_unused]] int rounds) {
#if defined(__x86_64__)
  if (set == InstructionSet::Avx512 || set == InstructionSet::Amx) return rate(fma512, threads, rounds);
  if (set == InstructionSet::Avx2 || set == InstructionSet::AvxVnni) return rate(fma256, threads, rounds);
#endif
  return 0;
}

}  // namespace spillway::bench
