#include <gtest/gtest.h>

#include <algorithm>

#include "../../model/Batch.h"

namespace spillway {
namespace fetched_pages_test {

constexpr uint32_t kPageTokens = 16, kFirstThere = 100;

struct Range {
  uint32_t first, tokens;
  std::vector<int32_t> pages;
  int32_t tail = -1, copyFrom = -1;
  uint32_t devicePages = UINT32_MAX;  // at most all
};

std::shared_ptr<Batch> batchOf(const std::vector<Range>& ranges) {
  auto batch = std::make_shared<Batch>();
  for (const Range& each : ranges) {
    BatchRange range{};
    range.firstPosition = each.first;
    range.tokens = each.tokens;
    range.firstPage = uint32_t(batch->pages.size());
    range.pageCount = uint32_t(each.pages.size());
    range.devicePages = std::min(each.devicePages, range.pageCount);
    range.tail = each.tail;
    range.copyFrom = each.copyFrom;
    for (const int32_t page : each.pages) range.spilled |= page < 0;
    batch->spilled |= range.spilled;
    batch->pages.insert(batch->pages.end(), each.pages.begin(), each.pages.end());
    batch->ranges.push_back(range);
  }
  return batch;
}

FetchedPages listed(const std::vector<Range>& ranges, uint32_t window = 0, uint32_t bufferPages = 64) {
  return listFetchedPages(*batchOf(ranges), window, kPageTokens, kFirstThere, bufferPages);
}

void expectMoves(const std::vector<PageMove>& found, const std::vector<PageMove>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); i++) {
    EXPECT_EQ(found[i].place, expected[i].place) << i;
    EXPECT_EQ(found[i].home, expected[i].home) << i;
  }
}

constexpr uint32_t kNone = FetchedPages::kNone;

TEST(FetchedPages, WhatWasThereComesAndWhatIsNewGoesBack) {
  const FetchedPages pages = listed({{40, 1, {101, 7, 8, 9}}});
  EXPECT_EQ(pages.placeOf, (std::vector<uint32_t>{kNone, 0, 1, kNone}));
  ASSERT_EQ(pages.groups.size(), 1u);
  expectMoves(pages.groups[0].loads, {{0, 7}, {1, 8}});
  expectMoves(pages.groups[0].stores, {{1, 8}});
  EXPECT_EQ(pages.mostPlaces, 2u);
  const FetchedPages fresh = listed({{0, 20, {7, 8}}});
  EXPECT_FALSE(fresh.loads);
  EXPECT_TRUE(fresh.stores);
  EXPECT_FALSE(listed({{40, 1, {101, 102, 103}}}).any());
}

TEST(FetchedPages, WhatTheProcessorAttendsToStays) {
  const FetchedPages pages = listed({{40, 1, {101, 7, 8, 9}, -1, -1, 2}, {20, 20, {4, 5, -3}, 6, -1, 1}});
  EXPECT_EQ(pages.placeOf, (std::vector<uint32_t>{kNone, 0, kNone, kNone, 1, kNone, kNone}));
  ASSERT_EQ(pages.groups.size(), 1u);
  expectMoves(pages.groups[0].loads, {{0, 7}, {1, 4}});
  EXPECT_FALSE(pages.stores);
  EXPECT_FALSE(listed({{40, 1, {1, 7, 8, 9}, -1, -1, 0}}).any());
}

TEST(FetchedPages, PagesOfTheDiskPassThroughStagingAndTheirTailUntilTheyAreComplete) {
  // Page 1 is complete and read, 2 is begun in the tail and becomes complete, 3 is begun in the tail.
  const FetchedPages pages = listed({{40, 10, {4, -6, -2, -9}, 5}});
  expectMoves(pages.groups[0].loads, {{0, 4}, {1, -1}, {2, 5}});
  expectMoves(pages.groups[0].stores, {{2, -2}, {3, 5}});
}

TEST(FetchedPages, WhatSeveralSeeComesOnceAndACopyFromItsSource) {
  const FetchedPages pages = listed({{40, 1, {1, 2, 3}}, {36, 4, {1, 2, 4}, -1, 3}});
  EXPECT_EQ(pages.placeOf, (std::vector<uint32_t>{0, 1, 2, 0, 1, 3}));
  expectMoves(pages.groups[0].loads, {{0, 1}, {1, 2}, {2, 3}, {3, 3}});
  expectMoves(pages.groups[0].stores, {{2, 3}, {3, 4}});
}

TEST(FetchedPages, WhatNobodySeesStays) {
  const FetchedPages pages = listed({{40, 1, {1, 2, 3}}}, 9);
  EXPECT_EQ(pages.placeOf, (std::vector<uint32_t>{kNone, kNone, 0}));
  EXPECT_EQ(listed({{40, 1, {1, 2, 3}}}, 10).placeOf, (std::vector<uint32_t>{kNone, 0, 1}));
}

TEST(FetchedPages, RangesThatABufferDoesNotHoldTogetherComeInGroups) {
  const std::vector<Range> rows = {{40, 1, {1, 2, 3}}, {40, 1, {1, 2, 4}}, {40, 1, {5, 6, 7}}};
  const FetchedPages pages = listed(rows, 0, 4);
  ASSERT_EQ(pages.groups.size(), 2u);
  EXPECT_EQ(pages.groups[0].firstRange, 0u);
  EXPECT_EQ(pages.groups[0].endRange, 2u);
  EXPECT_EQ(pages.groups[1].endRange, 3u);
  expectMoves(pages.groups[1].loads, {{0, 5}, {1, 6}, {2, 7}});
  EXPECT_EQ(listed(rows, 0, 3).groups.size(), 3u);
  // What they share comes again where they are apart.
  expectMoves(listed(rows, 0, 3).groups[1].loads, {{0, 1}, {1, 2}, {2, 4}});
  EXPECT_EQ(listed(rows, 0, 2).mostPlaces, 3u);  // more than a buffer has
}

}  // namespace fetched_pages_test
}  // namespace spillway
