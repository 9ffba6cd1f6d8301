// Which instruction sets a kernel is compiled for, and which of them this machine has.
#pragma once
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

// Whether the processor shifts and masks 512-bit vectors on other units than it multiplies them on: AMD's do (four
// units, two of which multiply), Intel's have two for all of it. Measured with bench_matmul, a fifth of a Zen 5's units
// stand idle in products: unpacking there instead of once for all rows makes products of 64 rows 4 to 5% faster, those
// of 16 rows 10%; a Zen 4 gains 4 to 6% and 12%.
bool shiftsAreFree();

}  // namespace spillway
