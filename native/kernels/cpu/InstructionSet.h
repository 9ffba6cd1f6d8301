// Which instruction sets a kernel is compiled for, and which of them this machine has.
#pragma once
#include <cstddef>

#include "../../system/ArmFeatures.h"
#include "../../system/CpuFeatures.h"

namespace spillway {

enum class InstructionSet {
  Scalar,   // portable C++; the reference for all others
  Avx2,     // AVX2, FMA, F16C
  AvxVnni,  // that, and products of four bytes on 256 bits: Intel's client processors, which have no AVX-512
  Avx512,   // AVX-512 F, BW, DQ, VL, VNNI
  Amx,      // that, and for matrix products AMX tiles of bfloat16; Linux only
  Neon,     // of AArch64, which always has it
  Dotprod,  // that, and products of four bytes (FEAT_DotProd)
  I8mm,     // that, and products of eight bytes for two by two sums (FEAT_I8MM)
};
// Those of one family in ascending order, though a Zen 4 has AVX-512 without AVX-VNNI.
constexpr InstructionSet kInstructionSets[] = {InstructionSet::Scalar,  InstructionSet::Avx2, InstructionSet::AvxVnni,
                                               InstructionSet::Avx512,  InstructionSet::Amx,  InstructionSet::Neon,
                                               InstructionSet::Dotprod, InstructionSet::I8mm};

// "scalar", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod", "i8mm"
const char* instructionSetName(InstructionSet set);
// Whether a processor has the set: one of x86, or one of AArch64.
bool hasSet(const CpuFeatures& cpu, InstructionSet set);
bool hasSet(const ArmFeatures& cpu, InstructionSet set);
// By what the processor and the operating system say (CpuFeatures.h, ArmFeatures.h). For AMX the process also has to be
// permitted its large registers: the first call asks for that.
bool machineHas(InstructionSet set);
InstructionSet bestInstructionSet();

// Up to how many rows a product of 512-bit vectors is faster where weights are unpacked in registers, for each tile of
// rows anew, than where that is done once for all rows. Intel's processors shift and mask such vectors on the two units
// that they multiply them on: none. AMD's have four units, two of which multiply, and unpack beside them. Measured with
// bench_matmul, a Zen 4 gains 4 to 6% with 64 rows and 12% with 16. A Zen 5 gains 5% with 16, 1 to 2% with 64, and
// loses 4% with 256 in types with an offset: what is unpacked fits into its larger first-level cache, and now and then
// a shift takes a multiplier's turn.
size_t mostRowsInPlace();

}  // namespace spillway
