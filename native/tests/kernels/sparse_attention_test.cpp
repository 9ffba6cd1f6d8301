// Top-k sparse attention beyond its definition, which attention_test.cpp checks: what is kept where scores tie or are
// no numbers, and what is not read.
#include <gtest/gtest.h>

#include "attention_fixture.h"
#include "instructionSets.h"

namespace spillway {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

// Attention of the last of `tokens` tokens; with values that are the token's own number.
std::vector<float> lastOutput(const AttentionCase& c, TestRow& row) {
  row.clear();
  row.store(kernelsFor(bestInstructionSet()), row.tokens);
  std::vector<float> output(row.queryWidth);
  runAttention(bestInstructionSet(), 1, c, {row.range(row.tokens - 1, 1, output.data())}, row.queryWidth,
               row.queryWidth);
  return output;
}

AttentionCase sparseCase(CacheType type, float keep) { return {{type, 1, 16, 32}, 1, 0, false, false, keep, 0}; }

TEST(SparseAttention, OfEqualScoresTheLaterOnesAreKept) {
  for (CacheType type : kCacheTypes) {
    const AttentionCase c = sparseCase(type, 0.25f);
    TestRow row(c, 40, 1);
    std::fill(row.keys.begin(), row.keys.end(), 1.0f);
    for (size_t i = 0; i < row.values.size(); i++) row.values[i] = static_cast<float>(i / row.keyWidth);
    for (float output : lastOutput(c, row)) ASSERT_NEAR(output, (30 + 39) / 2.0f, 1e-4);  // the last 10 of 40
  }
}

TEST(SparseAttention, TheNewestKeyIsKeptHoweverLowItsScore) {
  const AttentionCase c = sparseCase(CacheType::F32, 0.05f);
  TestRow row(c, 20, 2);
  for (size_t i = 0; i < row.keys.size(); i++)
    row.keys[i] = row.queries[19 * 16 + i % 16] * (i / 16 == 19 ? -10.0f : 10.0f);
  const std::vector<float> output = lastOutput(c, row);
  for (size_t d = 0; d < 16; d++) ASSERT_EQ(output[d], row.values[19 * 16 + d]);  // one of twenty
}

TEST(SparseAttention, TheShareIsRoundedUpAndNotTwice) {
  // 0.1 as a float is a little more than 0.1: of 2000 keys 200 are kept, not 201; of 2001 it is 201.
  for (const auto& [tokens, kept] :
       {std::pair<uint32_t, int>{2000, 200}, {2001, 201}, {1999, 200}, {10, 1}, {11, 2}, {1, 1}}) {
    const AttentionCase c = sparseCase(CacheType::F32, 0.1f);
    TestRow row(c, tokens, 3);
    std::fill(row.keys.begin(), row.keys.end(), 0.0f);
    for (size_t i = 0; i < row.values.size(); i++) row.values[i] = static_cast<float>(i / 16 + 1 == tokens);
    for (float output : lastOutput(c, row)) ASSERT_NEAR(1.0 / output, kept, 1e-3) << tokens;
  }
}

TEST(SparseAttention, ValuesThatAreNotKeptAreNotRead) {
  const AttentionCase c = sparseCase(CacheType::F32, 0.3f);
  TestRow row(c, 100, 4);
  for (size_t t = 0; t < 100; t++) {
    const bool wanted = t % 4 == 1;  // 25 keys, and 30 are kept
    for (size_t d = 0; d < 16; d++)
      row.keys[t * 16 + d] = row.queries[99 * 16 + d] * (wanted ? 1.0f : t % 20 == 0 || t == 99 ? 0.5f : -1.0f);
    if (!wanted && t % 20 != 0 && t != 99) std::fill_n(&row.values[t * 16], 16, kInfinite);
  }
  for (float output : lastOutput(c, row)) ASSERT_TRUE(std::isfinite(output));
}

TEST(SparseAttention, KeepingAllIsAsGoodAsDense) {
  for (CacheType type : kCacheTypes) {
    AttentionCase c = {{type, 2, 80, 32}, 6, 50, false, false, 0.9999999f, 0};
    TestRow row(c, 130, 5);
    const std::vector<float> sparse = lastOutput(c, row);
    c.keep = 1.0f;
    const std::vector<float> dense = lastOutput(c, row);
    for (size_t i = 0; i < dense.size(); i++) ASSERT_NEAR(sparse[i], dense[i], 2e-6) << cacheTypeName(type);
  }
}

TEST(SparseAttention, ScoresThatAreNoNumbersShowAndDoNoHarm) {
  for (CacheType type : kCacheTypes) {
    for (float odd : {std::numeric_limits<float>::quiet_NaN(), kInfinite, -kInfinite}) {
      const AttentionCase c = sparseCase(type, 0.2f);
      TestRow row(c, 70, 6);
      std::fill_n(&row.queries[69 * 16], 16, odd);
      for (float output : lastOutput(c, row))
        ASSERT_FALSE(std::isfinite(output)) << cacheTypeName(type) << " " << odd << " gave " << output;
    }
    // One key without a number: it is among the kept.
    if (isQuantised(type)) continue;
    const AttentionCase c = sparseCase(type, 0.1f);
    TestRow row(c, 70, 7);
    row.keys[16] = std::numeric_limits<float>::quiet_NaN();
    for (float output : lastOutput(c, row)) ASSERT_TRUE(std::isnan(output));
  }
}

// What is chosen is what is read: with the values of all others as no numbers at all nothing changes. Several rows, the
// first two of which have their first pages in common; keys beside their values, and apart.
TEST(SparseAttention, ChosenKeysAreThoseWhoseValuesCount) {
  for (const InstructionSet set : kSets) {
    for (const CacheType type : kCacheTypes) {
      for (const bool apart : {false, true}) {
        AttentionCase c = {{type, 2, 80, 32, false, apart}, 6, 0, true, false, 0.1f, 0};
        c.precision = Precision::Default;
        std::vector<TestRow> rows;
        for (unsigned seed = 1; seed < 4; seed++) rows.emplace_back(c, 100 + 60 * seed, seed);
        std::vector<AttentionRow> ranges;
        std::vector<std::vector<float>> outputs(3);
        for (size_t r = 0; r < 3; r++) {
          rows[r].store(kernelsFor(set), rows[r].tokens);
          outputs[r].resize(3 * rows[r].queryWidth, -1);
          ranges.push_back(rows[r].range(rows[r].tokens - 3, r == 2 ? 3 : 1, outputs[r].data()));
        }
        std::copy_n(rows[0].pages.begin(), 4, rows[1].pages.begin());
        std::vector<std::vector<uint64_t>> bits;
        for (AttentionRow& range : ranges)
          range.chosen = bits.emplace_back(2 * chosenWords(range.firstPosition, range.tokens)).data();
        runAttention(set, 2, c, ranges, rows[0].queryWidth, rows[0].queryWidth);
        for (const std::vector<float>& output : outputs)
          for (float each : output) ASSERT_EQ(each, -1) << "nothing is written";
        for (AttentionRow& range : ranges) range.chosen = nullptr;
        runAttention(set, 2, c, ranges, rows[0].queryWidth, rows[0].queryWidth);
        const std::vector<std::vector<float>> expected = outputs;
        size_t kept = 0;
        for (size_t r = 0; r < 3; r++) {
          const size_t words = bits[r].size() / 2;
          for (uint32_t head = 0; head < 2; head++) {
            for (uint32_t t = 0; t < rows[r].tokens; t++) {
              const bool chosen = t / 64 < words && (bits[r][head * words + t / 64] >> t % 64 & 1) != 0;
              kept += chosen ? 1 : 0;
              // The first rows' common pages are wanted by both.
              if (chosen || isQuantised(type) || r < 2) continue;
              forValueBytes(c.layout, t % 32, [&](size_t at, size_t n) {
                std::memset(const_cast<uint8_t*>(rows[r].pages[t / 32]) + cacheValuesOffset(c.layout, head) + at, 0xff,
                            n);
              });
            }
          }
        }
        EXPECT_LT(kept, 2u * (160 + 220 + 280) / 3);
        runAttention(set, 2, c, ranges, rows[0].queryWidth, rows[0].queryWidth);
        for (size_t r = 0; r < 3; r++)
          ASSERT_EQ(std::memcmp(outputs[r].data(), expected[r].data(), outputs[r].size() * sizeof(float)), 0)
              << c.name() << (apart ? ", apart" : "") << ", row " << r;
      }
    }
  }
}

TEST(SparseAttention, ScratchIsBoundedByTheContext) {
  const CacheLayout layout = {CacheType::F16, 3, 64, 64};
  const size_t dense = attentionScratchBytes(layout, 9, 1, 2);
  EXPECT_EQ(attentionScratchBytes(layout, 9, 1, 2, 0), dense);
  EXPECT_LE(attentionScratchBytes(layout, 9, 1, 2, 8192) - dense, 2u * 8192 * 4 * 10);
  // However many heads share one KV head.
  const CacheLayout one = {CacheType::F16, 1, 64, 64};
  EXPECT_LE(attentionScratchBytes(one, 71, 1, 1, 8192) - attentionScratchBytes(one, 71, 1, 1), 8192u * 40);
}

}  // namespace
}  // namespace spillway
