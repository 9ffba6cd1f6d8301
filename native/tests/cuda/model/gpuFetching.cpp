// Pages of the cache that live in host memory and on disk and come to the device, which attends to all of them: the
// bits of a cache that is there.
#include <algorithm>
#include <chrono>
#include <thread>

#include "../../tries.h"
#include "cacheCases.h"

namespace spillway {
namespace gpu_fetching {

using namespace fixture;

constexpr uint32_t kTokens = 90;  // of six pages
constexpr int32_t kFirstThere = 64;

// 64 pages in host memory, from 0 on, and as many on the device, from 64 on; the former come to two buffers there.
RuntimeOptions fetching(const RuntimeOptions& options, uint32_t bufferPages = 64) {
  RuntimeOptions both = onGpu(options, uint64_t(16) << 20);
  both.pages = uint32_t(kFirstThere);
  both.gpu->cacheBuffers = 2;
  both.gpu->cacheBufferPages = bufferPages;
  return both;
}

const PlacedRow kThere{{65, 67, 69, 71, 73, 75}};

class GpuFetching : public testing::TestWithParam<CacheCase> {
 protected:
  RuntimeOptions optionsOf(const TinyModel& model) const { return GetParam().of(fetching(model.options())); }
};

TEST_P(GpuFetching, PagesOfEveryTierGiveTheBitsOfPagesOnTheDevice) {
  const disktest::Folder folder;
  const TinyModel model(GetParam().spec());
  RuntimeOptions options = optionsOf(model);
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
  const std::vector<float> there = score(options, text, kThere, 52, 52);
  ASSERT_EQ(there.size(), kTokens - 1);
  expectSameBits(score(options, text, {{5, 3, 9, 4, 60, 6}}, 52, 52), there, "in memory");
  expectSameBits(score(options, text, {{65, 67, 3, 4, 9, 6}}, 52, 11), there, "on the device and in memory, in chunks");
  options.spill = spillOptions(folder.path());
  expectSameBits(score(options, text, {{70, 8, -3, -1, -7, 5}, 5}, 52, 17), there, "on three tiers");
  expectSameBits(score(options, text, {{-4, -3, -9, -1, -7, -2}, 5}, 52, 52), there, "on disk");
}

#if !defined(SPILLWAY_CUDA_RUNTIME)
TEST_P(GpuFetching, WhateverTheOrderAndWhereNothingCanBePinned) {
  const TinyModel model(GetParam().spec());
  const RuntimeOptions options = optionsOf(model);
  const std::vector<int32_t> text = randomTokens(60, 67, 3);
  const std::vector<float> there = score(options, text, kThere, 40, 40);
  const PlacedRow row{{65, 2, 9, 4}};
  cuda::underEverySeed([&] { expectSameBits(score(options, text, row, 40, 23), there, "any order"); });
  emulator::setPinnable(false);
  const uint64_t before = emulator::registeredBytes();
  expectSameBits(score(options, text, row, 40, 23), there, "not pinned");
  EXPECT_EQ(emulator::registeredBytes(), before);
  const TinyRuntime tiny(options);
  EXPECT_EQ(tiny.runtime.bytes().gpu->unpinned, tiny.runtime.bytes().cache);
  emulator::setPinnable(true);
}
#endif

INSTANTIATE_TEST_SUITE_P(Caches, GpuFetching, testing::ValuesIn(kCacheCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Rows of one batch that begin alike: what they have in common comes once, and the page that it ends in begins as a
// copy of another row's.
TEST(GpuFetchingRules, RowsThatShareHaveTheBitsOfRowsAlone) {
  const disktest::Folder folder;
  DecoderSpec spec = smallSpec();
  spec.layerSpecs[1].window = 40;
  const TinyModel model(spec);
  constexpr uint32_t kShared = 38, kRows = 3, kLength = 60;
  const std::vector<int32_t> common = randomTokens(kShared, 67, 9);
  size_t turn = 0;
  for (const CacheType type : {CacheType::F16, CacheType::Q4}) {
    // Room for all rows, if what they have in common counts once; for two at a time; and for one.
    for (const auto& [spills, bufferPages] :
         std::vector<std::pair<bool, uint32_t>>{{false, 8}, {true, 8}, {false, 6}, {true, 6}, {true, 4}}) {
      // By day each with one of the types: of five every second one, of both types together.
      if (!inTurn(turn++ % 2, 0, 2)) continue;
      RuntimeOptions options = fetching(model.options(), bufferPages);
      options.precision = Precision::Default;
      options.cacheType = type;
      if (spills) options.spill = spillOptions(folder.path());
      SpillingRuntime runtime(options);
      // Of the first row's pages the others have two, and begin with a copy of the third.
      std::vector<std::vector<int32_t>> texts;
      std::vector<PlacedRow> rows;
      for (uint32_t r = 0; r < kRows; r++) {
        std::vector<int32_t> text = common;
        const std::vector<int32_t> own = randomTokens(kLength - kShared, 67, 20 + r);
        text.insert(text.end(), own.begin(), own.end());
        texts.push_back(text);
        const auto n = int32_t(10 * (r + 1));
        rows.push_back({{1, 2, n, spills ? -1 - n : n + 1}, spills ? n + 2 : -1});
      }
      std::vector<uint32_t> handles;
      std::vector<std::vector<float>> scores(kRows);
      for (const auto& text : texts) {
        SequenceOptions sequence = sequenceOptions(text, kLength);
        sequence.promptTokens = kShared + 4;
        handles.push_back(runtime.tiny.runtime.createSequence(std::move(sequence)));
      }
      const auto add = [&](const HeadResult& head, const std::vector<uint32_t>& of) {
        size_t at = 0;
        for (size_t s = 0; s < head.scored.size(); s += 3) {
          const auto count = size_t(head.scored[s + 2]);
          for (const uint32_t r : of) {
            if (int32_t(handles[r]) == head.scored[s])
              scores[r].insert(scores[r].end(), head.scores.begin() + long(at), head.scores.begin() + long(at + count));
          }
          at += count;
        }
      };
      const auto pass = [&](std::vector<SpilledRange> ranges, const std::vector<uint32_t>& of) {
        const auto head = runtime.pass(ranges);
        ASSERT_FALSE(runtime.failure) << runtime.failure->message;
        add(*head, of);
      };
      pass({{{handles[0], 0, kShared, HeadMode::Score, rows[0].pages}, rows[0].tail}}, {0});
      for (uint32_t first = kShared, tokens; first < kLength; first += tokens) {
        tokens = first == kShared ? 4 : 1;
        std::vector<SpilledRange> ranges;
        for (uint32_t r = 0; r < kRows; r++) {
          ranges.push_back({{handles[r], first, tokens, HeadMode::Score, rows[r].pages}, rows[r].tail});
          if (r != 0 && first == kShared) ranges.back().range.copyFrom = rows[0].pages[2];
        }
        pass(ranges, {0, 1, 2});
        if (testing::Test::HasFatalFailure()) return;
      }
      for (uint32_t r = 0; r < kRows; r++) {
        const std::vector<float> alone = score(options, texts[r], kThere, kShared + 4, kShared + 4);
        const std::vector<float> own(alone.begin() + (r == 0 ? 0 : kShared), alone.end());
        expectSameBits(
            scores[r], own,
            "row " + std::to_string(r) + (spills ? ", on disk" : "") + ", " + std::to_string(bufferPages) + " places");
      }
    }
  }
}

TEST(GpuFetchingRules, WhatDoesNotFitTogetherIsRefused) {
  const disktest::Folder folder;
  const TinyModel model(smallSpec());
  const auto refused = [&](const std::function<void(RuntimeOptions&)>& change, const std::string& words) {
    RuntimeOptions options = fetching(model.options());
    change(options);
    expectRefused([&] { const Runtime runtime(RuntimeOptions(options), [] {}); }, words);
  };
  refused([](RuntimeOptions& o) { o.gpu->cacheBuffers = 5000; }, "gpu.cacheBuffers: found 5000, expected at most 4096");
  refused([](RuntimeOptions& o) { o.gpu->cacheBuffers = 0; },
          "gpu.cacheBufferPages: found 64, expected 0, since gpu.cacheBuffers is 0");
  refused([](RuntimeOptions& o) { o.gpu->cacheBufferPages = 0; },
          "gpu.cacheBufferPages: found 0, expected 1 or more, since there are gpu.cacheBuffers");
  refused([](RuntimeOptions& o) { o.gpu->cacheBufferPages = 1u << 31; },
          "gpu.cacheBufferPages: found 2147483648, expected at most 1073741823 of each buffer");
  refused([&](RuntimeOptions& o) { o.spill = spillOptions(folder.path(), 8, 3); },
          "spill.buffers: found 3, expected as many as gpu.cacheBuffers, 2");

  TinyRuntime tiny(fetching(model.options(), 2));
  Runtime& runtime = tiny.runtime;
  const auto row = int32_t(runtime.createSequence(sequenceOptions(randomTokens(40, 67, 1), 40)));
  expectRefused([&] { runtime.createBatch({row, 0, 40, 0, 0, 3, -1}, {0, 1, 2}); },
                "rows: found one with 3 pages to bring to the device for a layer, expected at most the 2 of a buffer");
  const uint32_t batch = runtime.createBatch({row, 0, 20, 0, 0, 2, -1}, {0, 1});
  const auto done = [&](EventId event) {
    const Completion completion = tiny.await(event);
    EXPECT_FALSE(completion.failed) << completion.message;
  };
  done(runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {}));
  done(runtime.submitCompute(ComputePart::Project, 0, batch, tiny.activations, {}));
  expectRefused([&] { runtime.submitCompute(ComputePart::Attend, 0, batch, tiny.activations, {}); },
                "cacheBuffer: found -1, expected the buffer that the batch's pages were brought to");
  done(runtime.submitCompute(ComputePart::Attend, 0, batch, tiny.activations, {}, kNoBuffer, 1));
  const auto fails = [&](EventId event, const std::string& words) {
    const Completion completion = tiny.await(event);
    EXPECT_TRUE(completion.failed) << words;
    EXPECT_NE(completion.message.find(words), std::string::npos) << completion.message;
  };
  fails(runtime.submitStoreCache(0, batch, 0, {}), "staging buffer 0: found nothing, expected what attention left");
  done(runtime.submitStoreCache(0, batch, 1, {}));
  done(runtime.submitCompute(ComputePart::Finish, 0, batch, tiny.activations, {}));
  // The next token's pages were there before: attention wants them loaded.
  const uint32_t next = runtime.createBatch({row, 20, 1, 0, 0, 2, -1}, {0, 1});
  done(runtime.submitCompute(ComputePart::Project, 0, next, tiny.activations, {}));
  fails(runtime.submitCompute(ComputePart::Attend, 0, next, tiny.activations, {}, kNoBuffer, 0),
        "staging buffer 0: found nothing, expected what load_cache read");
}

#if !defined(SPILLWAY_CUDA_RUNTIME)
DecoderSpec oneLayer() {
  DecoderSpec spec = smallSpec();
  spec.layers = 1;
  spec.layerSpecs.resize(1);
  return spec;
}

// Two rows of a model of one layer, each a batch of its own; two tokens of each, projected: what is left is attention.
class Pair {
 public:
  explicit Pair(const TinyModel& model) : tiny(options(model)) {
    for (uint32_t r = 0; r < 2; r++) {
      const std::vector<int32_t> text = randomTokens(23, 67, 5 + r);
      const auto row = int32_t(runtime.createSequence(sequenceOptions(text, 23)));
      const std::vector<int32_t> pages = {int32_t(2 * r), int32_t(2 * r + 1)};
      const uint32_t prompt = runtime.createBatch({row, 0, 20, 0, 0, 2, -1}, pages);
      EventId last = project(prompt, tiny.activations);
      last = runtime.submitCompute(ComputePart::Attend, 0, prompt, tiny.activations, {last}, kNoBuffer, 0);
      expectDone(tiny.await(runtime.submitStoreCache(0, prompt, 0, {last})));
      for (uint32_t token = 0; token < 2; token++) {
        batches[r][token] =
            runtime.createBatch({row, int32_t(20 + token), 1, int32_t(HeadMode::Score), 0, 2, -1}, pages);
        activations[r][token] = runtime.createActivations(1);
        expectDone(tiny.await(project(batches[r][token], activations[r][token])));
      }
    }
    awaitLaunched(0, 0);
  }
  static RuntimeOptions options(const TinyModel& model) {
    RuntimeOptions options = fetching(model.options());
    options.cacheType = CacheType::F16;
    options.precision = Precision::Default;
    return options;
  }
  EventId project(uint32_t batch, uint32_t to) {
    const EventId embedded = runtime.submitCompute(ComputePart::Embed, 0, batch, to, {});
    return runtime.submitCompute(ComputePart::Project, 0, batch, to, {embedded});
  }

  EventId load(uint32_t r, uint32_t token, uint32_t buffer, const std::vector<EventId>& after) {
    return add(runtime.submitLoadCache(0, batches[r][token], buffer, after));
  }
  EventId attend(uint32_t r, uint32_t token, uint32_t buffer, const std::vector<EventId>& after) {
    return add(runtime.submitCompute(ComputePart::Attend, 0, batches[r][token], activations[r][token], after, kNoBuffer,
                                     int32_t(buffer)));
  }
  EventId store(uint32_t r, uint32_t token, uint32_t buffer, const std::vector<EventId>& after) {
    return add(runtime.submitStoreCache(0, batches[r][token], buffer, after));
  }
  EventId add(EventId event) { return events.emplace_back(event); }
  // Until as many have been launched: the device gets no further by itself.
  void awaitLaunched(size_t computes, size_t loads) const {
    const auto there = [&] { return runtime.computesUnderWay() == computes && runtime.cacheLoadsUnderWay() == loads; };
    for (int i = 0; i < 300000 && !there(); i++) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(there()) << runtime.computesUnderWay() << " and " << runtime.cacheLoadsUnderWay()
                         << " were launched, expected " << computes << " and " << loads;
  }
  std::vector<float> scores() {
    std::vector<float> found;
    for (const EventId event : events) expectDone(tiny.await(event));
    for (uint32_t r = 0; r < 2; r++) {
      for (uint32_t token = 0; token < 2; token++) {
        const uint32_t batch = batches[r][token], own = activations[r][token];
        const EventId finished = runtime.submitCompute(ComputePart::Finish, 0, batch, own, {});
        const Completion head = tiny.await(runtime.submitCompute(ComputePart::Head, 0, batch, own, {finished}));
        expectDone(head);
        if (!head.failed) found.push_back(static_cast<const HeadResult&>(*head.result).scores.at(0));
      }
    }
    return found;
  }
  static void expectDone(const Completion& completion) { EXPECT_FALSE(completion.failed) << completion.message; }

  TinyRuntime tiny;
  Runtime& runtime = tiny.runtime;
  uint32_t activations[2][2], batches[2][2];
  std::vector<EventId> events;
};

// Attention waits for its pages, their way back for attention, and whoever wants pages or buffer next for that.
TEST(GpuFetchingRules, AnEventThatIsMissingBetweenStreamsShows) {
  const TinyModel model(oneLayer());
  constexpr size_t kWaits = 7;
  const auto scores = [&](uint64_t seed, size_t forgotten) {
    emulator::setSeed(seed);
    Pair pair(model);
    emulator::pause();
    const size_t before = emulator::streamWaits();
    emulator::forgetWait(forgotten);
    EventId stored = 0;
    for (uint32_t r = 0; r < 2; r++) stored = pair.store(r, 0, r, {pair.attend(r, 0, r, {pair.load(r, 0, r, {})})});
    // Each over the buffer that the other row had. What stored the last one came after what stored the first one, and
    // the second load comes after the first.
    for (uint32_t r = 0; r < 2; r++)
      pair.attend(r, 1, 1 - r,
                  {pair.load(r, 1, 1 - r, r == 0 ? std::vector<EventId>{stored} : std::vector<EventId>{})});
    pair.awaitLaunched(4, 4);
    EXPECT_EQ(emulator::streamWaits() - before, kWaits);
    emulator::resume();
    std::vector<float> found = pair.scores();
    emulator::forgetWait(SIZE_MAX);
    emulator::setSeed(0);
    return found;
  };
  const std::vector<float> right = scores(0, SIZE_MAX);
  ASSERT_EQ(right.size(), 4u);
  for (uint64_t seed = 0; seed < 3; seed++) {
    expectSameBits(scores(seed, SIZE_MAX), right, "seed " + std::to_string(seed));
    for (size_t wait = 0; wait < kWaits; wait++) {
      const std::vector<float> found = scores(seed, wait);
      ASSERT_EQ(found.size(), right.size());
      EXPECT_NE(std::memcmp(found.data(), right.data(), right.size() * sizeof(float)), 0)
          << "seed " << seed << ", wait " << wait;
    }
  }
}

TEST(GpuFetchingRules, APlanThatLacksAnEventIsRefused) {
  const TinyModel model(oneLayer());
  const auto refused = [](Pair& pair, EventId event, const std::string& words) {
    const Completion completion = pair.tiny.await(event);
    EXPECT_TRUE(completion.failed) << words;
    EXPECT_EQ(completion.code, ErrorCode::InvalidArgument);
    EXPECT_NE(completion.message.find(words), std::string::npos) << completion.message;
  };
  {
    Pair pair(model);
    emulator::pause();
    pair.attend(0, 0, 0, {pair.load(0, 0, 0, {})});
    pair.awaitLaunched(1, 1);
    const EventId early = pair.runtime.submitLoadCache(0, pair.batches[1][0], 0, {});
    pair.awaitLaunched(1, 2);
    emulator::resume();
    refused(pair, early, "cache buffer 0: found in use on the device, expected to be free");
  }
  Pair pair(model);
  emulator::pause();
  pair.load(0, 0, 0, {});
  pair.awaitLaunched(0, 1);
  const EventId early =
      pair.runtime.submitCompute(ComputePart::Attend, 0, pair.batches[0][0], pair.activations[0][0], {}, kNoBuffer, 0);
  refused(pair, early, "cache buffer 0: found on its way to the device, expected to be there");
  emulator::resume();
}
#endif

}  // namespace gpu_fetching
}  // namespace spillway
