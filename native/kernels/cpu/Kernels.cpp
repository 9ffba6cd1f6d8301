#include "Kernels.h"

namespace spillway {

#define SPILLWAY_DECLARE_KERNELS(isa)         \
  namespace isa {                             \
  const MatmulKernels& matmulKernels();       \
  const RowKernels& rowKernels();             \
  const AttentionKernels& attentionKernels(); \
  }

SPILLWAY_DECLARE_KERNELS(scalar)
#if defined(SPILLWAY_X86_KERNELS)
SPILLWAY_DECLARE_KERNELS(avx2)
SPILLWAY_DECLARE_KERNELS(avx512)
#endif
#if defined(SPILLWAY_AVXVNNI_KERNELS)
SPILLWAY_DECLARE_KERNELS(avxvnni)
#endif
#if defined(SPILLWAY_EVEXVNNI_KERNELS)
SPILLWAY_DECLARE_KERNELS(evexvnni)
#endif
#if defined(SPILLWAY_ARM_KERNELS)
SPILLWAY_DECLARE_KERNELS(neon)
SPILLWAY_DECLARE_KERNELS(dotprod)
SPILLWAY_DECLARE_KERNELS(i8mm)
#endif
#if defined(SPILLWAY_AMX_KERNELS)
namespace amx {
const MatmulKernels& matmulKernels(const MatmulKernels& wide);
}
#endif

// Each table is made on demand: even the function that names the kernels may hold instructions that the machine lacks.
#define SPILLWAY_KERNELS_OF(name, isa)                                                                   \
  if (set == InstructionSet::name) {                                                                     \
    static const Kernels kernels{set, isa::matmulKernels(), isa::rowKernels(), isa::attentionKernels()}; \
    return kernels;                                                                                      \
  }

const Kernels& kernelsFor(InstructionSet set) {
#if defined(SPILLWAY_X86_KERNELS)
#if defined(SPILLWAY_AMX_KERNELS)
  if (set == InstructionSet::Amx) {
    static const Kernels kernels{set, amx::matmulKernels(avx512::matmulKernels()), avx512::rowKernels(),
                                 avx512::attentionKernels()};
    return kernels;
  }
#endif
  SPILLWAY_KERNELS_OF(Avx512, avx512)
#if defined(SPILLWAY_EVEXVNNI_KERNELS)
  if (!hasSet(cpuFeatures(), InstructionSet::AvxVnni)) {
    SPILLWAY_KERNELS_OF(AvxVnni, evexvnni)
  }
#endif
#if defined(SPILLWAY_AVXVNNI_KERNELS)
  SPILLWAY_KERNELS_OF(AvxVnni, avxvnni)
#endif
  SPILLWAY_KERNELS_OF(Avx2, avx2)
#elif defined(SPILLWAY_ARM_KERNELS)
  SPILLWAY_KERNELS_OF(I8mm, i8mm)
  SPILLWAY_KERNELS_OF(Dotprod, dotprod)
  SPILLWAY_KERNELS_OF(Neon, neon)
#else
  (void)set;
#endif
  static const Kernels kernels{InstructionSet::Scalar, scalar::matmulKernels(), scalar::rowKernels(),
                               scalar::attentionKernels()};
  return kernels;
}

}  // namespace spillway
