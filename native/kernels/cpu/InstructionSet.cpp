#include "InstructionSet.h"

#include <cstdint>

#if defined(SPILLWAY_AMX_KERNELS)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace spillway {
namespace {

#if defined(SPILLWAY_AMX_KERNELS)

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
    case InstructionSet::AvxVnni: return "avxvnni";
    case InstructionSet::Avx2: return "avx2";
    case InstructionSet::Neon: return "neon";
    case InstructionSet::Dotprod: return "dotprod";
    case InstructionSet::I8mm: return "i8mm";
    default: return "scalar";
  }
}

bool hasSet(const CpuFeatures& cpu, InstructionSet set) {
  const bool avx2 = cpu.avx2 && cpu.fma && cpu.f16c;
  const bool avx512 = avx2 && cpu.avx512f && cpu.avx512bw && cpu.avx512dq && cpu.avx512vl && cpu.avx512vnni;
  switch (set) {
    case InstructionSet::Scalar: return true;
    case InstructionSet::Avx2: return avx2;
    case InstructionSet::AvxVnni: return avx2 && cpu.avxVnni;
    case InstructionSet::Avx512: return avx512;
    case InstructionSet::Amx: return avx512 && cpu.avx512bf16 && cpu.amxTile && cpu.amxBf16;
    default: return false;
  }
}

bool hasSet(const ArmFeatures& cpu, InstructionSet set) {
  switch (set) {
    case InstructionSet::Scalar:
    case InstructionSet::Neon: return true;
    case InstructionSet::Dotprod: return cpu.dotprod;
    case InstructionSet::I8mm: return cpu.dotprod && cpu.i8mm;
    default: return false;
  }
}

bool machineHas(InstructionSet set) {
#if defined(SPILLWAY_X86_KERNELS)
#if defined(SPILLWAY_EVEXVNNI_KERNELS)  // in tests and benchmarks
  if (set == InstructionSet::AvxVnni && hasSet(cpuFeatures(), InstructionSet::Avx512)) return true;
#elif !defined(SPILLWAY_AVXVNNI_KERNELS)  // the compiler did not know it
  if (set == InstructionSet::AvxVnni) return false;
#endif
  if (set != InstructionSet::Amx) return hasSet(cpuFeatures(), set);
#if defined(SPILLWAY_AMX_KERNELS)
  static const bool amx = hasSet(cpuFeatures(), InstructionSet::Amx) && permitTiles();
  return amx;
#else
  return false;
#endif
#elif defined(SPILLWAY_ARM_KERNELS)
  return hasSet(armFeatures(), set);
#else
  return set == InstructionSet::Scalar;
#endif
}

size_t mostRowsInPlace() {
  const CpuFeatures& cpu = cpuFeatures();
  if (!cpu.amd) return 0;
  const bool zen5 = cpu.avxVnni;  // which a Zen 4 is without
  return zen5 ? 64 : SIZE_MAX;
}

InstructionSet bestInstructionSet() {
  InstructionSet best = InstructionSet::Scalar;
  for (const InstructionSet set : kInstructionSets)
    if (machineHas(set)) best = set;
  return best;
}

}  // namespace spillway
