#include "../../model/stretches.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace spillway {
namespace {

using Stretches = std::vector<std::pair<size_t, size_t>>;

Stretches of(const std::vector<uint8_t>& wanted, size_t from, size_t gap) {
  Stretches stretches;
  forStretches(wanted.data(), from, wanted.size(), gap,
               [&](size_t first, size_t count) { stretches.emplace_back(first, count); });
  return stretches;
}

TEST(Stretches, AreWhatIsWantedWithSmallGapsBetween) {
  const std::vector<uint8_t> wanted = {1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 0};
  EXPECT_EQ(of(wanted, 0, 0), (Stretches{{0, 1}, {2, 2}, {6, 1}, {10, 1}}));
  EXPECT_EQ(of(wanted, 0, 1), (Stretches{{0, 4}, {6, 1}, {10, 1}}));
  EXPECT_EQ(of(wanted, 0, 2), (Stretches{{0, 7}, {10, 1}}));
  EXPECT_EQ(of(wanted, 0, SIZE_MAX), (Stretches{{0, 11}}));
  EXPECT_EQ(of(wanted, 1, 0), (Stretches{{2, 2}, {6, 1}, {10, 1}}));
  EXPECT_EQ(of(wanted, 11, 5), Stretches{});
  EXPECT_EQ(of({}, 0, 5), Stretches{});
}

TEST(Stretches, HoldWhatIsWantedAndAsFewOthersAsTheGapAllows) {
  std::mt19937 random(59);
  for (int round = 0; round < 2000; round++) {
    std::vector<uint8_t> wanted(random() % 70);
    const unsigned every = 1 + random() % 9;
    for (uint8_t& each : wanted) each = random() % every == 0 ? 1 : 0;
    const size_t gap = random() % 6, from = wanted.empty() ? 0 : random() % wanted.size();
    size_t end = 0, seen = 0, all = 0;
    for (size_t b = from; b < wanted.size(); b++) all += wanted[b];
    for (const auto& [first, count] : of(wanted, from, gap)) {
      ASSERT_TRUE(wanted[first] == 1 && wanted[first + count - 1] == 1);
      if (end != 0) ASSERT_GT(first - end, gap);
      ASSERT_GE(first, from);
      end = first + count;
      size_t others = 0;
      for (size_t b = first; b < end; b++) {
        others = wanted[b] == 0 ? others + 1 : 0;
        seen += wanted[b];
        ASSERT_LE(others, gap);
      }
    }
    ASSERT_EQ(seen, all);
  }
}

}  // namespace
}  // namespace spillway
