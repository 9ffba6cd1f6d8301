#include "InstructionSet.h"

#if defined(SPILLWAY_AMX_KERNELS)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "../../system/ArmFeatures.h"
#include "../../system/CpuFeatures.h"

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
    case InstructionSet::Avx2: return "avx2";
    case InstructionSet::Neon: return "neon";
    case InstructionSet::Dotprod: return "dotprod";
    case InstructionSet::I8mm: return "i8mm";
    default: return "scalar";
  }
}

bool machineHas(InstructionSet set) {
  if (set == InstructionSet::Scalar) return true;
#if defined(SPILLWAY_X86_KERNELS)
  const CpuFeatures& cpu = cpuFeatures();
  const bool avx2 = cpu.avx2 && cpu.fma && cpu.f16c;
  if (set == InstructionSet::Avx2) return avx2;
  const bool avx512 = avx2 && cpu.avx512f && cpu.avx512bw && cpu.avx512dq && cpu.avx512vl && cpu.avx512vnni;
  if (set == InstructionSet::Avx512) return avx512;
#if defined(SPILLWAY_AMX_KERNELS)
  static const bool amx = avx512 && cpu.avx512bf16 && cpu.amxTile && cpu.amxBf16 && permitTiles();
  return amx;
#endif
#elif defined(SPILLWAY_ARM_KERNELS)
  const ArmFeatures& cpu = armFeatures();
  if (set == InstructionSet::Neon) return true;
  if (set == InstructionSet::Dotprod) return cpu.dotprod;
  if (set == InstructionSet::I8mm) return cpu.dotprod && cpu.i8mm;
#endif
  return false;
}

bool shiftsAreFree() { return cpuFeatures().amd; }

InstructionSet bestInstructionSet() {
  InstructionSet best = InstructionSet::Scalar;
  for (const InstructionSet set : kInstructionSets)
    if (machineHas(set)) best = set;
  return best;
}

}  // namespace spillway
