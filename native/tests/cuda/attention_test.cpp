// Attention over pages that the CPU has written, against the CPU's attention; storing, against the CPU's pages.
#include "rowsOnDevice.h"

namespace spillway::cuda {
namespace {

// The shapes of families that there are, and edges: one head for all, heads of no round size, pages of 16, windows,
// slopes.
const AttentionCase kCases[] = {
    {{CacheType::F16, 2, 64, 32}, 2, 0, false, false},
    {{CacheType::F16, 3, 64, 64}, 9, 0, false, false},
    {{CacheType::F16, 1, 128, 16}, 8, 0, false, false},
    {{CacheType::F16, 1, 32, 48}, 11, 20, false, false},
    {{CacheType::F16, 2, 80, 32}, 4, 0, true, false},
    {{CacheType::F16, 1, 64, 16}, 2, 0, true, true},
    {{CacheType::F16, 1, 256, 32}, 3, 33, true, false},
    {{CacheType::F16, 1, 10, 16}, 3, 0, false, false},
    {{CacheType::F16, 1, 512, 16}, 1, 0, false, false},
    {{CacheType::F32, 2, 48, 32}, 4, 0, false, false},
    {{CacheType::F32, 1, 300, 16}, 2, 17, false, false},
    {{CacheType::F32, 1, 33, 64}, 1, 0, true, false},
    {{CacheType::Q8, 2, 64, 32}, 2, 0, false, false},
    {{CacheType::Q4, 2, 64, 32}, 2, 0, false, false},
    {{CacheType::Q8, 1, 128, 48}, 11, 20, false, false},
    {{CacheType::Q4, 1, 128, 16}, 11, 0, true, true},
    {{CacheType::Q8, 1, 10, 16}, 3, 0, false, false},
    {{CacheType::Q4, 2, 80, 32}, 4, 0, true, false},
    {{CacheType::Q4, 1, 300, 16}, 2, 17, false, false},
    {{CacheType::Q8, 1, 256, 32}, 3, 33, true, false},
    {{CacheType::F16, 2, 256, 32}, 4, 0, false, false, 1, 0, Precision::Float32, 1.5f},
    {{CacheType::F16, 1, 64, 16}, 2, 20, false, false, 1, 0, Precision::Float32, 1.5f},
    {{CacheType::F32, 1, 48, 32}, 2, 0, false, false, 1, 0, Precision::Float32, 1.5f},
    {{CacheType::Q8, 1, 64, 32}, 2, 0, false, false, 1, 0, Precision::Float32, 1.5f},
    {{CacheType::Q4, 1, 128, 16}, 3, 40, false, false, 1, 0, Precision::Float32, 1.5f},
    {{CacheType::F16, 2, 64, 32}, 16, 0, false, false, 1, 0, Precision::Float32, 0, true},
    {{CacheType::F16, 1, 64, 16}, 8, 20, false, false, 1, 0, Precision::Float32, 1.5f, true},
    {{CacheType::F32, 2, 48, 32}, 4, 0, false, false, 1, 0, Precision::Float32, 0, true},
    {{CacheType::Q8, 1, 64, 32}, 8, 0, false, false, 1, 0, Precision::Float32, 0, true},
    {{CacheType::Q4, 1, 64, 16}, 3, 40, true, false, 1, 0, Precision::Float32, 0, true},
};

class CudaAttention : public testing::TestWithParam<AttentionCase> {
 protected:
  // Scores of the CPU's own kernel over the same pages.
  std::vector<float> expected(TestRow& row) const { return attendWhole(bestInstructionSet(), 1, GetParam(), row); }
};

TEST_P(CudaAttention, DecodingAgreesWithTheCpuAndATokenAloneHasTheSameBits) {
  const AttentionCase& c = GetParam();
  std::vector<TestRow> rows;
  rows.emplace_back(c, 530, 1);  // three parts
  rows.emplace_back(c, 37, 2);
  const std::vector<RowsOnDevice::Part> parts = {{0, 529, 1}, {1, 36, 1}, {0, 0, 1}, {0, 255, 2}, {1, 15, 2}};
  const RowsOnDevice device(c, rows);
  const std::vector<float> first = expected(rows[0]), second = expected(rows[1]);
  const size_t width = rows[0].queryWidth;
  std::vector<float> wanted;
  for (const auto& part : parts) {
    const std::vector<float> some = slice(part.row == 0 ? first : second, part.first * width, part.count * width);
    wanted.insert(wanted.end(), some.begin(), some.end());
  }
  underEverySeed([&] {
    const std::vector<float> outputs = device.attend(rows, parts, false);
    expectClose(outputs, wanted, 2e-6f, 2e-5f, c.name());
    expectSame(device.attend(rows, {{0, 256, 1}}, false), slice(outputs, 4 * width, width), "alone");
    expectSame(
        device.attend(rows, {{1, 36, 1}, {1, 16, 1}}, false, true),
        [&] {
          std::vector<float> both = slice(outputs, width, width);
          const std::vector<float> other = slice(outputs, 6 * width, width);
          both.insert(both.end(), other.begin(), other.end());
          return both;
        }(),
        "in place");
  });
}

// Tokens of a bundle meet what they have in common together: whole parts, and parts that they go on in by themselves.
TEST_P(CudaAttention, TokensTogetherHaveTheBitsOfTokensAlone) {
  const AttentionCase& c = GetParam();
  if (c.window != 0) return;
  std::vector<TestRow> rows;
  rows.emplace_back(c, 530, 1);
  rows.emplace_back(c, 90, 2);
  const std::vector<RowsOnDevice::Part> parts = {{0, 529, 1}, {1, 70, 2}, {0, 383, 2}, {0, 256, 2}, {1, 63, 1}};
  const RowsOnDevice device(c, rows);
  const uint32_t most = mostTogether(c.layout, {c.heads, 1, 0, nullptr, false});
  ASSERT_EQ(most, c.layout.headDim > 256   ? 8 / c.heads
                  : c.layout.headDim > 128 ? 16 / (c.heads / c.layout.kvHeads)
                                           : 32 / std::min(8u, c.heads / c.layout.kvHeads));
  std::vector<RowsOnDevice::Bundle> bundles = {{{2, 1}, 64}, {{6, 0, 3}, 256}, {{4, 5}, 256}};
  if (most > 3) bundles = {{{2, 7, 1}, 64}, {{5, 0, 6, 4}, 256}};
  if (most > 5) bundles.push_back({{3}, 384});
  underEverySeed([&] {
    expectSame(device.attend(rows, parts, false, false, bundles), device.attend(rows, parts, false), c.name());
  });
}

TEST_P(CudaAttention, PromptsAgreeWithTheCpuInOneGoAndInChunks) {
  const AttentionCase& c = GetParam();
  if (!hasPrefillAttention(isQuantised(c.layout.type) ? plainLayout(c.layout) : c.layout)) {
    EXPECT_TRUE(c.layout.type == CacheType::F32 || c.layout.headDim % 16 != 0 || c.layout.headDim > 256);
    return;
  }
  std::vector<TestRow> rows;
  rows.emplace_back(c, 100, 3);
  rows.emplace_back(c, 21, 4);
  const RowsOnDevice device(c, rows);
  const size_t width = rows[0].queryWidth;
  std::vector<float> wanted = expected(rows[0]);
  const std::vector<float> second = expected(rows[1]);
  wanted.insert(wanted.end(), second.begin(), second.end());
  underEverySeed([&] {
    const std::vector<float> outputs = device.attend(rows, {{0, 0, 100}, {1, 0, 21}}, true);
    // Queries and weights lose 2^-11.
    expectClose(outputs, wanted, 6e-3f, 4e-3f, c.name());
    expectSame(
        device.attend(rows, {{0, 70, 30}, {0, 7, 1}}, true),
        [&] {
          std::vector<float> both = slice(outputs, 70 * width, 30 * width);
          const std::vector<float> other = slice(outputs, 7 * width, width);
          both.insert(both.end(), other.begin(), other.end());
          return both;
        }(),
        "in chunks");
  });
}

TEST_P(CudaAttention, StoredTokensHaveTheCpusBytes) {
  const AttentionCase& c = GetParam();
  const uint32_t tokens = c.layout.pageTokens + 5;
  TestRow row(c, tokens, 5);
  row.keys[3] = 1e6f;  // beyond the range of a half
  row.values[4] = -1e6f;
  row.keys[5] = std::numeric_limits<float>::infinity();
  row.store(kernelsFor(bestInstructionSet()), tokens);
  const size_t pageBytes = cachePageBytes(c.layout);
  underEverySeed([&] {
    const DeviceArray<uint8_t> first(std::vector<uint8_t>(pageBytes, 0xff)),
        second(std::vector<uint8_t>(pageBytes, 0xff));
    const DeviceArray<const uint8_t*> table({first.get(), second.get()});
    std::vector<AttentionToken> list;
    for (uint32_t i = 0; i < tokens; i++) list.push_back({table.get(), i});
    const DeviceArray<AttentionToken> at(list);
    const DeviceArray<float> keys(row.keys), values(row.values);
    storeTokens(testStream(), c.layout, at.get(), tokens, keys.get(), values.get(), row.keyWidth);
    EXPECT_TRUE(std::equal(row.pages[0], row.pages[0] + pageBytes, first.values().begin()));
    EXPECT_TRUE(std::equal(row.pages[1], row.pages[1] + pageBytes, second.values().begin()));
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaAttention, testing::ValuesIn(kCases));

TEST(CudaAttentionPages, OutsideTheWindowAreNotTouched) {
  const AttentionCase c = {{CacheType::F16, 1, 64, 16}, 2, 10, false, false};
  std::vector<TestRow> rows;
  rows.emplace_back(c, 100, 6);
  const std::vector<float> wanted =
      slice(attendWhole(bestInstructionSet(), 1, c, rows[0]), 96 * rows[0].queryWidth, 4 * rows[0].queryWidth);
  // Positions 80 and on; pages before are null, and reading one would crash.
  const size_t pageBytes = cachePageBytes(c.layout);
  std::vector<DeviceArray<uint8_t>> kept;
  std::vector<const uint8_t*> table = {nullptr, nullptr, nullptr, nullptr, nullptr};
  for (size_t i = 5; i < rows[0].pages.size(); i++) {
    kept.emplace_back(std::vector<uint8_t>(rows[0].pages[i], rows[0].pages[i] + pageBytes));
    table.push_back(kept.back().get());
  }
  const DeviceArray<const uint8_t*> pages(table);
  const DeviceArray<AttentionToken> tokens(
      {{pages.get(), 96}, {pages.get(), 97}, {pages.get(), 98}, {pages.get(), 99}});
  const DeviceArray<float> queries(slice(rows[0].queries, 96 * rows[0].queryWidth, 4 * rows[0].queryWidth)),
      outputs(wanted.size());
  const AttentionShape shape = {2, 0.125f, 10, nullptr, false};
  const DeviceArray<AttentionPartial> weights(8);
  const DeviceArray<float> values(8 * 64);
  decodeAttention(testStream(), c.layout, shape, tokens.get(), 4, queries.get(), 128, outputs.get(), 128,
                  {weights.get(), values.get(), 1});
  expectClose(outputs.values(), wanted, 2e-6f, 2e-5f, "tokens");
  const DeviceArray<AttentionRange> range(std::vector<AttentionRange>{{0, 4}});
  prefillAttention(testStream(), c.layout, shape, tokens.get(), range.get(), 1, 4, queries.get(), 128, outputs.get(),
                   128);
  expectClose(outputs.values(), wanted, 3e-3f, 3e-3f, "ranges");
}

// Keys here and there: what two places have computed of a query merges to what one place would have.
TEST(CudaCombineSplits, WeighsPartsByTheirLogSumExp) {
  const uint32_t headDim = 40, parts = 4;
  const size_t queries = 6;
  const std::vector<float> scores = normalNumbers(queries * parts, 7, 30),
                           values = normalNumbers(queries * parts * headDim, 8);
  std::vector<AttentionPartial> weights;
  for (size_t i = 0; i < scores.size(); i++)
    weights.push_back({scores[i], i % 5 == 1 ? 0.0f : 1.0f + static_cast<float>(i % 3)});
  std::vector<float> all = values;
  for (size_t i = 0; i < scores.size(); i++)
    if (weights[i].sum == 0) {
      weights[i].maximum = -3e38f;
      for (size_t d = 0; d < headDim; d++)
        all[i * headDim + d] = std::numeric_limits<float>::quiet_NaN();  // never read
    }
  std::vector<float> expected;
  for (size_t query = 0; query < queries; query++)
    for (size_t d = 0; d < headDim; d++) {
      double total = 0, sum = 0, highest = -1e300;
      for (size_t i = query * parts; i < (query + 1) * parts; i++)
        if (weights[i].sum != 0) highest = std::max(highest, static_cast<double>(weights[i].maximum));
      for (size_t i = query * parts; i < (query + 1) * parts; i++) {
        if (weights[i].sum == 0) continue;
        total += std::exp(weights[i].maximum - highest) * all[i * headDim + d];
        sum += std::exp(weights[i].maximum - highest) * weights[i].sum;
      }
      expected.push_back(static_cast<float>(total / sum));
    }
  underEverySeed([&] {
    const DeviceArray<AttentionPartial> w(weights);
    const DeviceArray<float> v(all), out(queries * headDim);
    combineSplits(testStream(), {w.get(), v.get(), parts}, 2, 3, headDim, out.get(), 3 * headDim);
    expectClose(out.values(), expected, 1e-6f, 5e-6f, "merge");
  });
}

}  // namespace
}  // namespace spillway::cuda
