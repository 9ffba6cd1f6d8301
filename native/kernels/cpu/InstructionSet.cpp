#include "InstructionSet.h"

#if defined(SPILLWAY_AMX_KERNELS)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace spillway {
namespace {

#if defined(SPILLWAY_AMX_KERNELS)

bool registersSaved(unsigned mask) {
  unsigned low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & mask) == mask;
}

bool processorHasAmx() {
  constexpr unsigned kOsxsave = 1u << 27, kAvx512Bf16 = 1u << 5, kAmxBf16 = 1u << 22, kAmxTile = 1u << 24,
                     kTileState = 3u << 17;
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kAmxTile) == 0 || (d & kAmxBf16) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & kAvx512Bf16) == 0) return false;
  return registersSaved(kTileState);
}

// Linux gives the tiles' registers to processes that ask, for good and for all their threads. It may refuse, to a
// sandboxed one for example.
bool permitTiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA (asm/prctl.h)
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#endif

}  // namespace

const char* instructionSetName(InstructionSet set) {
  switch (set) {
    case InstructionSet::Amx: return "amx";
    case InstructionSet::Avx512: return "avx512";
    case InstructionSet::Avx2: return "avx2";
    default: return "scalar";
  }
}

// The compiler's own CPUID reader also asks XGETBV whether the operating system saves the wide registers.
bool machineHas(InstructionSet set) {
  if (set == InstructionSet::Scalar) return true;
#if defined(SPILLWAY_X86_KERNELS)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (set == InstructionSet::Avx2) return avx2;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  if (set == InstructionSet::Avx512) return avx512;
#if defined(SPILLWAY_AMX_KERNELS)
  static const bool amx = avx512 && processorHasAmx() && permitTiles();
  return amx;
#endif
#endif
  return false;
}

bool shiftsAreFree() {
#if defined(SPILLWAY_X86_KERNELS)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

InstructionSet bestInstructionSet() {
  InstructionSet best = InstructionSet::Scalar;
  for (const InstructionSet set : kInstructionSets)
    if (machineHas(set)) best = set;
  return best;
}

}  // namespace spillway
