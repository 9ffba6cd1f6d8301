// Pages on disk change no bit of any result: whatever is where, however prompts are cut, in whatever company.
#include "../tries.h"
#include "architectureCases.h"
#include "spillFixture.h"

namespace spillway {
namespace {

using namespace fixture;

// Several rounds with the same runtime, so that pages on disk serve one row after another.
void checkMixtures(const RuntimeOptions& memory, const RuntimeOptions& spilling, unsigned seed, unsigned rounds = 3) {
  std::mt19937 random(seed);
  SpillingRuntime runtime(spilling);
  for (unsigned round = 0; round < rounds; round++) {
    std::vector<SpilledRow> rows = randomRows(spilling, 1 + random() % 6, random);
    scoreSpilling(runtime, rows, random);
    ASSERT_FALSE(runtime.failure) << runtime.failure->message;
    for (size_t r = 0; r < rows.size(); r++) {
      expectSameBits(
          rows[r].scores, scoreInMemory(memory, rows[r].text),
          "seed " + std::to_string(seed) + ", round " + std::to_string(round) + ", row " + std::to_string(r));
    }
  }
}

RuntimeOptions spilling(RuntimeOptions options, const disktest::Folder& folder) {
  options.spill = spillOptions(folder.path());
  return options;
}

class SpillArchitecture : public testing::TestWithParam<Case> {};

TEST_P(SpillArchitecture, MixturesOfMemoryAndDiskGiveTheSameBits) {
  const disktest::Folder folder;
  DecoderSpec spec = smallSpec();
  GetParam().change(spec);
  const TinyModel model(spec, GetParam().optional);
  checkMixtures(model.options(), spilling(model.options(), folder), 1);
  EXPECT_EQ(folder.names(), std::vector<std::string>{});
}

INSTANTIATE_TEST_SUITE_P(Kinds, SpillArchitecture, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

class Spill : public testing::Test {
 protected:
  disktest::Folder folder_;
};

TEST_F(Spill, ManyMixtures) {
  DecoderSpec spec = smallSpec();
  spec.layerSpecs[1].window = 21;
  const TinyModel model(spec, false);
  for (unsigned seed = 10; seed < tries(12u, 16u); seed++)
    checkMixtures(model.options(), spilling(model.options(), folder_), seed, 4);
}

TEST_F(Spill, EveryTypeOfCacheAndPrecision) {
  const TinyModel model(smallSpec(), false);
  size_t turn = 0;
  for (const CacheType type : {CacheType::F32, CacheType::F16}) {
    for (const Precision precision : {Precision::Float32, Precision::Default}) {
      for (const uint32_t pageTokens : {16u, 32u}) {
        if (!inTurn(pageTokens / 32, turn++ / 2, 2)) continue;
        RuntimeOptions options = model.options();
        options.cacheType = type;
        options.precision = precision;
        options.pageTokens = pageTokens;
        checkMixtures(options, spilling(options, folder_), 5, 2);
      }
    }
  }
}

TEST_F(Spill, OneThreadOneBufferEveryBackend) {
  const TinyModel model(smallSpec(), false);
  RuntimeOptions options = spilling(model.options(), folder_);
  options.threads = 1;
  options.spill->buffers = 1;
  for (const IoBackend backend : {IoBackend::Threads, IoBackend::Ring}) {
    if (backend == IoBackend::Ring && !disktest::ringWorks()) continue;
    options.diskBackend = backend;
    checkMixtures(model.options(), options, 6, 2);
  }
}

TEST_F(Spill, WeightsStreamAtTheSameTime) {
  const TinyStore store(smallSpec(), false);
  for (const uint64_t resident : {uint64_t(0), uint64_t(20000)})
    checkMixtures(store.model.options(), spilling(store.options(resident, 2), folder_), 7, 2);
}

// Rows go on by sampling, a token a pass, from memory into pages on disk and on.
TEST_F(Spill, ContinuationsAreTheSame) {
  const TinyModel model(smallSpec(), false);
  const auto generate = [&](const RuntimeOptions& options, const std::vector<int32_t>& pages, int32_t tail) {
    SpillingRuntime runtime(options);
    const uint32_t row = runtime.tiny.runtime.createSequence(sequenceOptions(randomTokens(13, 67, 4), 60));
    std::vector<int32_t> tokens;
    for (uint32_t first = 0, count = 13; first + count <= 60; first += count, count = 1) {
      const auto head = runtime.pass({{{row, first, count, HeadMode::Sample, pages}, tail}});
      if (head == nullptr) break;
      tokens.push_back(head->tokens.at(0));
    }
    EXPECT_FALSE(runtime.failure);
    return tokens;
  };
  const std::vector<int32_t> expected = generate(model.options(), {0, 1, 2, 3}, -1);
  EXPECT_EQ(expected.size(), 48u);
  EXPECT_EQ(generate(spilling(model.options(), folder_), {-1, -2, -3, -4}, 9), expected);
  EXPECT_EQ(generate(spilling(model.options(), folder_), {0, -5, -2, 7}, 7), expected);
  EXPECT_EQ(generate(spilling(model.options(), folder_), {-64, 3, -2, -1}, 63), expected);
}

// A layer that sees 21 tokens back stages no page that lies before them.
TEST_F(Spill, MovesWhatTheWindowNeedsAndNoMore) {
  DecoderSpec spec = smallSpec();
  spec.layerSpecs[0].window = 21;
  const TinyModel model(spec, false);
  SpillingRuntime runtime(spilling(model.options(), folder_));
  const size_t slot = runtime.tiny.runtime.bytes().pageSlot;
  const uint32_t row = runtime.tiny.runtime.createSequence(sequenceOptions(randomTokens(90, 67, 4), 90));
  const std::vector<int32_t> pages = {-1, -2, -3, -4, -5, -6};
  const DiskTraffic& moved = runtime.tiny.runtime.moved();
  ASSERT_NE(runtime.pass({{{row, 0, 64, HeadMode::Score, pages}, 0}}), nullptr);
  EXPECT_EQ(moved.read.load(), 0u);
  EXPECT_EQ(moved.written.load(), 2 * 4 * slot);
  // Positions 64 to 68: the windowed layer sees 44 and on, the pages 2 and 3; the other one all four.
  ASSERT_NE(runtime.pass({{{row, 64, 5, HeadMode::Score, pages}, 0}}), nullptr);
  EXPECT_EQ(moved.read.load(), (2 + 4) * slot);
  EXPECT_EQ(moved.written.load(), 2 * 4 * slot);
  // 68 and on to 79, which completes page 4; then page 3 and 4 (59 and on), and all.
  ASSERT_NE(runtime.pass({{{row, 69, 11, HeadMode::Score, pages}, 0}}), nullptr);
  EXPECT_EQ(moved.read.load(), (2 + 4 + 1 + 4) * slot);
  EXPECT_EQ(moved.written.load(), 2 * 5 * slot);
  ASSERT_NE(runtime.pass({{{row, 80, 10, HeadMode::Score, pages}, 0}}), nullptr);
  EXPECT_EQ(moved.read.load(), (2 + 4 + 1 + 4 + 2 + 5) * slot);
  EXPECT_EQ(moved.written.load(), 2 * 5 * slot);
}

TEST_F(Spill, BytesAreCounted) {
  const TinyModel model(smallSpec(), false);
  const RuntimeBytes memory = Model(model.options()).bytes();
  RuntimeOptions options = spilling(model.options(), folder_);
  options.spill->hiddenBytes = 5000;
  const RuntimeBytes bytes = Model(RuntimeOptions(options)).bytes();
  // A page: 16 tokens of 2 heads of 16, keys and values, 4 bytes each.
  EXPECT_EQ(bytes.pageSlot, 4096u);
  EXPECT_EQ(memory.pageSlot, 4096u);
  EXPECT_EQ(bytes.staging, 2u * 64 * 4096);
  EXPECT_EQ(bytes.spill, 2u * 64 * 4096 + 8192);
  EXPECT_EQ(bytes.activations, memory.activations + 2 * 64 * 32 * sizeof(float));
  EXPECT_EQ(memory.staging, 0u);
  EXPECT_EQ(memory.spill, 0u);
  EXPECT_EQ(folder_.names().size(), 0u) << "measuring makes no file";
  const SpillingRuntime runtime(options);
  EXPECT_EQ(runtime.tiny.runtime.bytes().scratch, bytes.scratch);
  EXPECT_EQ(runtime.tiny.runtime.bytes().spill, bytes.spill);
}

}  // namespace
}  // namespace spillway
