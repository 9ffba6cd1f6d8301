// Which instruction sets a kernel is compiled for, and which of them this machine has.
#pragma once

namespace spillway {

enum class InstructionSet {
  Scalar,  // portable C++; the reference for all others
  Avx2,    // AVX2, FMA, F16C
  Avx512,  // AVX-512 F, BW, DQ, VL, VNNI
};

const char* instructionSetName(InstructionSet set);  // "scalar", "avx2", "avx512"
bool machineHas(InstructionSet set);                 // CPUID and the operating system's support (XGETBV)
InstructionSet bestInstructionSet();

}  // namespace spillway
