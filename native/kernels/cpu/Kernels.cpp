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
#if defined(SPILLWAY_AMX_KERNELS)
namespace amx {
const MatmulKernels& matmulKernels(const MatmulKernels& wide);
}
#endif

const Kernels& kernelsFor(InstructionSet set) {
#if defined(SPILLWAY_X86_KERNELS)
  // Each table is made on demand: even the function that names the kernels may hold instructions that the machine
  // lacks.
#if defined(SPILLWAY_AMX_KERNELS)
  if (set == InstructionSet::Amx) {
    static const Kernels kernels{set, amx::matmulKernels(avx512::matmulKernels()), avx512::rowKernels(),
                                 avx512::attentionKernels()};
    return kernels;
  }
#endif
  if (set == InstructionSet::Avx512) {
    static const Kernels kernels{set, avx512::matmulKernels(), avx512::rowKernels(), avx512::attentionKernels()};
    return kernels;
  }
  if (set == InstructionSet::Avx2) {
    static const Kernels kernels{set, avx2::matmulKernels(), avx2::rowKernels(), avx2::attentionKernels()};
    return kernels;
  }
#else
  (void)set;
#endif
  static const Kernels kernels{InstructionSet::Scalar, scalar::matmulKernels(), scalar::rowKernels(),
                               scalar::attentionKernels()};
  return kernels;
}

}  // namespace spillway
