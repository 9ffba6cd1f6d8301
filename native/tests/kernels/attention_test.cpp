// Attention against its definition, and its promise that a query's result depends on nothing but itself and what it
// sees, bit by bit.
#include <gtest/gtest.h>

#include "../../system/Error.h"
#include "../tries.h"
#include "attention_fixture.h"
#include "instructionSets.h"

namespace spillway {
namespace {

uint32_t oneOf(std::mt19937& random, std::initializer_list<uint32_t> choices) {
  return *(choices.begin() + random() % choices.size());
}

AttentionCase randomCase(std::mt19937& random) {
  AttentionCase c;
  const uint32_t group = oneOf(random, {1, 1, 2, 3, 4, 5, 7, 8, 9, 13});
  c.layout = {kCacheTypes[random() % 4], oneOf(random, {1, 1, 2, 3}),
              oneOf(random, {1, 5, 8, 16, 24, 32, 63, 64, 65, 80, 96, 128, 150}), oneOf(random, {16, 32, 48, 64, 128})};
  c.heads = group * c.layout.kvHeads;
  c.window = oneOf(random, {0, 0, 0, 1, 2, 5, 16, 33, 100});
  c.alibi = random() % 3 == 0;
  c.rounded = c.alibi && random() % 2;
  c.keep = random() % 3 == 0 ? 0.01f * static_cast<float>(1 + random() % 60) : 1.0f;
  c.denseBefore = oneOf(random, {0, 3, 20, 80, 1000});
  c.precision = random() % 2 ? Precision::Default : Precision::Float32;
  if (!c.alibi && (c.heads + c.layout.headDim) % 3 == 0) c.softCap = 1.5f;  // no draw: the others stay as they are
  c.sunk = (c.heads + c.layout.headDim) % 4 == 1;
  return c;
}

// The same, by integers that are made of 16-bit floats.
AttentionCase ofPrompt(AttentionCase c) {
  c.layout.type = CacheType::F16, c.precision = Precision::Default, c.denseBefore = 1000;
  return c;
}

void expectSame(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return;
  for (size_t i = 0; i < a.size(); i++) {
    uint32_t x, y;
    std::memcpy(&x, &a[i], 4), std::memcpy(&y, &b[i], 4);
    ASSERT_EQ(x, y) << what << ": element " << i << ", " << a[i] << " and " << b[i];
  }
}

void expectRight(const AttentionCase& c, const TestRow& row, const std::vector<float>& outputs) {
  const auto [keys, values] = asCached(c.layout, row);
  for (uint32_t position = 0; position < row.tokens; position++) {
    const bool rounded = isQuantised(c.layout.type) ? c.precision == Precision::Default : isRounded(c, position);
    const double tolerance = rounded ? 4e-4 : 4e-6;
    const std::vector<double> expected = referenceAttention(c, row, keys, values, position);
    for (size_t i = 0; i < expected.size(); i++) {
      const double output = outputs[position * row.queryWidth + i];
      if (!(std::fabs(output - expected[i]) <= tolerance))
        FAIL() << c.name() << ", position " << position << ", element " << i << ": found " << output << ", expected "
               << expected[i];
    }
  }
}

TEST(Attention, AgreesWithItsDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < tries(36, 60); round++) {
    AttentionCase c = randomCase(random);
    if (c.keep < 1)
      c.precision = Precision::Float32;  // rounded queries may choose another of two keys that are nearly equal
    TestRow row(c, 1 + random() % 150, random());
    expectRight(c, row, attendWhole(InstructionSet::Scalar, 1, c, row));
  }
}

TEST(Attention, CommonShapesInFull) {
  struct Shape {
    uint32_t heads, kvHeads, headDim;
  };
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{12, 12, 64}, Shape{8, 8, 80}, Shape{8, 8, 96}, Shape{8, 2, 128},
                             Shape{4, 1, 256}, Shape{71, 1, 64}, Shape{2, 1, 512}}) {
    for (CacheType type : kCacheTypes) {
      const AttentionCase c = {{type, shape.kvHeads, shape.headDim, 64}, shape.heads, 0, false, false};
      TestRow row(c, 140, shape.headDim);
      expectRight(c, row, attendWhole(bestInstructionSet(), 2, c, row));
    }
  }
}

TEST(Attention, LongRowsWithFalconsRoundedBias) {
  // Positions above 256 are rounded before they are multiplied; with three heads the slopes are no powers of two, so
  // that it shows.
  const AttentionCase c = {{CacheType::F32, 1, 16, 64}, 3, 0, true, true};
  TestRow row(c, 700, 5);
  expectRight(c, row, attendWhole(bestInstructionSet(), 1, c, row));
}

TEST(Attention, SoftCapsBoundScoresThatAreFarBeyondThem) {
  for (const CacheType type : kCacheTypes) {
    AttentionCase c = {{type, 2, 80, 32}, 6, 70, false, false};
    c.softCap = 2;
    TestRow row(c, 300, 12);
    for (float& query : row.queries) query *= 5;
    expectRight(c, row, attendWhole(bestInstructionSet(), 2, c, row));
  }
}

TEST(Attention, SinksTakeTheirShareOfEveryKindOfCache) {
  for (const CacheType type : kCacheTypes) {
    for (const float keep : {1.0f, 0.2f}) {
      AttentionCase c = {{type, 2, 80, 32}, 6, 0, false, false, keep};
      c.sunk = true;
      TestRow row(c, 300, 14);
      expectRight(c, row, attendWhole(bestInstructionSet(), 2, c, row));
    }
  }
}

// One so low counts nothing, bit by bit; one so high leaves nothing; and what is not a number shows.
TEST(Attention, SinksOfAnySize) {
  const AttentionCase c = {{CacheType::F16, 1, 64, 32}, 4, 0, false, false};
  TestRow row(c, 40, 15);
  const std::vector<float> expected = attendWhole(bestInstructionSet(), 1, c, row);
  const auto attendWith = [&](float sink) {
    ThreadPool pool(1);
    const std::vector<float> sinks(c.heads, sink);
    AttentionShape shape = {c.heads, 0.125f, 0, nullptr, false};
    shape.sinks = sinks.data();
    std::vector<float> outputs(row.queries.size());
    const AttentionRow whole = row.range(0, row.tokens, outputs.data());
    std::vector<float> memory(attentionScratchBytes(c.layout, c.heads, 1, 1) / sizeof(float) + 16);
    auto* aligned = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
    Scratch scratch(aligned, (memory.size() - 16) * sizeof(float));
    attend({kernelsFor(bestInstructionSet()), pool, Precision::Float32}, c.layout, shape, &whole, 1, row.queryWidth,
           row.queryWidth, scratch);
    return outputs;
  };
  expectSame(expected, attendWith(-std::numeric_limits<float>::infinity()), "minus infinity");
  expectSame(expected, attendWith(-1e30f), "very low");
  for (const float output : attendWith(1e30f)) ASSERT_EQ(output, 0.0f);
  for (const float output : attendWith(std::numeric_limits<float>::quiet_NaN())) ASSERT_TRUE(std::isnan(output));
}

TEST(Attention, SoftCapsHideNoScoreThatIsNoNumber) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    AttentionCase c = {{CacheType::F32, 1, 16, 32}, 1, 0, false, false};
    c.softCap = 2;
    TestRow row(c, 40, 13);
    std::fill_n(&row.queries[39 * 16], 16, odd);
    const std::vector<float> outputs = attendWhole(bestInstructionSet(), 1, c, row);
    for (size_t i = 0; i < outputs.size(); i++) ASSERT_EQ(std::isfinite(outputs[i]), i < 39 * 16) << i;
  }
}

TEST(Attention, SameBitsOnEveryInstructionSetAndWithAnyNumberOfThreads) {
  std::mt19937 random(2);
  for (int round = 0; round < tries(24, 40); round++) {
    const AttentionCase c = randomCase(random);
    // Every fourth row goes beyond a part of 256 positions; threads change nothing within an instruction set, so that
    // each meets one number of them.
    TestRow row(c, 1 + random() % (round % 4 == 0 ? 300 : 90), random());
    const std::vector<float> expected = attendWhole(InstructionSet::Scalar, 1, c, row);
    for (InstructionSet set : kSets) {
      if (!machineHas(set)) continue;
      const unsigned threads = 1 + (static_cast<unsigned>(round) + static_cast<unsigned>(set)) % 3;
      row.clear();
      expectSame(expected, attendWhole(set, threads, c, row),
                 c.name() + " on " + instructionSetName(set) + ", threads " + std::to_string(threads));
    }
  }
}

// What comes after a chunk is not stored yet while the chunk is computed: those slots are NaN.
TEST(Attention, SameBitsInOneGoInChunksAndTokenByToken) {
  std::mt19937 random(3);
  for (int round = 0; round < tries(36, 60); round++) {
    const AttentionCase c = randomCase(random);
    TestRow row(c, 1 + random() % 150, random());
    const InstructionSet set = bestInstructionSet();
    const std::vector<float> expected = attendWhole(set, 1, c, row);
    for (uint32_t most : {1u, 7u, 64u}) {
      row.clear();
      std::vector<float> outputs(expected.size());
      for (uint32_t first = 0; first < row.tokens;) {
        const uint32_t count = std::min<uint32_t>(1 + random() % most, row.tokens - first);
        row.store(kernelsFor(set), first + count);
        runAttention(set, 1, c, {row.range(first, count, &outputs[first * row.queryWidth])}, row.queryWidth,
                     row.queryWidth);
        first += count;
      }
      expectSame(expected, outputs, c.name() + " in chunks of up to " + std::to_string(most));
    }
  }
}

// Keys before a position that a device attends to: as if a window ended there; and what is handed over merges by its
// maximum and sum.
TEST(Attention, KeysElsewhereAreNotSeenAndPartialsAreToBeDivided) {
  std::mt19937 random(11);
  for (int round = 0; round < 36; round++) {
    AttentionCase c = randomCase(random);
    if (c.keep < 1) c.keep = 1;
    c.window = 0;
    c.sunk = false;  // whoever merges adds them
    TestRow row(c, 2 + random() % (round % 4 == 0 ? 400 : 90), random());
    const uint32_t position = row.tokens - 1, firstKey = uint32_t(random() % row.tokens);
    AttentionCase windowed = c;
    windowed.window = position - firstKey + 1;
    row.store(kernelsFor(bestInstructionSet()), row.tokens);
    std::vector<float> expected(row.queryWidth), outputs(row.queryWidth), partials(2 * c.heads, -1.0f);
    runAttention(bestInstructionSet(), 1, windowed, {row.range(position, 1, expected.data())}, row.queryWidth,
                 row.queryWidth);
    AttentionRow range = row.range(position, 1, outputs.data());
    range.firstKey = firstKey;
    std::vector<const uint8_t*> pages(row.pages);
    for (uint32_t p = 0; p < firstKey / c.layout.pageTokens; p++) pages[p] = nullptr;  // reading one would crash
    range.pages = pages.data();
    runAttention(bestInstructionSet(), 1, c, {range}, row.queryWidth, row.queryWidth);
    expectSame(expected, outputs, c.name() + ", keys from " + std::to_string(firstKey));
    range.partials = partials.data();
    runAttention(bestInstructionSet(), 1, c, {range}, row.queryWidth, row.queryWidth);
    for (size_t i = 0; i < outputs.size(); i++) outputs[i] /= partials[2 * (i / c.layout.headDim) + 1];
    expectSame(expected, outputs, c.name() + ", undivided");
    const float one = partials[2 * (random() % c.heads) + 1];
    EXPECT_GE(one, 0.999f);  // the largest score weighs 1
  }
}

TEST(Attention, SameBitsAloneAndInCompany) {
  std::mt19937 random(4);
  for (int round = 0; round < 30; round++) {
    const AttentionCase c = randomCase(random);
    const size_t stride = c.heads * c.layout.headDim + 3;
    std::vector<TestRow> rows;
    std::vector<uint32_t> firsts, counts;
    size_t tokens = 0;
    for (int i = 0; i < 12; i++) {
      rows.emplace_back(c, 1 + random() % 120, random());
      counts.push_back(i % 4 == 3 ? 0 : i % 2 ? 1 : 1 + random() % rows.back().tokens);
      firsts.push_back(rows.back().tokens - counts.back());
      rows.back().store(kernelsFor(bestInstructionSet()), rows.back().tokens);
      tokens += counts.back();
    }
    // Queries and outputs of all rows one after another, with a gap after each token that must stay as it is.
    std::vector<float> queries(tokens * stride), outputs(tokens * stride, 42.0f);
    std::vector<AttentionRow> ranges;
    size_t at = 0;
    for (size_t i = 0; i < rows.size(); i++) {
      ranges.push_back(
          {&queries[at * stride], &outputs[at * stride], firsts[i], counts[i], rows[i].pages.data(), c.denseBefore});
      for (uint32_t t = 0; t < counts[i]; t++, at++)
        std::copy_n(&rows[i].queries[(firsts[i] + t) * rows[i].queryWidth], rows[i].queryWidth, &queries[at * stride]);
    }
    runAttention(bestInstructionSet(), 1 + round % 3, c, ranges, stride, stride);
    at = 0;
    for (size_t i = 0; i < rows.size(); i++) {
      std::vector<float> alone(counts[i] * rows[i].queryWidth), together;
      if (counts[i] > 0)
        runAttention(bestInstructionSet(), 1, c, {rows[i].range(firsts[i], counts[i], alone.data())},
                     rows[i].queryWidth, rows[i].queryWidth);
      for (uint32_t t = 0; t < counts[i]; t++, at++) {
        together.insert(together.end(), &outputs[at * stride], &outputs[at * stride] + rows[i].queryWidth);
        for (size_t gap = rows[i].queryWidth; gap < stride; gap++) ASSERT_EQ(outputs[at * stride + gap], 42.0f);
      }
      expectSame(alone, together, c.name() + ", row " + std::to_string(i));
    }
  }
}

// Longer than a part, so that partials merge, in the middle of pages too: 256 is no multiple of 48.
// Rows whose tables begin with the same pages are attended to together: a tree of rows, some of which part in the
// middle of what is attended to at once.
TEST(Attention, SameBitsAloneAndBesideRowsThatShareTheirFirstPages) {
  std::mt19937 random(11);
  for (int round = 0; round < tries(24, 48); round++) {
    AttentionCase c = randomCase(random);
    if (round % 2 == 0) c.window = 0, c.keep = 1.0f;
    if (round % 4 == 1) c.window = 0, c.keep = 0.01f * static_cast<float>(1 + random() % 60);
    if (round % 6 == 4) c = ofPrompt(c);
    const InstructionSet set = kSets[random() % std::size(kSets)];
    if (!machineHas(set)) continue;
    const uint32_t pageTokens = c.layout.pageTokens;
    std::vector<TestRow> rows;
    for (uint32_t r = 0, count = 2 + random() % 12; r < count; r++) {
      const uint32_t own = oneOf(random, {1, 1, 1, 2, 5, 21, 70}), prefix = 16 + (random() % 24) * 16;
      TestRow row(c, prefix + own, random());
      row.store(kernelsFor(set), row.tokens);
      // Of the row before, or the first one, as many pages as both have before their last tokens.
      if (r > 0) {
        const TestRow& other = rows[random() % 3 == 0 ? 0 : r - 1];
        const uint32_t most = std::min(prefix, other.tokens - 1) / pageTokens;
        const uint32_t taken = random() % 4 == 0 ? random() % (most + 1) : most;
        std::copy_n(other.pages.begin(), taken, row.pages.begin());
      }
      rows.push_back(std::move(row));
    }
    const size_t width = rows[0].queryWidth;
    struct Asked {
      uint32_t row, first, count;
    };
    std::vector<Asked> asked;
    uint32_t tokens = 0;
    for (uint32_t r = 0; r < rows.size(); r++) {
      const uint32_t count = std::min(rows[r].tokens - 1, oneOf(random, {1, 1, 1, 3, 20, 60, 200}));
      asked.push_back({r, rows[r].tokens - count, count});
      tokens += count;
    }
    std::vector<float> together(tokens * width), alone(tokens * width);
    std::vector<AttentionRow> ranges;
    uint32_t at = 0;
    for (const Asked& a : asked) {
      ranges.push_back(rows[a.row].range(a.first, a.count, &together[at * width]));
      runAttention(set, 1, c, {rows[a.row].range(a.first, a.count, &alone[at * width])}, width, width);
      at += a.count;
    }
    runAttention(set, 1 + random() % 3, c, ranges, width, width);
    expectSame(alone, together, c.name() + " on " + instructionSetName(set) + ", round " + std::to_string(round));
  }
}

// Two rows of the same pages, of which the last ones that both have are not seen by their first tokens: these may not
// even multiply such a value by zero.
TEST(Attention, RowsTogetherMultiplyNoValueThatOneOfThemDoesNotSee) {
  for (InstructionSet set : kSets) {
    if (!machineHas(set)) continue;
    const AttentionCase floats = {{CacheType::F32, 2, 16, 16}, 6, 0, false, false};
    for (const AttentionCase& c : {floats, ofPrompt(floats)}) {
      // With 384 tokens the first part is all shared, and the second in part.
      for (const uint32_t tokens : {128u, 384u}) {
        TestRow a(c, tokens, 1);
        for (uint32_t position = tokens - 7; position < tokens; position++)
          a.values[position * a.keyWidth] = a.values[position * a.keyWidth + 16] =
              std::numeric_limits<float>::infinity();
        a.store(kernelsFor(set), a.tokens);
        TestRow b(c, tokens, 2);
        b.pages = a.pages;
        std::vector<float> together(2 * 4 * a.queryWidth), alone(together.size());
        std::vector<AttentionRow> ranges;
        for (uint32_t r = 0; r < 2; r++) {
          const TestRow& row = r == 0 ? a : b;
          const uint32_t first = tokens - 10;
          ranges.push_back(row.range(first, 4, &together[r * 4 * row.queryWidth]));
          runAttention(set, 1, c, {row.range(first, 4, &alone[r * 4 * row.queryWidth])}, row.queryWidth,
                       row.queryWidth);
        }
        runAttention(set, 1, c, ranges, a.queryWidth, a.queryWidth);
        for (size_t i = 0; i < 3 * a.queryWidth; i++) ASSERT_TRUE(std::isfinite(together[i])) << "element " << i;
        expectSame(alone, together, c.name() + " on " + instructionSetName(set));
      }
    }
  }
}

TEST(Attention, SameBitsWhateverThePage) {
  for (CacheType type : kCacheTypes) {
    for (uint32_t window : {0u, 270u}) {
      for (float keep : {1.0f, 0.1f}) {
        std::vector<float> expected;
        for (uint32_t pageTokens : {32u, 48u, 512u}) {
          const AttentionCase c = {{type, 1, 80, pageTokens}, 3, window, false, false, keep, 500, Precision::Default};
          TestRow row(c, 540, 11);
          const std::vector<float> outputs = attendWhole(bestInstructionSet(), 2, c, row);
          if (expected.empty()) expected = outputs;
          expectSame(expected, outputs, c.name());
        }
      }
    }
  }
}

TEST(Attention, OutputsMayTakeThePlaceOfTheQueries) {
  const AttentionCase c = {{CacheType::F16, 3, 64, 64}, 9, 0, false, false};
  TestRow row(c, 100, 6);
  const std::vector<float> expected = attendWhole(bestInstructionSet(), 2, c, row);
  std::vector<float> both = row.queries;
  runAttention(bestInstructionSet(), 2, c, {{both.data(), both.data(), 0, row.tokens, row.pages.data()}},
               row.queryWidth, row.queryWidth);
  expectSame(expected, both, c.name());
}

TEST(Attention, PagesOutsideTheWindowAreNotTouched) {
  for (CacheType type : kCacheTypes) {
    const AttentionCase c = {{type, 2, 8, 16}, 4, 20, false, false};
    TestRow row(c, 200, 7);
    const std::vector<float> expected = attendWhole(bestInstructionSet(), 1, c, row);
    std::vector<float> outputs(3 * row.queryWidth);
    for (uint32_t first : {100u, 115u, 197u}) {
      std::vector<const uint8_t*> pages(first / 16 + 2, nullptr);  // the window of query p begins at p - 19
      for (uint32_t page = (first - 19) / 16; page <= (first + 2) / 16; page++) pages[page] = row.pages[page];
      runAttention(bestInstructionSet(), 1, c,
                   {{&row.queries[first * row.queryWidth], outputs.data(), first, 3, pages.data()}}, row.queryWidth,
                   row.queryWidth);
      expectSame(
          std::vector<float>(&expected[first * row.queryWidth], &expected[first * row.queryWidth] + outputs.size()),
          outputs, c.name());
    }
  }
}

TEST(Attention, WhatIsNotFiniteReachesOnlyTheQueriesThatSeeIt) {
  const AttentionCase floats = {{CacheType::F32, 1, 16, 32}, 3, 10, false, false};
  for (const AttentionCase& c : {floats, ofPrompt(floats)})
    for (const bool ofKey : {false, true}) {
      TestRow row(c, 80, 8);
      const std::vector<float> expected = attendWhole(bestInstructionSet(), 1, c, row);
      std::vector<float>& changed = ofKey ? row.keys : row.values;
      std::fill_n(&changed[40 * row.keyWidth], row.keyWidth,
                  ofKey ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity());
      row.clear();
      const std::vector<float> outputs = attendWhole(bestInstructionSet(), 1, c, row);
      for (uint32_t position = 0; position < row.tokens; position++)
        for (size_t i = 0; i < row.queryWidth; i++) {
          const size_t at = position * row.queryWidth + i;
          if (position >= 40 && position < 50)
            ASSERT_FALSE(std::isfinite(outputs[at])) << c.name() << ", " << position;
          else
            ASSERT_EQ(outputs[at], expected[at]) << c.name() << ", " << position;
        }
    }
}

// Also where its weight is nothing, in blocks of which a query sees all and in those of which it sees a part.
TEST(Attention, WhatIsNotFiniteShowsWhateverItsWeight) {
  for (const CacheType type : {CacheType::F16, CacheType::Q8}) {
    AttentionCase c = ofPrompt({{type, 1, 16, 32}, 1, 0, false, false});
    c.layout.type = type;
    TestRow row(c, 64, 21);
    std::fill(row.queries.begin(), row.queries.end(), 40.0f);
    std::fill(row.keys.begin(), row.keys.end(), 40.0f);
    std::fill_n(&row.keys[41 * row.keyWidth], row.keyWidth, -40.0f);
    row.values[41 * row.keyWidth] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> outputs = attendWhole(bestInstructionSet(), 1, c, row);
    for (uint32_t position = 0; position < row.tokens; position++)
      ASSERT_EQ(std::isfinite(outputs[position * row.queryWidth]), position < 41) << c.name() << ", " << position;
  }
}

TEST(Attention, QueriesOfPromptsThatAreNoNumbersShow) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const AttentionCase c = ofPrompt({{CacheType::F16, 1, 16, 32}, 1, 0, false, false});
    TestRow row(c, 40, 13);
    row.queries[39 * 16 + 5] = odd;
    const std::vector<float> outputs = attendWhole(bestInstructionSet(), 1, c, row);
    for (size_t i = 0; i < outputs.size(); i++) ASSERT_EQ(std::isfinite(outputs[i]), i < 39 * 16) << i;
  }
}

// The largest integers of all, with one sign: their sum is as near to overflowing as any.
TEST(Attention, RoundedKeysThatAreLikeTheirQueriesScoreHighest) {
  for (const uint32_t headDim : {1u, 2u, 7u, 8u, 31u, 32u, 64u, 127u, 128u, 255u, 512u}) {
    const AttentionCase c = ofPrompt({{CacheType::F16, 1, headDim, 32}, 2, 0, false, false});
    TestRow row(c, 40, headDim);
    std::fill(row.queries.begin(), row.queries.end(), 3.0f);
    std::fill(row.keys.begin(), row.keys.end(), -2.0f);
    std::fill_n(&row.keys[7 * row.keyWidth], headDim, 2.0f);
    for (const InstructionSet set : kSets) {
      if (!machineHas(set)) continue;
      row.clear();
      expectRight(c, row, attendWhole(set, 1, c, row));
    }
  }
}

TEST(Attention, ScoresOfAnySizeStayFinite) {
  const AttentionCase floats = {{CacheType::F32, 1, 8, 16}, 2, 0, false, false};
  for (const AttentionCase& c : {floats, ofPrompt(floats)})
    for (float size : {1e-20f, 30.0f, 1e4f, 1e15f}) {
      TestRow row(c, 60, 9);
      for (float& key : row.keys) key *= size;
      const std::vector<float> outputs = attendWhole(bestInstructionSet(), 1, c, row);
      for (float output : outputs) ASSERT_TRUE(std::isfinite(output)) << c.name() << ", " << size;
      row.clear();
      expectSame(attendWhole(InstructionSet::Scalar, 1, c, row), outputs, "keys of size " + std::to_string(size));
    }
}

TEST(Attention, KeysBeyondTheRangeOfAHalfAreClamped) {
  const AttentionCase floats = {{CacheType::F16, 1, 16, 16}, 1, 0, false, false};
  for (const AttentionCase& c : {floats, ofPrompt(floats)}) {
    TestRow row(c, 40, 10);
    for (size_t i = 0; i < row.keys.size(); i += 3) row.keys[i] *= 1e6f, row.values[i] *= 1e6f;
    for (float output : attendWhole(bestInstructionSet(), 1, c, row)) ASSERT_TRUE(std::isfinite(output));
  }
}

TEST(Attention, ScratchIsBoundedByTheShapeAndNeverExceeded) {
  const CacheLayout layout = {CacheType::F16, 3, 64, 64};
  // However many tokens a row brings; per row only a counter.
  EXPECT_LE(attentionScratchBytes(layout, 9, 1, 1), 248u << 10);
  EXPECT_LE(attentionScratchBytes({CacheType::Q8, 3, 64, 64}, 9, 1, 1), 64u << 10);
  EXPECT_LE(attentionScratchBytes(layout, 9, 1000, 1) - attentionScratchBytes(layout, 9, 1, 1), 3 * 8192u);
  EXPECT_EQ(attentionScratchBytes(layout, 9, 1, 3) - attentionScratchBytes(layout, 9, 1, 2),
            attentionScratchBytes(layout, 9, 1, 2) - attentionScratchBytes(layout, 9, 1, 1));
}

TEST(CacheLayout, PageBytesAndRefusals) {
  EXPECT_EQ(cachePageBytes({CacheType::F16, 3, 64, 64}), 3u * 64 * 64 * 2 * 2);
  EXPECT_EQ(cachePageBytes({CacheType::F32, 2, 8, 16}), 2u * 16 * (8 + 16) * 4);
  EXPECT_EQ(cachePageBytes({CacheType::F16, 1, 1, 16}) % 64, 0u);
  for (const CacheLayout& layout : {CacheLayout{CacheType::F16, 1, 64, 0}, CacheLayout{CacheType::F16, 1, 64, 24},
                                    CacheLayout{CacheType::F16, 1, 0, 16}, CacheLayout{CacheType::F16, 1, 513, 16},
                                    CacheLayout{CacheType::F16, 0, 64, 16}}) {
    try {
      cachePageBytes(layout);
      ADD_FAILURE() << "a layout that no kernel handles was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
    }
  }
}

}  // namespace
}  // namespace spillway
