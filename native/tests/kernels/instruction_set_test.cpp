#include "../../kernels/cpu/InstructionSet.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../system/cpuidAnswers.h"

namespace spillway {
namespace {

template <typename Features>
std::string setsOf(const Features& cpu) {
  std::string names;
  for (const InstructionSet set : kInstructionSets)
    if (hasSet(cpu, set)) names += std::string(names.empty() ? "" : " ") + instructionSetName(set);
  return names;
}

TEST(InstructionSet, OfX86AreNoneOfArm) {
  EXPECT_EQ(setsOf(CpuFeatures(everyFeature())), "scalar avx2 avxvnni avx512 amx");
  CpuidAnswers withoutTiles = everyFeature();
  withoutTiles.savedState = 0xe7;
  EXPECT_EQ(setsOf(CpuFeatures(withoutTiles)), "scalar avx2 avxvnni avx512");
  CpuidAnswers withoutVnni = everyFeature();
  withoutVnni.leaf7Ecx = 0;
  EXPECT_EQ(setsOf(CpuFeatures(withoutVnni)), "scalar avx2 avxvnni");
  CpuidAnswers client = everyFeature();
  client.leaf7Ebx = 1u << 5;
  client.savedState = 0x7;
  EXPECT_EQ(setsOf(CpuFeatures(client)), "scalar avx2 avxvnni");
  CpuidAnswers zen4 = withoutTiles;
  zen4.leaf7_1Eax = 1u << 5;
  EXPECT_EQ(setsOf(CpuFeatures(zen4)), "scalar avx2 avx512");
  EXPECT_EQ(setsOf(CpuFeatures(CpuidAnswers{})), "scalar");
}

TEST(InstructionSet, OfArmAreNoneOfX86) {
  EXPECT_EQ(setsOf(ArmFeatures{}), "scalar neon");
  EXPECT_EQ(setsOf(ArmFeatures{true, false}), "scalar neon dotprod");
  EXPECT_EQ(setsOf(ArmFeatures{true, true}), "scalar neon dotprod i8mm");
  EXPECT_EQ(setsOf(ArmFeatures{false, true}), "scalar neon");
}

// Whatever this machine is: of sets that it has, all lower ones of the family are there, and none of another family.
TEST(InstructionSet, OfThisMachineAreOfOneFamily) {
  std::vector<InstructionSet> there;
  for (const InstructionSet set : kInstructionSets)
    if (machineHas(set)) there.push_back(set);
  ASSERT_FALSE(there.empty());
  EXPECT_EQ(bestInstructionSet(), there.back());
#if defined(__x86_64__)
  EXPECT_LE(there.back(), InstructionSet::Amx);
#elif defined(__aarch64__)
  EXPECT_GE(there.back(), InstructionSet::Neon);
#endif
}

}  // namespace
}  // namespace spillway
