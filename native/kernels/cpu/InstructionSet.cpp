#include "InstructionSet.h"

namespace spillway {

const char* instructionSetName(InstructionSet set) {
  switch (set) {
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
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

InstructionSet bestInstructionSet() {
  if (machineHas(InstructionSet::Avx512)) return InstructionSet::Avx512;
  return machineHas(InstructionSet::Avx2) ? InstructionSet::Avx2 : InstructionSet::Scalar;
}

}  // namespace spillway
