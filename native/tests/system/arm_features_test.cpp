#include "../../system/ArmFeatures.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace spillway {
namespace {

#if defined(__aarch64__) && defined(__linux__)

// The processor's own registers, of which Linux lets every process read what it may use.
TEST(ArmFeatures, AreThoseThatTheProcessorTells) {
  uint64_t first, second;
  asm("mrs %0, ID_AA64ISAR0_EL1" : "=r"(first));
  asm("mrs %0, ID_AA64ISAR1_EL1" : "=r"(second));
  EXPECT_EQ(armFeatures().dotprod, (first >> 44 & 15) >= 1);
  EXPECT_EQ(armFeatures().i8mm, (second >> 52 & 15) >= 1);
}

#elif !defined(__aarch64__)

TEST(ArmFeatures, OfAnotherProcessorAreNone) {
  EXPECT_FALSE(armFeatures().dotprod);
  EXPECT_FALSE(armFeatures().i8mm);
}

#endif

}  // namespace
}  // namespace spillway
