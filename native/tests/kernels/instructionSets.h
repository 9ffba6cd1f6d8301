// The instruction sets that kernels are tried with: those of the architecture that this is built for.
#pragma once
#include <vector>

#include "../../kernels/cpu/InstructionSet.h"

namespace spillway {

// Of these all results have the same bits.
constexpr InstructionSet kSets[] = {
    InstructionSet::Scalar,
#if defined(SPILLWAY_ARM_KERNELS)
    InstructionSet::Neon,
    InstructionSet::Dotprod,
    InstructionSet::I8mm,
#else
    InstructionSet::Avx2,
    InstructionSet::AvxVnni,  // with AVX-512's encoding where the processor has that one alone (CMakeLists.txt)
    InstructionSet::Avx512,
#endif
};

inline std::vector<InstructionSet> allSets() {
  std::vector<InstructionSet> all(std::begin(kSets), std::end(kSets));
#if !defined(SPILLWAY_ARM_KERNELS)
  all.push_back(InstructionSet::Amx);
#endif
  return all;
}

inline std::vector<InstructionSet> vectorSets() { return {std::begin(kSets) + 1, std::end(kSets)}; }

}  // namespace spillway
