#include "../../system/processorName.h"

#include <gtest/gtest.h>

#include <sstream>

namespace spillway {
namespace {

std::string nameIn(const char* text) {
  std::istringstream cpuinfo(text);
  return processorName(cpuinfo);
}

TEST(ProcessorName, IsTheModelsNameOnX86) {
  EXPECT_EQ(nameIn("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\nmodel name\t: Intel(R) Xeon(R) 8488C\n"
                   "processor\t: 1\nmodel name\t: Another\n"),
            "Intel(R) Xeon(R) 8488C");
}

TEST(ProcessorName, IsThatOfTheCoresOnArm) {
  const std::string neoverse =
      "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd asimddp\nCPU implementer\t: 0x41\n"
      "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n";
  EXPECT_EQ(nameIn((neoverse + neoverse).c_str()), "Neoverse-N1");
}

TEST(ProcessorName, NamesUnlikeCoresAndThoseThatItDoesNotKnow) {
  EXPECT_EQ(nameIn("CPU implementer\t: 0x41\nCPU part\t: 0xd03\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n"
                   "CPU implementer\t: 0x41\nCPU part\t: 0xd03\nCPU implementer\t: 0x7f\nCPU part\t: 0x001\n"),
            "Cortex-A53, Cortex-A72, ARM 0x7f 0x001");
}

TEST(ProcessorName, IsEmptyWhereNothingTellsIt) {
  EXPECT_EQ(nameIn(""), "");
  EXPECT_EQ(nameIn("\n:\n : \nmodel name\nmodel name\t:\nCPU part\t:  \nmodel\t: 3\n"), "");
}

}  // namespace
}  // namespace spillway
