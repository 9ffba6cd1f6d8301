// Blocks that stay in memory: what is taken is what was read last, and what is looked for again and again stays.
#include "../../model/HeldBlocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr size_t kBlock = 512;
constexpr size_t kSet = HeldBlocks::kWays * (kBlock + 16) + 1;

TEST(HeldBlocks, TakesNoMoreMemoryThanItIsGiven) {
  EXPECT_EQ(HeldBlocks(0, kBlock).places(), 0u);
  EXPECT_EQ(HeldBlocks(kSet - 1, kBlock).places(), 0u);
  EXPECT_EQ(HeldBlocks(kSet, kBlock).places(), HeldBlocks::kWays);
  EXPECT_EQ(HeldBlocks(5 * kSet + 100, kBlock).places(), 5 * HeldBlocks::kWays);
  HeldBlocks none(0, kBlock);
  std::vector<uint8_t> data(kBlock);
  none.hold(3, 0, data.data());
  EXPECT_FALSE(none.take(3, 0, data.data()));
}

TEST(HeldBlocks, GivesWhatWasReadOfTheSameWritingOrNothing) {
  std::mt19937 random(59);
  for (const size_t sets : {1u, 3u, 20u}) {
    HeldBlocks held(sets * kSet, kBlock);
    std::map<uint64_t, std::pair<uint32_t, uint8_t>> read;  // writing, content
    std::vector<uint8_t> data(kBlock), wanted(kBlock);
    size_t taken = 0;
    for (int step = 0; step < 20000; step++) {
      const uint64_t block = random() % 200;
      const auto known = read.find(block);
      const uint32_t writing = known == read.end() ? 0 : known->second.first + (random() % 8 == 0 ? 1 : 0);
      if (held.take(block, writing, data.data())) {
        taken++;
        ASSERT_NE(known, read.end());
        ASSERT_EQ(writing, known->second.first);
        std::memset(wanted.data(), known->second.second, kBlock);
        ASSERT_EQ(data, wanted);
      } else {
        const auto content = static_cast<uint8_t>(random());
        std::memset(data.data(), content, kBlock);
        // Somebody else may have read it, and it is held by chance only.
        held.hold(block, writing, data.data());
        read[block] = {writing, content};
      }
    }
    EXPECT_GT(taken, 20000u * std::min<size_t>(200, sets * HeldBlocks::kWays) / 200 / 4);
  }
}

TEST(HeldBlocks, KeepsWhatIsLookedForEachTimeWhileOthersComeOnce) {
  HeldBlocks held(8 * kSet, kBlock);  // 128 places
  std::vector<uint8_t> data(kBlock);
  size_t found = 0;
  uint64_t once = 1000;
  for (int pass = 0; pass < 50; pass++) {
    found = 0;
    for (uint64_t block = 0; block < 40; block++) {
      if (held.take(block, 0, data.data()))
        found++;
      else
        held.hold(block, 0, data.data());
    }
    for (int i = 0; i < 64; i++) held.hold(once++, 0, data.data());
  }
  EXPECT_EQ(found, 40u);
}

}  // namespace
}  // namespace spillway
