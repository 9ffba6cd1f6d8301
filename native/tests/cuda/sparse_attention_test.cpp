// Top-k sparse attention on the device, and over keys on both sides, against the CPU's.
#include "rowsOnDevice.h"

namespace spillway::cuda {
namespace {

const AttentionCase kSparseCases[] = {
    {{CacheType::F16, 2, 64, 32}, 2, 0, false, false, 0.1f},
    {{CacheType::F16, 3, 64, 64}, 9, 0, true, false, 0.3f},
    {{CacheType::F16, 1, 80, 16}, 11, 40, true, true, 0.25f},
    {{CacheType::F32, 1, 300, 16}, 2, 0, false, false, 0.2f},
    {{CacheType::F32, 2, 48, 32}, 4, 300, false, false, 0.5f},
    {{CacheType::Q8, 2, 64, 32}, 2, 0, false, false, 0.1f},
    {{CacheType::Q8, 1, 128, 48}, 9, 33, true, false, 0.4f},
    {{CacheType::Q4, 1, 128, 16}, 3, 0, false, false, 0.2f},
    {{CacheType::Q4, 2, 80, 32}, 2, 270, false, false, 0.05f},
    {{CacheType::F16, 2, 64, 32}, 4, 0, false, false, 0.2f, 0, Precision::Float32, 1.5f},
    {{CacheType::Q8, 1, 80, 32}, 2, 300, false, false, 0.3f, 0, Precision::Float32, 1.5f},
    {{CacheType::F16, 2, 64, 32}, 4, 0, false, false, 0.2f, 0, Precision::Float32, 0, true},
    {{CacheType::Q4, 1, 64, 16}, 8, 128, false, false, 0.3f, 0, Precision::Float32, 0, true},
};

class CudaSparseAttention : public testing::TestWithParam<AttentionCase> {};

TEST_P(CudaSparseAttention, AgreesWithTheCpuAndATokenAloneHasTheSameBits) {
  const AttentionCase& c = GetParam();
  std::vector<TestRow> rows;
  rows.emplace_back(c, 530, 1);  // three parts
  rows.emplace_back(c, 37, 2);
  const std::vector<RowsOnDevice::Part> parts = {{0, 529, 1}, {1, 36, 1}, {0, 0, 2}, {0, 255, 2}};
  const RowsOnDevice device(c, rows);
  const size_t width = rows[0].queryWidth;
  std::vector<float> wanted;
  for (const auto& part : parts) {
    std::vector<float> some(part.count * width);
    runAttention(bestInstructionSet(), 1, c, {rows[part.row].range(part.first, part.count, some.data())}, width, width);
    wanted.insert(wanted.end(), some.begin(), some.end());
  }
  underEverySeed([&] {
    const std::vector<float> outputs = device.attend(rows, parts, false);
    expectClose(outputs, wanted, 2e-6f, 2e-5f, c.name());
    expectSame(device.attend(rows, {{0, 256, 1}}, false, true), slice(outputs, 5 * width, width), "alone");
  });
}

TEST_P(CudaSparseAttention, TokensTogetherHaveTheBitsOfTokensAlone) {
  const AttentionCase& c = GetParam();
  if (c.window != 0) return;
  std::vector<TestRow> rows;
  rows.emplace_back(c, 530, 1);
  const std::vector<RowsOnDevice::Part> parts = {{0, 529, 1}, {0, 383, 2}, {0, 127, 1}};
  const RowsOnDevice device(c, rows);
  ASSERT_GE(mostTogether(c.layout, {c.heads, 1, 0, nullptr, false}), 2u);
  const std::vector<RowsOnDevice::Bundle> bundles = {{{2, 0}, 320}, {{1, 3}, 128}};
  underEverySeed([&] {
    expectSame(device.attend(rows, parts, false, false, bundles), device.attend(rows, parts, false), c.name());
  });
}

// The first pages on the device, the rest the CPU's: keys compete with each other wherever they are.
TEST_P(CudaSparseAttention, OverKeysOnBothSidesIsThatOfOne) {
  const AttentionCase& c = GetParam();
  std::vector<TestRow> rows;
  rows.emplace_back(c, 300, 3);
  TestRow& row = rows[0];
  const RowsOnDevice device(c, rows);
  const size_t width = row.queryWidth, heads = c.heads, count = 4;
  const uint32_t first = row.tokens - count;
  std::vector<float> wanted(count * width);
  runAttention(bestInstructionSet(), 1, c, {row.range(first, count, wanted.data())}, width, width);
  const std::vector<float> slopeValues = c.slopes();
  for (const uint32_t keys : {c.layout.pageTokens, 288u / c.layout.pageTokens * c.layout.pageTokens}) {
    underEverySeed([&] {
      std::vector<AttentionToken> list;
      for (uint32_t i = 0; i < count; i++) list.push_back({device.table(0), first + i, keys});
      const DeviceArray<AttentionToken> tokens(list);
      const DeviceArray<float> slopes(slopeValues), queries(slice(row.queries, first * width, count * width)),
          outputs(count * width), scores(std::vector<float>(count * heads * keys));
      const AttentionShape shape = {c.heads,   1.0f / std::sqrt(static_cast<float>(c.layout.headDim)),
                                    c.window,  c.alibi ? slopes.get() : nullptr,
                                    c.rounded, c.keep,
                                    c.softCap};
      const uint32_t parts = attentionParts(keys - 1);
      scoreKeys(testStream(), c.layout, shape, tokens.get(), count, queries.get(), width, parts, {scores.get(), keys});

      const std::vector<float> found = scores.values();
      std::vector<float> partials(count * heads * 2), values(count * width);
      std::vector<AttentionCut> cuts(count * heads);
      AttentionRow rest = row.range(first, count, values.data());
      rest.firstKey = keys;
      rest.partials = partials.data();
      rest.otherScores = found.data();
      rest.otherStride = keys;
      rest.cuts = cuts.data();
      runAttention(bestInstructionSet(), 2, c, {rest}, width, width);

      const DeviceArray<AttentionCut> cutsThere(cuts);
      const DeviceArray<float> valuesThere(values), partValues(count * heads * parts * c.layout.headDim);
      std::vector<AttentionPartial> others;
      for (size_t i = 0; i < count * heads; i++) others.push_back({partials[2 * i], partials[2 * i + 1]});
      const DeviceArray<AttentionPartial> othersThere(others), weights(count * heads * parts);
      const DeviceArray<float> sinks(sinksOf(c));
      const AttentionPartials merged = {weights.get(),     partValues.get(),  parts,
                                        othersThere.get(), valuesThere.get(), c.sunk ? sinks.get() : nullptr};
      attendKept(testStream(), c.layout, shape, tokens.get(), count, {scores.get(), keys}, cutsThere.get(), merged);
      combineSplits(testStream(), merged, count, c.heads, c.layout.headDim, outputs.get(), width);
      expectClose(outputs.values(), wanted, 2e-6f, 2e-5f, c.name() + ", " + std::to_string(keys) + " keys there");
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaSparseAttention, testing::ValuesIn(kSparseCases));

// What one token keeps: with values that are the token's own number, and keys that one number decides the score of.
TEST(CudaSparseAttentionRules, OfEqualScoresTheLaterAreKeptAndTheNewestAlwaysAndOthersAreNotRead) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const AttentionCase c = {{CacheType::F32, 1, 16, 32}, 1, 0, false, false, 0.25f};
  std::vector<TestRow> rows;
  rows.emplace_back(c, 40, 1);
  TestRow& row = rows[0];
  std::fill(row.queries.begin(), row.queries.end(), 1.0f);
  for (uint32_t t = 0; t < 40; t++) {
    // 10 are kept: the newest, three that score high, and of those that are alike the last six.
    const float key = t == 39 ? -9.0f : t % 13 == 2 ? 1.0f : t % 3 == 0 ? -1.0f : 0.0f;
    std::fill_n(&row.keys[t * 16], 16, key);
    std::fill_n(&row.values[t * 16], 16, static_cast<float>(t));
  }
  std::vector<uint32_t> kept = {2, 15, 28, 39};
  for (uint32_t t = 38; kept.size() < 10; t--)
    if (t % 13 != 2 && t % 3 != 0) kept.push_back(t);
  double sum = 0, total = 0;
  for (const uint32_t t : kept) {
    const double weight = std::exp(4.0 * (t == 39 ? -9.0 : t % 13 == 2 ? 1.0 : 0.0));
    sum += weight;
    total += weight * t;
  }
  for (uint32_t t = 0; t < 40; t++)
    if (std::find(kept.begin(), kept.end(), t) == kept.end()) std::fill_n(&row.values[t * 16], 16, kInfinite);
  const RowsOnDevice device(c, rows);
  underEverySeed([&] {
    for (const float output : device.attend(rows, {{0, 39, 1}}, false)) ASSERT_NEAR(output, total / sum, 1e-4);
  });
}

TEST(CudaSparseAttentionRules, AScoreThatIsNoNumberShows) {
  const AttentionCase c = {{CacheType::F16, 1, 16, 32}, 1, 0, false, false, 0.1f};
  std::vector<TestRow> rows;
  rows.emplace_back(c, 70, 7);
  rows[0].keys[16] = std::numeric_limits<float>::quiet_NaN();
  const RowsOnDevice device(c, rows);
  for (const float output : device.attend(rows, {{0, 69, 1}}, false)) ASSERT_TRUE(std::isnan(output));
}

}  // namespace
}  // namespace spillway::cuda
