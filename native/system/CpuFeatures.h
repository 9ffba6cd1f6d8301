// What an x86 processor can do and the operating system lets it, by CPUID and XGETBV themselves: the compilers' own
// reader (__builtin_cpu_supports) says no to all of it in binaries that zig links.
#pragma once
#include <array>
#include <cstdint>

namespace spillway {

// The answers that are looked at; zero where the processor has no such leaf.
struct CpuidAnswers {
  std::array<uint32_t, 3> vendor{};  // EBX, EDX, ECX of leaf 0: twelve letters
  uint32_t leaf1Ecx = 0;
  uint32_t leaf7Ebx = 0, leaf7Ecx = 0, leaf7Edx = 0;
  uint32_t leaf7_1Eax = 0;
  uint64_t savedState = 0;  // XCR0: the registers that the operating system keeps for each thread
};

// Of instructions on wide registers a processor has those whose registers the operating system saves as well.
class CpuFeatures {
 public:
  explicit CpuFeatures(const CpuidAnswers& answers);

  const bool amd;  // the vendor
  const bool sse42;
  const bool avx2, fma, f16c, avxVnni;
  const bool avx512f, avx512dq, avx512bw, avx512vl, avx512vnni, avx512bf16;
  const bool amxTile, amxBf16;  // on Linux a process has to be permitted these registers besides

 private:
  CpuFeatures(const CpuidAnswers& answers, bool avx, bool avx512, bool tiles);
};

// Of this processor; asked once. Of one that is not x86: nothing.
const CpuFeatures& cpuFeatures();

}  // namespace spillway
