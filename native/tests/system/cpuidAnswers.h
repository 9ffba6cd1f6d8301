#pragma once
#include "../../system/CpuFeatures.h"

namespace spillway {

// A Sapphire Rapids', of what is looked at, under an operating system that saves all of its registers.
inline CpuidAnswers everyFeature() {
  CpuidAnswers answers;
  answers.vendor = {0x756e6547, 0x49656e69, 0x6c65746e};  // "GenuineIntel"
  answers.leaf1Ecx = 1u << 12 | 1u << 20 | 1u << 27 | 1u << 28 | 1u << 29;
  answers.leaf7Ebx = 1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  answers.leaf7Ecx = 1u << 11;
  answers.leaf7Edx = 1u << 22 | 1u << 24;
  answers.leaf7_1Eax = 1u << 4 | 1u << 5;
  answers.savedState = 0x600e7;
  return answers;
}

}  // namespace spillway
