// Pages of the cache of which the first come to the device, while the processor attends to those after them: the bits
// of a cache whose first pages are there for good.
#include <algorithm>

#include "cacheCases.h"

namespace spillway {
namespace gpu_shared_attention {

using namespace fixture;

constexpr uint32_t kTokens = 66;  // of five pages
constexpr int32_t kFirstThere = 64;

// 64 pages in host memory, from 0 on, and as many on the device, from 64 on; nothing comes.
RuntimeOptions onBoth(const RuntimeOptions& options) {
  RuntimeOptions both = onGpu(options, uint64_t(16) << 20);
  both.pages = uint32_t(kFirstThere);
  return both;
}

// Of the former some come to two buffers there.
RuntimeOptions sharing(RuntimeOptions options, uint32_t bufferPages = 64) {
  options.gpu->cacheBuffers = 2;
  options.gpu->cacheBufferPages = bufferPages;
  options.gpu->sharesAttention = true;
  return options;
}

// The same row with its first pages there for good.
PlacedRow withThere(PlacedRow row, int32_t count) {
  for (int32_t p = 0; p < count; p++) row.pages[size_t(p)] = kFirstThere + 1 + 2 * p;
  if (std::all_of(row.pages.begin(), row.pages.end(), [](int32_t page) { return page >= 0; })) row.tail = -1;
  return row;
}

class GpuSharedAttention : public testing::TestWithParam<CacheCase> {
 protected:
  RuntimeOptions optionsOf(const TinyModel& model) const { return GetParam().of(onBoth(model.options())); }
};

TEST_P(GpuSharedAttention, PagesThatComeAreAsThoseThatAreThere) {
  const disktest::Folder folder;
  const TinyModel model(GetParam().spec());
  RuntimeOptions options = optionsOf(model);
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
  const PlacedRow inMemory{{5, 3, 9, 4, 60}}, onBothTiers{{5, -3, -9, 4, -7}, 6}, onDisk{{-4, -3, -9, -1, -7}, 5};
  for (const auto& [row, comes] : std::vector<std::pair<PlacedRow, int32_t>>{
           {inMemory, 0}, {inMemory, 2}, {inMemory, 4}, {onBothTiers, 1}, {onBothTiers, 3}, {onDisk, 3}}) {
    options.spill.reset();
    if (row.tail >= 0) options.spill = spillOptions(folder.path());
    PlacedRow shared = row;
    shared.comes = comes;
    const std::vector<float> there = score(options, text, withThere(row, comes), 52, 52);
    ASSERT_EQ(there.size(), kTokens - 1);
    expectSameBits(score(sharing(options), text, shared, 52, 23), there,
                   std::to_string(comes) + " pages come, " + (row.tail < 0 ? "none" : "some") + " on disk");
  }
  const PlacedRow onTwo = withThere({{5, 3, 9, 4, 60}, -1, 3}, 1);
  expectSameBits(score(sharing(options), text, onTwo, 52, 17), score(options, text, withThere(onTwo, 3), 52, 52),
                 "one there, two come");
}

#if !defined(SPILLWAY_CUDA_RUNTIME)
TEST_P(GpuSharedAttention, WhateverTheOrderAndWhereNothingCanBePinned) {
  const TinyModel model(GetParam().spec());
  const RuntimeOptions options = optionsOf(model);
  const std::vector<int32_t> text = randomTokens(60, 67, 3);
  const PlacedRow row{{8, 2, 9, 4}, -1, 2};
  const std::vector<float> there = score(options, text, withThere(row, 2), 40, 40);
  cuda::underEverySeed([&] { expectSameBits(score(sharing(options), text, row, 40, 23), there, "any order"); });
  emulator::setPinnable(false);
  expectSameBits(score(sharing(options), text, row, 40, 23), there, "not pinned");
  emulator::setPinnable(true);
}
#endif

INSTANTIATE_TEST_SUITE_P(Caches, GpuSharedAttention, testing::ValuesIn(kCacheCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Rows of one batch of which more or fewer pages come, that begin alike and go on from copies; buffers that hold all,
// two rows' and one row's pages.
TEST(GpuSharedAttentionRules, ARowHasTheBitsOfTheRowAlone) {
  const disktest::Folder folder;
  DecoderSpec spec = smallSpec();
  spec.layerSpecs[1].window = 40;
  const TinyModel model(spec);
  constexpr uint32_t kShared = 38, kLength = 64, kPrompt = kShared + 4;
  const std::vector<int32_t> common = randomTokens(kShared, 67, 9);
  // Of the first row's pages the others have two, and begin with a copy of the third.
  const std::vector<int32_t> comes = {2, 2, 3, 3, 1, 0};
  for (const auto& [type, spills] : {std::pair(CacheType::F16, true), std::pair(CacheType::Q4, false)}) {
    for (const uint32_t bufferPages : {8u, 3u}) {
      RuntimeOptions options = sharing(onBoth(model.options()), bufferPages);
      options.precision = Precision::Default;
      options.cacheType = type;
      if (spills) options.spill = spillOptions(folder.path());
      SpillingRuntime runtime(options);
      std::vector<std::vector<int32_t>> texts;
      std::vector<SpilledRange> rows;
      std::vector<std::vector<float>> scores(comes.size());
      for (uint32_t r = 0; r < comes.size(); r++) {
        std::vector<int32_t> text = common;
        const std::vector<int32_t> own = randomTokens(kLength - kShared, 67, 20 + r);
        text.insert(text.end(), own.begin(), own.end());
        texts.push_back(text);
        SequenceOptions sequence = sequenceOptions(text, kLength);
        sequence.promptTokens = kPrompt;
        const auto n = int32_t(9 * (r + 1));
        // Of the others one has pages on disk that come, and are completed in company.
        std::vector<int32_t> pages = {1, 2, n, spills ? -1 - n : n + 1};
        if (r > 2) pages = {n + 3, n + 4, spills && r == 3 ? -2 - n : n, pages[3]};
        rows.push_back({{runtime.tiny.runtime.createSequence(std::move(sequence)), 0, 0, HeadMode::Score, pages},
                        spills ? n + 2 : -1,
                        comes[r]});
      }
      const auto pass = [&](const std::vector<SpilledRange>& ranges) {
        const auto head = runtime.pass(ranges);
        ASSERT_FALSE(runtime.failure) << runtime.failure->message;
        size_t at = 0;
        for (size_t s = 0; s < head->scored.size(); s += 3) {
          const auto count = size_t(head->scored[s + 2]);
          for (uint32_t r = 0; r < rows.size(); r++) {
            if (int32_t(rows[r].range.row) == head->scored[s])
              scores[r].insert(scores[r].end(), head->scores.begin() + long(at),
                               head->scores.begin() + long(at + count));
          }
          at += count;
        }
      };
      const auto rangeOf = [&](uint32_t r, uint32_t first, uint32_t tokens) {
        SpilledRange range = rows[r];
        range.range.first = first;
        range.range.tokens = tokens;
        return range;
      };
      // The first one, and those that share nothing, by themselves.
      for (const uint32_t r : {0u, 3u, 4u, 5u}) {
        pass({rangeOf(r, 0, kShared)});
        if (testing::Test::HasFatalFailure()) return;
      }
      for (uint32_t first = kShared, tokens; first < kLength; first += tokens) {
        tokens = first == kShared ? 4 : 1;
        std::vector<SpilledRange> ranges;
        for (uint32_t r = 0; r < rows.size(); r++) {
          ranges.push_back(rangeOf(r, first, tokens));
          if (r == 1 && first == kShared) ranges.back().range.copyFrom = rows[0].range.pages[2];
          if (r == 2 && first == kShared) ranges.back().range.copyFrom = rows[0].range.pages[2];
        }
        pass(ranges);
        if (testing::Test::HasFatalFailure()) return;
      }
      for (uint32_t r = 0; r < rows.size(); r++) {
        const bool shares = r == 1 || r == 2;
        const std::vector<float> alone = score(
            options, texts[r], {{30, 31, spills && r == 3 ? -41 : 32, spills ? -40 : 33}, spills ? 34 : -1, comes[r]},
            kPrompt, kPrompt);
        const std::vector<float> own(alone.begin() + (shares ? kShared : 0), alone.end());
        expectSameBits(
            scores[r], own,
            "row " + std::to_string(r) + (spills ? ", on disk" : "") + ", " + std::to_string(bufferPages) + " places");
      }
    }
  }
}

TEST(GpuSharedAttentionRules, WhatDoesNotFitTogetherIsRefused) {
  const TinyModel model(smallSpec());
  const auto refused = [&](const std::function<void(RuntimeOptions&)>& change, const std::string& words) {
    RuntimeOptions options = sharing(onBoth(model.options()));
    change(options);
    expectRefused([&] { const Runtime runtime(RuntimeOptions(options), [] {}); }, words);
  };
  refused([](RuntimeOptions& o) { o.gpu->cacheBuffers = o.gpu->cacheBufferPages = 0; },
          "gpu.sharesAttention: found 1, expected false: it takes pages in memory, and gpu.cacheBuffers");
  refused([](RuntimeOptions& o) { o.pages = 0; }, "gpu.sharesAttention: found 1, expected false");

  TinyRuntime tiny(sharing(onBoth(model.options()), 2));
  Runtime& runtime = tiny.runtime;
  const auto row = int32_t(runtime.createSequence(sequenceOptions(randomTokens(40, 67, 1), 40)));
  const std::vector<int32_t> rows = {row, 0, 40, 0, 0, 3, -1};
  expectRefused([&] { runtime.createBatch(rows, {65, 1, 2}, {}, {0}); }, "rows[0] comes: found 0, expected 1 to 3");
  expectRefused([&] { runtime.createBatch(rows, {0, 1, 2}, {}, {4}); }, "rows[0] comes: found 4, expected 0 to 3");
  expectRefused([&] { runtime.createBatch(rows, {0, 1, 2}, {}, {1, 1}); },
                "comes: found 2 integers, expected none, or one for each of 1 rows");
  expectRefused([&] { runtime.createBatch(rows, {0, 1, 2}, {}, {3}); },
                "rows: found one with 3 pages to bring to the device for a layer, expected at most the 2 of a buffer");
  runtime.freeBatch(runtime.createBatch(rows, {0, 1, 2}, {}, {2}));

  TinyRuntime apart(onBoth(model.options()));
  const auto other = int32_t(apart.runtime.createSequence(sequenceOptions(randomTokens(40, 67, 1), 40)));
  expectRefused([&] { apart.runtime.createBatch({other, 0, 40, 0, 0, 3, -1}, {0, 1, 2}, {}, {1}); },
                "comes: found 1 integers, expected none: the processor and a device share no attention");
}

}  // namespace gpu_shared_attention
}  // namespace spillway
