#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "cpuidAnswers.h"

namespace spillway {
namespace {

TEST(CpuFeatures, AreThoseThatCpuidTells) {
  const CpuFeatures all(everyFeature());
  EXPECT_TRUE(all.sse42 && all.avx2 && all.fma && all.f16c && all.avxVnni);
  EXPECT_TRUE(all.avx512f && all.avx512dq && all.avx512bw && all.avx512vl && all.avx512vnni && all.avx512bf16);
  EXPECT_TRUE(all.amxTile && all.amxBf16);
  EXPECT_FALSE(all.amd);
  const CpuFeatures none{CpuidAnswers{}};
  EXPECT_FALSE(none.sse42 || none.avx2 || none.fma || none.f16c || none.avxVnni || none.avx512f || none.amxTile ||
               none.amd);
}

TEST(CpuFeatures, AreOnlyThoseWhoseRegistersAreSaved) {
  CpuidAnswers answers = everyFeature();
  answers.savedState = 0xe7;
  const CpuFeatures withoutTiles(answers);
  EXPECT_TRUE(withoutTiles.avx512f && withoutTiles.avx512bf16);
  EXPECT_FALSE(withoutTiles.amxTile || withoutTiles.amxBf16);

  answers.savedState = 0x7;
  const CpuFeatures withoutWide(answers);
  EXPECT_TRUE(withoutWide.avx2 && withoutWide.fma && withoutWide.f16c && withoutWide.avxVnni);
#ifndef __APPLE__  // XCR0 does not tell there
  EXPECT_FALSE(withoutWide.avx512f || withoutWide.avx512vnni);
#endif

  answers.savedState = 0x3;
  const CpuFeatures narrow(answers);
  EXPECT_TRUE(narrow.sse42);
  EXPECT_FALSE(narrow.avx2 || narrow.fma || narrow.f16c || narrow.avxVnni || narrow.avx512f);

  answers.savedState = 0x600e7;
  answers.leaf1Ecx &= ~(1u << 27);  // no XGETBV, so nothing was asked
  const CpuFeatures unasked(answers);
  EXPECT_FALSE(unasked.avx2 || unasked.avx512f || unasked.amxTile);
}

#if defined(__linux__) && defined(__x86_64__)

// What Linux found out by itself. It leaves out what it does not save the registers of.
std::set<std::string> kernelsFlags(std::string& vendor) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 9, "vendor_id") == 0) vendor = line.substr(line.find(':') + 2);
    if (line.compare(0, 5, "flags") != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> flags;
    for (std::string word; words >> word;) flags.insert(word);
    return flags;
  }
  return {};
}

TEST(CpuFeatures, OfThisProcessorAreThoseThatLinuxLists) {
  std::string vendor;
  const std::set<std::string> flags = kernelsFlags(vendor);
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  const auto listed = [&](const char* flag) { return flags.count(flag) == 1; };
  const CpuFeatures& cpu = cpuFeatures();
  EXPECT_EQ(cpu.amd, vendor == "AuthenticAMD");
  EXPECT_EQ(cpu.sse42, listed("sse4_2"));
  EXPECT_EQ(cpu.avx2, listed("avx2"));
  EXPECT_EQ(cpu.fma, listed("fma"));
  EXPECT_EQ(cpu.f16c, listed("f16c"));
  EXPECT_EQ(cpu.avxVnni, listed("avx_vnni"));
  EXPECT_EQ(cpu.avx512f, listed("avx512f"));
  EXPECT_EQ(cpu.avx512dq, listed("avx512dq"));
  EXPECT_EQ(cpu.avx512bw, listed("avx512bw"));
  EXPECT_EQ(cpu.avx512vl, listed("avx512vl"));
  EXPECT_EQ(cpu.avx512vnni, listed("avx512_vnni"));
  EXPECT_EQ(cpu.avx512bf16, listed("avx512_bf16"));
  EXPECT_EQ(cpu.amxTile, listed("amx_tile"));
  EXPECT_EQ(cpu.amxBf16, listed("amx_bf16"));
}

#if defined(__GNUC__) && !defined(__clang__)

TEST(CpuFeatures, OfThisProcessorAreThoseThatTheCompilersReaderFinds) {
  __builtin_cpu_init();
  const CpuFeatures& cpu = cpuFeatures();
  EXPECT_EQ(cpu.amd, __builtin_cpu_is("amd") != 0);
  EXPECT_EQ(cpu.sse42, __builtin_cpu_supports("sse4.2") != 0);
  EXPECT_EQ(cpu.avx2, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(cpu.fma, __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(cpu.f16c, __builtin_cpu_supports("f16c") != 0);
  EXPECT_EQ(cpu.avx512f, __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(cpu.avx512dq, __builtin_cpu_supports("avx512dq") != 0);
  EXPECT_EQ(cpu.avx512bw, __builtin_cpu_supports("avx512bw") != 0);
  EXPECT_EQ(cpu.avx512vl, __builtin_cpu_supports("avx512vl") != 0);
  EXPECT_EQ(cpu.avx512vnni, __builtin_cpu_supports("avx512vnni") != 0);
  EXPECT_EQ(cpu.avx512bf16, __builtin_cpu_supports("avx512bf16") != 0);
}

#endif
#endif

}  // namespace
}  // namespace spillway
