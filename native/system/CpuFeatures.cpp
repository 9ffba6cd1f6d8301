#include "CpuFeatures.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace spillway {
namespace {

constexpr bool bit(uint64_t word, int position) { return (word >> position & 1) != 0; }

constexpr int kOsxsave = 27;
constexpr uint64_t kAvxState = 0x06;     // SSE and the upper halves of ymm
constexpr uint64_t kAvx512State = 0xe6;  // that, masks, the upper halves of zmm, zmm16 to 31
constexpr uint64_t kTileState = 3u << 17;

bool saves(const CpuidAnswers& answers, uint64_t state) {
  return bit(answers.leaf1Ecx, kOsxsave) && (answers.savedState & state) == state;
}

// macOS begins to save these registers at their first use, and does not show them in XCR0 until then.
bool savesAvx512(const CpuidAnswers& answers) {
#ifdef __APPLE__
  return saves(answers, kAvxState);
#else
  return saves(answers, kAvx512State);
#endif
}

CpuidAnswers askProcessor() {
  CpuidAnswers answers;
#if defined(__x86_64__)
  uint32_t a, b, c, d;
  if (__get_cpuid(0, &a, &b, &c, &d) != 0) answers.vendor = {b, d, c};
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) answers.leaf1Ecx = c;
  uint32_t subleaves = 0;
  if (__get_cpuid_count(7, 0, &subleaves, &b, &c, &d) != 0) {
    answers.leaf7Ebx = b;
    answers.leaf7Ecx = c;
    answers.leaf7Edx = d;
  }
  if (subleaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0) answers.leaf7_1Eax = a;
  if (bit(answers.leaf1Ecx, kOsxsave)) {
    asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    answers.savedState = uint64_t{d} << 32 | a;
  }
#endif
  return answers;
}

}  // namespace

CpuFeatures::CpuFeatures(const CpuidAnswers& answers)
    : CpuFeatures(answers, saves(answers, kAvxState), savesAvx512(answers), saves(answers, kTileState)) {}

CpuFeatures::CpuFeatures(const CpuidAnswers& answers, bool avx, bool avx512, bool tiles)
    : amd(answers.vendor == std::array<uint32_t, 3>{0x68747541, 0x69746e65, 0x444d4163}),  // "AuthenticAMD"
      sse42(bit(answers.leaf1Ecx, 20)),
      avx2(avx && bit(answers.leaf7Ebx, 5)),
      fma(avx && bit(answers.leaf1Ecx, 12)),
      f16c(avx && bit(answers.leaf1Ecx, 29)),
      avxVnni(avx && bit(answers.leaf7_1Eax, 4)),
      avx512f(avx512 && bit(answers.leaf7Ebx, 16)),
      avx512dq(avx512 && bit(answers.leaf7Ebx, 17)),
      avx512bw(avx512 && bit(answers.leaf7Ebx, 30)),
      avx512vl(avx512 && bit(answers.leaf7Ebx, 31)),
      avx512vnni(avx512 && bit(answers.leaf7Ecx, 11)),
      avx512bf16(avx512 && bit(answers.leaf7_1Eax, 5)),
      amxTile(tiles && bit(answers.leaf7Edx, 24)),
      amxBf16(tiles && bit(answers.leaf7Edx, 22)) {}

const CpuFeatures& cpuFeatures() {
  static const CpuFeatures features(askProcessor());
  return features;
}

}  // namespace spillway
