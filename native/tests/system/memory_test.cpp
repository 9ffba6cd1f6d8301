#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "../../system/Arena.h"
#include "../../system/Error.h"
#include "../../system/Machine.h"
#include "../../system/Scratch.h"

namespace spillway {
namespace {

TEST(Scratch, TakesAlignedPiecesAndGivesThemBack) {
  alignas(64) char block[512];
  Scratch scratch(block, sizeof(block));
  char* first = scratch.take<char>(1);
  EXPECT_EQ(first, block);
  const size_t mark = scratch.used();
  float* second = scratch.take<float>(20);
  EXPECT_EQ(reinterpret_cast<char*>(second), block + 64);
  scratch.release(mark);
  EXPECT_EQ(reinterpret_cast<char*>(scratch.take<float>(112)), block + 64);
  EXPECT_EQ(scratch.used(), 512u);
  EXPECT_EQ(scratch.peak(), 512u);
}

TEST(Scratch, RefusesWhatDoesNotFit) {
  alignas(64) char block[256];
  Scratch scratch(block, sizeof(block));
  scratch.take<char>(100);
  EXPECT_THROW(scratch.take<char>(129), Error);
  EXPECT_THROW(scratch.take<char>(SIZE_MAX - 64), Error);
  scratch.take<char>(128);
  EXPECT_THROW(scratch.take<char>(1), Error);
  scratch.take<char>(0);
}

TEST(Scratch, MeasuresWithoutMemory) {
  Scratch scratch(nullptr, 0);
  EXPECT_EQ(scratch.take<double>(100), nullptr);
  scratch.take<char>(1);
  const size_t peak = scratch.peak();
  scratch.release(0);
  scratch.take<char>(64);
  EXPECT_EQ(peak, Scratch::aligned(800) + 64);
  EXPECT_EQ(scratch.peak(), peak);
}

TEST(Arena, IsZeroAlignedAndMovable) {
  Arena arena(100000, "a test");
  for (size_t i = 0; i < arena.bytes(); i += 997) ASSERT_EQ(arena.data()[i], 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % 4096, 0u);
  arena.data()[99999] = 7;
  Arena other(std::move(arena));
  EXPECT_EQ(other.data()[99999], 7);
  EXPECT_EQ(arena.data(), nullptr);
  arena = std::move(other);
  EXPECT_EQ(arena.data()[99999], 7);
  EXPECT_EQ(Arena(0, "nothing").data(), nullptr);
}

TEST(Arena, LargeOnesBeginWhereAHugePageDoes) {
  constexpr size_t kHugePage = size_t(2) << 20;
  for (const size_t bytes : {kHugePage, kHugePage + 1, 3 * kHugePage - 4097}) {
    Arena arena(bytes, "a test");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % kHugePage, 0u) << bytes;
    std::memset(arena.data(), 1, bytes);
    EXPECT_EQ(arena.data()[bytes - 1], 1);
  }
}

TEST(Arena, RefusesTheImpossibleByName) {
  try {
    Arena(size_t(1) << 62, "the moon");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Memory);
    EXPECT_NE(std::string(error.what()).find("the moon"), std::string::npos);
  }
}

TEST(Machine, IsPlausible) {
  const Machine machine = inspectMachine();
  EXPECT_GE(machine.processors, 1u);
  EXPECT_GE(machine.cores, 1u);
  EXPECT_LE(machine.cores, machine.processors);
  EXPECT_GT(machine.processorSeconds, 0);
  EXPECT_LE(machine.processorSeconds, machine.processors + 0.001);
  EXPECT_FALSE(machine.processorName.empty());
  EXPECT_GT(machine.memoryBytes, size_t(64) << 20);
  EXPECT_GT(machine.availableBytes, 0u);
  EXPECT_LE(machine.availableBytes, machine.memoryBytes);
}

#ifdef __linux__
class Group : public testing::Test {
 protected:
  Group() { std::filesystem::create_directory(folder_); }
  ~Group() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }
  const std::string folder_ = testing::TempDir() + "/spillway-group-" + std::to_string(getpid());
};

TEST_F(Group, WithoutALimitIsNone) {
  EXPECT_EQ(groupMemory(folder_).limit, UINT64_MAX);
  write("memory.max", "max\n");
  write("memory.current", "1000\n");
  EXPECT_EQ(groupMemory(folder_).limit, UINT64_MAX);
  EXPECT_EQ(groupMemory(folder_).available, UINT64_MAX);
}

TEST_F(Group, FilesThatWereReadAreFreeOnEitherList) {
  write("memory.max", "1000\n");
  write("memory.current", "990\n");
  write("memory.stat", "anon 100\nfile 800\nfile_mapped 30\nshmem 60\ninactive_file 300\nactive_file 500\n");
  EXPECT_EQ(groupMemory(folder_).limit, 1000u);
  EXPECT_EQ(groupMemory(folder_).available, 1000u - (990u - 770u));
  write("memory.stat", "anon 100\nfile_mapped 900\ninactive_file 300\nactive_file 500\n");
  EXPECT_EQ(groupMemory(folder_).available, 10u);
  write("memory.current", "1200\n");
  EXPECT_EQ(groupMemory(folder_).available, 0u);
}

TEST_F(Group, OfTheFirstVersionCountsItsChildren) {
  write("memory.limit_in_bytes", "1000\n");
  write("memory.usage_in_bytes", "900\n");
  write("memory.stat",
        "inactive_file 1\nactive_file 2\nmapped_file 3\ntotal_mapped_file 30\ntotal_inactive_file 300\n"
        "total_active_file 500\n");
  EXPECT_EQ(groupMemory(folder_).limit, 1000u);
  EXPECT_EQ(groupMemory(folder_).available, 1000u - (900u - 770u));
}
#endif

}  // namespace
}  // namespace spillway
