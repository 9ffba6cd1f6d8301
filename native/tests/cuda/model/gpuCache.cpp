// Pages of the cache on the device, in host memory and on disk: attention is where they are, and what both sides find
// merges.
#include "../../model/architectureCases.h"
#include "../../model/spillFixture.h"
#include "../../tries.h"
#include "gpuFixture.h"

namespace spillway {
namespace gpu_cache {

using namespace fixture;

constexpr uint32_t kTokens = 44;  // of three pages

// 64 pages in host memory, from 0 on, and 64 on the device, from 64 on.
RuntimeOptions onBoth(const RuntimeOptions& options) {
  RuntimeOptions both = onGpu(options);
  both.pages = 64;
  return both;
}

// A table of three pages, the first so many of them on the device.
std::vector<int32_t> table(uint32_t onDevice, int32_t first = 0) {
  std::vector<int32_t> pages;
  for (int32_t p = 0; p < 3; p++) pages.push_back((uint32_t(p) < onDevice ? 64 : 0) + first + 2 * p + 1);
  return pages;
}

std::vector<float> score(const RuntimeOptions& options, const std::vector<int32_t>& text, uint32_t onDevice,
                         uint32_t chunk, uint32_t promptTokens) {
  TinyRuntime tiny(options);
  SequenceOptions row = sequenceOptions(text, uint32_t(text.size()));
  row.promptTokens = promptTokens;
  const uint32_t handle = tiny.runtime.createSequence(std::move(row));
  std::vector<float> scores;
  for (uint32_t first = 0; first < kTokens; first += chunk) {
    const auto head = tiny.pass({{handle, first, std::min(chunk, kTokens - first), HeadMode::Score, table(onDevice)}});
    scores.insert(scores.end(), head->scores.begin(), head->scores.end());
  }
  return scores;
}

// The same by the processor alone, in one go.
std::vector<float> scoreOnProcessor(const RuntimeOptions& options, const std::vector<int32_t>& text,
                                    uint32_t promptTokens) {
  TinyRuntime tiny(options);
  SequenceOptions row = sequenceOptions(text, uint32_t(text.size()));
  row.promptTokens = promptTokens;
  const uint32_t handle = tiny.runtime.createSequence(std::move(row));
  return tiny.pass({{handle, 0, kTokens, HeadMode::Score, {0, 1, 2}}})->scores;
}

void expectNear(const std::vector<float>& found, const std::vector<float>& expected, float tolerance,
                const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); i++) ASSERT_NEAR(found[i], expected[i], tolerance) << what << " at " << i;
}

class GpuCache : public testing::TestWithParam<Case> {};

TEST_P(GpuCache, PagesOnBothSidesGiveTheAnswersOfOne) {
  DecoderSpec spec = smallSpec();
  GetParam().change(spec);
  const TinyModel model(spec, GetParam().optional);
  const std::vector<int32_t> text = randomTokens(kTokens, spec.vocabularySize, 3);
  RuntimeOptions options = onBoth(model.options());
  TinyRuntime processor(model.options());
  const uint32_t row = processor.runtime.createSequence(sequenceOptions(text, kTokens));
  const std::vector<float> expected = processor.pass({{row, 0, kTokens, HeadMode::Score, {0, 1, 2}}})->scores;
  for (const uint32_t onDevice : {0u, 1u, 2u, 3u}) {
    const std::string what = std::to_string(onDevice) + " pages on the device";
    const std::vector<float> whole = score(options, text, onDevice, kTokens, kTokens);
    expectNear(whole, expected, 2e-4f, what);
    if (onDevice % 2 == 1) expectSameBits(score(options, text, onDevice, 7, 20), whole, what + ", in chunks");
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GpuCache, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GpuCacheRules, ARowsBitsDoNotDependOnCompanyWithOtherPlaces) {
  const TinyModel model(smallSpec(), false);
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
  RuntimeOptions options = onBoth(model.options());
  options.precision = Precision::Default;
  cuda::underEverySeed([&] {
    for (const auto& [type, onDevice] : std::vector<std::pair<CacheType, uint32_t>>{
             {CacheType::F16, 0}, {CacheType::F16, 1}, {CacheType::F16, 2}, {CacheType::Q8, 2}, {CacheType::Q4, 1}}) {
      options.cacheType = type;
      const std::vector<float> alone = score(options, text, onDevice, kTokens, 30);
      expectSameBits(score(options, text, onDevice, 11, 30), alone, "in chunks");
      TinyRuntime tiny(options);
      SequenceOptions own = sequenceOptions(text, kTokens);
      own.promptTokens = 30;
      const uint32_t row = tiny.runtime.createSequence(std::move(own));
      std::vector<uint32_t> others;
      for (unsigned o = 0; o < 4; o++)
        others.push_back(tiny.runtime.createSequence(sequenceOptions(randomTokens(kTokens, 67, 50 + o), kTokens)));
      std::vector<float> scores;
      for (uint32_t first = 0; first < kTokens; first += 11) {
        std::vector<Range> ranges;
        for (uint32_t o = 0; o < 4; o++)
          ranges.push_back({others[o], first, 11, HeadMode::None, table(o, int32_t(7 * (o + 1)))});
        ranges.insert(ranges.begin() + first / 11, {row, first, 11, HeadMode::Score, table(onDevice)});
        const auto head = tiny.pass(ranges);
        scores.insert(scores.end(), head->scores.begin(), head->scores.end());
      }
      expectSameBits(scores, alone, "in company, " + std::to_string(onDevice) + " pages on the device");
    }
  });
}

// Of a model's weights of one role: in its file.
void scaleWeights(const TinyModel& model, const std::string& role, float factor) {
  FILE* file = std::fopen(model.file.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  for (const WeightBinding& binding : model.bindings) {
    if (binding.role != role) continue;
    for (const auto& segment : binding.segments) {
      std::vector<float> values(size_t(segment.rows) * binding.columns);
      std::fseek(file, long(segment.offset), SEEK_SET);
      ASSERT_EQ(std::fread(values.data(), sizeof(float), values.size(), file), values.size());
      for (float& value : values) value *= factor;
      std::fseek(file, long(segment.offset), SEEK_SET);
      std::fwrite(values.data(), sizeof(float), values.size(), file);
    }
  }
  std::fclose(file);
}

// Queries, keys, values and outputs cross the link as halves. Values may be such that halves just reach them, of whose
// weighted sums they would reach none.
TEST(GpuCacheRules, WhatCrossesTheLinkAsHalvesIsAsGoodAsHalvesAre) {
  for (const float factor : {1.0f, 8192.0f}) {
    DecoderSpec spec = smallSpec();
    spec.heads = 16;  // so that queries and outputs cross in several pieces
    const TinyModel model(spec, false);
    scaleWeights(model, "v.weight", factor);
    scaleWeights(model, "o.weight", 1 / factor);
    const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
    RuntimeOptions options = onBoth(model.options());
    for (const auto& [type, tolerance] : std::vector<std::pair<CacheType, float>>{
             {CacheType::F16, 2e-2f}, {CacheType::Q8, 0.1f}, {CacheType::Q4, 0.5f}, {CacheType::F32, 2e-2f}}) {
      if (!inTurn(size_t(type) % 2, factor != 1, 2)) continue;
      options.cacheType = type;
      options.precision = Precision::Default;
      const std::vector<float> there = score(options, text, 3, kTokens, 1);
      for (const uint32_t onDevice : {0u, 1u})
        expectNear(score(options, text, onDevice, kTokens, 1), there, tolerance,
                   "values times " + std::to_string(factor) + ", " + std::to_string(onDevice) + " pages on the device");
    }
  }
}

// Two batches of two layers, of a text each.
class TwoBatches {
 public:
  TwoBatches(const RuntimeOptions& options, const std::vector<int32_t> (&pages)[2]) : tiny(options) {
    Runtime& runtime = tiny.runtime;
    const uint32_t second = runtime.createActivations(64);
    for (const uint32_t b : {0u, 1u}) {
      const auto row = int32_t(runtime.createSequence(sequenceOptions(textOf(b), kTokens)));
      batches[b] = runtime.createBatch({row, 0, int32_t(kTokens), int32_t(HeadMode::Score), 0, 3, -1}, pages[b]);
      activations[b] = b == 0 ? tiny.activations : second;
    }
  }
  static std::vector<int32_t> textOf(uint32_t batch) { return randomTokens(kTokens, 67, 3 + batch); }
  // The first one's attention in layer 0 waits for an event, where there is one.
  void submit(EventId event) {
    for (uint32_t layer = 0; layer < 2; layer++) {
      for (const uint32_t b : {0u, 1u}) {
        const auto add = [&](ComputePart part, std::vector<EventId> after) {
          chain[b] = tiny.runtime.submitCompute(part, layer, batches[b], activations[b], after);
          events.push_back(chain[b]);
        };
        if (layer == 0) add(ComputePart::Embed, {});
        add(ComputePart::Project, {chain[b]});
        if (layer == 0) projected[b] = chain[b];
        std::vector<EventId> after = {chain[b]};
        if (layer == 0 && b == 0 && event != 0) after.push_back(event);
        add(ComputePart::Attend, after);
        add(ComputePart::Finish, {chain[b]});
        if (layer == 1) add(ComputePart::Head, {chain[b]});
      }
    }
  }
  // How many of the tasks failed; all of them end.
  size_t failed() {
    size_t count = 0;
    for (const EventId event : events) count += tiny.await(event).failed ? 1 : 0;
    return count;
  }

  TinyRuntime tiny;
  std::vector<EventId> events;
  EventId projected[2] = {}, chain[2] = {};  // in layer 0; the last part of each

 private:
  uint32_t batches[2] = {}, activations[2] = {};
};

// The second one's projection passes while the first one's attention waits, as it does while the processor attends.
// Where no page is in host memory there is one queue.
TEST(GpuCacheRules, TheDeviceComputesOtherBatchesWhileTheProcessorAttends) {
  const TinyModel model(smallSpec());
  for (const bool here : {true, false}) {
    RuntimeOptions options = here ? onBoth(model.options()) : onGpu(model.options());
    if (!here) options.gpu->pages = 128;
    const std::vector<int32_t> pages[2] = {here ? table(1) : std::vector<int32_t>{1, 3, 5},
                                           here ? table(0, 7) : std::vector<int32_t>{8, 10, 12}};
    TwoBatches two(options, pages);
    const EventId attending = two.tiny.runtime.createEvent();
    two.submit(attending);
    if (here) {
      EXPECT_FALSE(two.tiny.await(two.projected[1]).failed);
    }
    two.tiny.runtime.completeEvent(attending);
    TinyRuntime alone(options);
    for (const uint32_t b : {0u, 1u}) {
      const Completion head = two.tiny.await(two.chain[b]);
      ASSERT_FALSE(head.failed) << head.message;
      const uint32_t row = alone.runtime.createSequence(sequenceOptions(TwoBatches::textOf(b), kTokens));
      expectSameBits(static_cast<const HeadResult&>(*head.result).scores,
                     alone.pass({{row, 0, kTokens, HeadMode::Score, pages[b]}})->scores,
                     b == 0 ? "the one that waited" : "the one that passed it");
    }
  }
}

#if !defined(SPILLWAY_CUDA_RUNTIME)
TEST(GpuCacheRules, WhatFailsOrIsCancelledOrClosedWhileTheProcessorAttendsEndsAndNothingHangs) {
  const TinyModel model(smallSpec());
  const RuntimeOptions options = onBoth(model.options());
  const std::vector<int32_t> pages[2] = {table(1), table(0, 7)};
  for (const size_t kernel : {size_t(0), size_t(3), size_t(9), size_t(20), size_t(40)}) {
    {
      TwoBatches two(options, pages);
      emulator::breakAt(kernel);
      two.submit(0);
      EXPECT_GT(two.failed(), 0u) << "kernel " << kernel;
    }
    emulator::breakAt(SIZE_MAX);
  }
  for (const bool closes : {false, true}) {
    TwoBatches two(options, pages);
    two.submit(two.tiny.runtime.createEvent());
    if (closes)
      two.tiny.runtime.close();
    else
      two.tiny.runtime.cancelAll();
    // At least what waits for the event: the first batch's attention and all after it.
    EXPECT_GE(two.failed(), 6u) << closes;
    if (!closes) continue;
    two.tiny.runtime.join();
    EXPECT_TRUE(two.tiny.runtime.closed());
  }
  TwoBatches two(options, pages);
  two.submit(0);
  EXPECT_EQ(two.failed(), 0u);
  EXPECT_TRUE(emulator::idle());
}

// A row whose last page is on disk goes on, chunk by chunk, in the same batches as one whose pages are all in memory:
// what the device brings to pages in memory, and what the processor does, are the bytes of each alone.
TEST(GpuCacheRules, PromptsWithAndWithoutPagesOnDiskKeepTheirBits) {
  const disktest::Folder folder;
  const TinyModel model(smallSpec());
  RuntimeOptions options = onBoth(model.options());
  options.precision = Precision::Default;
  options.cacheType = CacheType::F16;
  options.spill = spillOptions(folder.path());
  struct Row {
    std::vector<int32_t> text, pages;
    int32_t tail;
  };
  const Row rows[] = {{randomTokens(kTokens, 67, 3), {3, 5, -2}, 9}, {randomTokens(kTokens, 67, 4), {11, 13, 15}, -1}};
  // Of one of them, alone or beside the other; the last tokens are of the answer.
  const auto score = [&](size_t which, bool together) {
    SpillingRuntime runtime(options);
    uint32_t handles[2];
    for (size_t r = 0; r < 2; r++) {
      SequenceOptions sequence = sequenceOptions(rows[r].text, kTokens);
      sequence.promptTokens = 40;
      handles[r] = runtime.tiny.runtime.createSequence(std::move(sequence));
    }
    std::vector<float> scores;
    for (uint32_t first = 0; first < kTokens; first += 11) {
      std::vector<SpilledRange> ranges;
      for (size_t r = 0; r < 2; r++) {
        if (r == which || together)
          ranges.push_back(
              {{handles[r], first, 11, r == which ? HeadMode::Score : HeadMode::None, rows[r].pages}, rows[r].tail});
      }
      const auto head = runtime.pass(ranges);
      EXPECT_FALSE(runtime.failure) << runtime.failure->message;
      if (runtime.failure) break;
      scores.insert(scores.end(), head->scores.begin(), head->scores.end());
    }
    return scores;
  };
  for (const size_t which : {size_t(0), size_t(1)}) {
    const std::vector<float> alone = score(which, false);
    ASSERT_EQ(alone.size(), kTokens - 1);
    expectSameBits(score(which, true), alone, which == 0 ? "on disk in part" : "in memory");
  }
}

// New keys and values of prompts go to their pages by the device, or by the processor where the system pins nothing.
TEST(GpuCacheRules, PromptsLeaveTheSameBytesWhoeverBringsThemThere) {
  const TinyModel model(smallSpec());
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
  RuntimeOptions options = onBoth(model.options());
  options.precision = Precision::Default;
  for (const CacheType type : {CacheType::F16, CacheType::Q8, CacheType::Q4}) {
    options.cacheType = type;
    for (const uint32_t onDevice : {0u, 1u}) {
      // The last 14 tokens, of the answer, meet what the prompt's chunks left in memory.
      const std::vector<float> pinned = score(options, text, onDevice, 11, 30);
      {
        const TinyRuntime tiny(options);
        EXPECT_EQ(tiny.runtime.bytes().gpu->unpinned, 0u);
      }
      emulator::setPinnable(false);
      expectSameBits(score(options, text, onDevice, 11, 30), pinned, "not pinned");
      {
        const TinyRuntime tiny(options);
        EXPECT_EQ(tiny.runtime.bytes().gpu->unpinned, tiny.runtime.bytes().cache);
      }
      emulator::setPinnable(true);
    }
  }
}
#endif

struct PromptCase {
  const char* name;
  uint32_t window;
  CacheType type;
};

class GpuPrompts : public testing::TestWithParam<PromptCase> {};

// Prompts over pages that are uploaded to the device are as good as over its own: the same bits, since the pages' bytes
// are the same.
TEST_P(GpuPrompts, InHostMemoryHaveTheBitsOfThoseOnTheDevice) {
  const PromptCase& prompts = GetParam();
  const CacheType type = prompts.type;
  DecoderSpec spec = smallSpec();
  spec.layerSpecs[1].window = prompts.window;
  const TinyModel model(spec);
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
  RuntimeOptions options = onBoth(model.options());
  options.precision = Precision::Default;
  options.cacheType = type;
  const std::vector<float> there = score(options, text, 3, kTokens, kTokens);
  for (const uint32_t onDevice : {0u, 1u, 2u}) {
    for (const uint32_t chunk : {kTokens, 13u}) {
      if (type != CacheType::F16 && (chunk == kTokens) != (onDevice == 0)) continue;
      expectSameBits(score(options, text, onDevice, chunk, kTokens), there,
                     std::to_string(onDevice) + " pages on the device, chunks of " + std::to_string(chunk));
    }
    // The processor rounds queries that meet keys of 4 bits, the device does not.
    const float tolerance = type == CacheType::F16 ? 1e-2f : type == CacheType::Q8 ? 6e-2f : 0.2f;
    expectNear(score(options, text, onDevice, 13, 25), there, tolerance, "the rest by the processor");
  }
}

const PromptCase kPromptCases[] = {{"F16", 0, CacheType::F16},
                                   {"F16Windowed", 21, CacheType::F16},
                                   {"Q8", 0, CacheType::Q8},
                                   {"Q4Windowed", 21, CacheType::Q4}};
INSTANTIATE_TEST_SUITE_P(Caches, GpuPrompts, testing::ValuesIn(kPromptCases),
                         [](const auto& info) { return std::string(info.param.name); });

// In float32 what is left of a difference is a code here and there that rounds the other way; at default precision the
// processor rounds more than the device does.
TEST(GpuCacheRules, QuantisedPagesOnBothSidesGiveTheAnswersOfTheProcessor) {
  for (const CacheType type : {CacheType::Q8, CacheType::Q4}) {
    DecoderSpec spec = smallSpec();
    spec.layerSpecs[1].window = 21;
    const TinyModel model(spec);
    const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
    RuntimeOptions here = model.options();
    here.cacheType = type;
    RuntimeOptions there = onBoth(here);
    const std::vector<float> expected = scoreOnProcessor(here, text, 10);
    for (const uint32_t onDevice : {0u, 1u, 2u, 3u}) {
      for (const Precision precision : {Precision::Float32, Precision::Default}) {
        there.precision = precision;
        const float tolerance = precision == Precision::Float32 ? (type == CacheType::Q4 ? 0.06f : 5e-3f)
                                                                : (type == CacheType::Q4 ? 0.4f : 0.06f);
        expectNear(score(there, text, onDevice, 17, 30), expected, tolerance,
                   "cache " + std::to_string(int(type)) + ", " + std::to_string(onDevice) + " pages on the device");
      }
    }
  }
}

// Keys compete wherever their pages are: what is kept does not depend on it.
TEST(GpuCacheRules, SparseAttentionOnBothSidesGivesTheAnswersOfTheProcessor) {
  for (const auto& [type, window] :
       std::vector<std::pair<CacheType, uint32_t>>{{CacheType::F32, 21}, {CacheType::F16, 0}, {CacheType::Q8, 21}}) {
    DecoderSpec spec = smallSpec();
    spec.layerSpecs[1].window = window;
    const TinyModel model(spec);
    const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
    RuntimeOptions here = model.options();
    here.cacheType = type;
    here.keepKeys = 0.3f;
    RuntimeOptions there = onBoth(here);
    const std::vector<float> expected = scoreOnProcessor(here, text, 10);
    for (const uint32_t onDevice : {0u, 1u, 2u, 3u}) {
      const std::string what = "cache " + std::to_string(int(type)) + ", window " + std::to_string(window) + ", " +
                               std::to_string(onDevice) + " pages on the device";
      const std::vector<float> whole = score(there, text, onDevice, kTokens, 10);
      expectNear(whole, expected, type == CacheType::Q8 ? 5e-3f : 1e-3f, what);
      if (onDevice == 2) expectSameBits(score(there, text, onDevice, 13, 10), whole, what + ", in chunks");
    }
  }
}

TEST(GpuCacheRules, PagesOnDiskAreStagedAndTheProcessorAttends) {
  const disktest::Folder folder;
  DecoderSpec spec = smallSpec();
  spec.layerSpecs[1].window = 21;
  const TinyModel model(spec);
  const std::vector<int32_t> text = randomTokens(90, 67, 3);
  RuntimeOptions options = onBoth(model.options());
  // Tables of six pages and a tail: some on the device, then some in memory, then disk.
  const auto scoreOver = [&](const std::vector<int32_t>& pages, int32_t tail, uint32_t chunk) {
    RuntimeOptions spilling = options;
    if (tail >= 0) spilling.spill = spillOptions(folder.path());
    SpillingRuntime runtime(spilling);
    const uint32_t row = runtime.tiny.runtime.createSequence(sequenceOptions(text, 90));
    std::vector<float> scores;
    for (uint32_t first = 0; first < 90; first += chunk) {
      const auto head = runtime.pass({{{row, first, std::min(chunk, 90 - first), HeadMode::Score, pages}, tail}});
      EXPECT_FALSE(runtime.failure) << runtime.failure->message;
      if (runtime.failure) return scores;
      scores.insert(scores.end(), head->scores.begin(), head->scores.end());
    }
    return scores;
  };
  for (const CacheType type : {CacheType::F16, CacheType::Q8, CacheType::Q4}) {
    options.cacheType = type;
    const std::vector<float> memory = scoreOver({70, 90, 3, 4, 9, 6}, -1, 30);
    ASSERT_EQ(memory.size(), 89u);
    expectSameBits(scoreOver({70, 90, 3, -1, -7, -2}, 5, 30), memory, "on three tiers");
    expectSameBits(scoreOver({70, 90, -4, -1, -7, -2}, 5, 13), memory, "in chunks");
  }
}

TEST(GpuCacheRules, PagesOfADeviceComeFirst) {
  const TinyModel model(smallSpec());
  TinyRuntime tiny(onBoth(model.options()));
  const auto row = int32_t(tiny.runtime.createSequence(sequenceOptions({1, 2, 3}, 40)));
  const auto batchOf = [&](const std::vector<int32_t>& pages) {
    tiny.runtime.createBatch({row, 0, 3, 0, 0, int32_t(pages.size()), -1}, pages);
  };
  batchOf({64, 3});
  expectRefused([&] { batchOf({3, 64}); },
                "pages: found 64, expected no page of a device behind one that is elsewhere");
  expectRefused([&] { batchOf({128}); }, "found 128, expected a page under 128");
}

}  // namespace gpu_cache
}  // namespace spillway
