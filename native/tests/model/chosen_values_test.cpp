// Sparse attention over pages on disk, of which keys come alone and values once keys have been chosen: the same bits as
// in memory, and no more bytes than the choice takes.
#include "../../model/CacheSpill.h"
#include "../tries.h"
#include "spillFixture.h"

namespace spillway {
namespace chosen_values_test {

using namespace fixture;
using disktest::ScriptedFaults;

// Heads of 64 elements, so that a block of the disk holds few tokens' values.
DecoderSpec wideSpec(uint32_t kvHeads) {
  DecoderSpec spec = smallSpec();
  spec.heads = 4;
  spec.kvHeads = kvHeads;
  spec.headDim = 64;
  spec.attentionScale = 0.125f;
  return spec;
}

class ChosenValues : public testing::Test {
 protected:
  RuntimeOptions spilling(RuntimeOptions options) const {
    options.spill = spillOptions(folder_.path());
    return options;
  }
  static RuntimeOptions sparse(const TinyModel& model, float keep, CacheType type = CacheType::F16) {
    RuntimeOptions options = model.options();
    options.cacheType = type;
    options.keepKeys = keep;
    return options;
  }
  // Fills two pages of a layer with numbers from 1 + `from` on and stores them, as those of a row of 64 tokens that
  // becomes complete on disk. The batch is of the token after them then.
  static void storePages(CacheSpill& cache, uint32_t layer, const Arena& pages, Batch& batch, size_t from = 0) {
    BatchRange range{};
    range.sequence = std::make_shared<Sequence>(sequenceOptions({1}, 100, 1));
    range.tokens = 64;
    range.pageCount = 3;
    range.spilled = true;
    range.tail = 0;
    batch.pages = {-1, -2, 0};
    batch.spilled = true;
    batch.ranges = {range};
    for (size_t i = 0; i < pages.bytes(); i++) pages.data()[i] = uint8_t(1 + (i + from) % 251);
    cache.store(layer, 0, batch, pages.data());
    batch.ranges[0].firstPosition = 64;
    batch.ranges[0].tokens = 1;
  }
  disktest::Folder folder_;
};

TEST_F(ChosenValues, MixturesOfMemoryAndDiskGiveTheSameBits) {
  std::mt19937 random(59);
  uint64_t gapBytes = 0;
  size_t turn = 0;
  for (const uint32_t kvHeads : {1u, 2u, 4u}) {
    DecoderSpec spec = wideSpec(kvHeads);
    if (kvHeads == 2) spec.layerSpecs[1].window = 37;
    const TinyModel model(spec, false);
    for (const CacheType type : {CacheType::F32, CacheType::F16, CacheType::Q8, CacheType::Q4}) {
      turn++;
      if (!inTurn(turn % 2, kvHeads, 2)) continue;
      for (const float keep : {0.05f, 0.5f}) {
        if (!inTurn(keep == 0.5f, turn, 2)) continue;
        const RuntimeOptions memory = sparse(model, keep, type);
        RuntimeOptions options = spilling(memory);
        options.spill->gapBytes = (gapBytes += 600) % 2400;
        SpillingRuntime runtime(options);
        for (const uint32_t promptTokens : {1u, 30u}) {
          if (!inTurn(promptTokens == 30, turn / 2, 2)) continue;
          std::vector<SpilledRow> rows = randomRows(spilling(memory), 1 + random() % 6, random);
          scoreSpilling(runtime, rows, random, promptTokens);
          ASSERT_FALSE(runtime.failure) << runtime.failure->message;
          for (const SpilledRow& row : rows) {
            const std::vector<float> expected = scoreInMemory(memory, row.text, promptTokens);
            ASSERT_EQ(row.scores.size(), expected.size());
            EXPECT_EQ(std::memcmp(row.scores.data(), expected.data(), expected.size() * sizeof(float)), 0)
                << kvHeads << " heads, type " << int(type) << ", keeping " << keep << " behind " << promptTokens;
          }
        }
      }
    }
  }
}

// Of 90 tokens the first 80 are on disk, in five pages; the others are given one by one. What has been read once stays.
TEST_F(ChosenValues, KeysAndChosenBlocksAreAllThatIsRead) {
  const TinyModel model(wideSpec(2), false);
  const auto readOf = [&](float keep) {
    SpillingRuntime runtime(spilling(sparse(model, keep)));
    const RuntimeBytes& bytes = runtime.tiny.runtime.bytes();
    EXPECT_EQ(bytes.pageKeys, 2u * 16 * 64 * 2);
    EXPECT_EQ(bytes.pageSlot, 2u * bytes.pageKeys);
    EXPECT_EQ(bytes.held, bytes.staging);
    const uint32_t row = runtime.tiny.runtime.createSequence(sequenceOptions(randomTokens(90, 67, 4), 90, 80));
    const std::vector<int32_t> pages = {-1, -2, -3, -4, -5, 3};
    const DiskTraffic& moved = runtime.tiny.runtime.moved();
    EXPECT_NE(runtime.pass({{{row, 0, 40, HeadMode::Score, pages}, 3}}), nullptr);
    EXPECT_NE(runtime.pass({{{row, 40, 40, HeadMode::Score, pages}, 3}}), nullptr);
    EXPECT_EQ(moved.read.load(), 2 * 2 * bytes.pageSlot) << "prompts take whole pages";
    const uint64_t before = moved.read.load();
    for (uint32_t first = 80; first < 90; first++)
      EXPECT_NE(runtime.pass({{{row, first, 1, HeadMode::Score, pages}, 3}}), nullptr);
    EXPECT_FALSE(runtime.failure);
    return std::make_pair(moved.read.load() - before, uint64_t(bytes.spillBlock));
  };
  const uint64_t keys = 10 * 2 * 5 * 4096;  // passes, layers, pages
  // A query keeps its own key, which is not on disk; or all of them.
  EXPECT_EQ(readOf(0.001f).first, keys);
  EXPECT_EQ(readOf(0.9999999f).first, keys + keys / 10);
  // Nine of 81 to 90 keys, its own among them: in two heads' values, each of two query heads reads eight blocks at
  // most.
  const auto [read, block] = readOf(0.1f);
  EXPECT_EQ(read % block, 0u);
  EXPECT_GT(read, keys);
  EXPECT_LE(read, keys + std::min<uint64_t>(keys / 10, 10u * 2 * 2 * 2 * 8 * block));
}

// Of the second layer, whose heads are others than the first one's.
TEST_F(ChosenValues, OfPagesTheBlocksOfChosenKeysCome) {
  for (const CacheType type : {CacheType::F32, CacheType::F16, CacheType::Q8, CacheType::Q4}) {
    const CacheLayout layout = {type, 3, 80, 32, false, true};
    const size_t slot = DirectFile::aligned(cachePageBytes(layout));
    SpillFile spill(folder_.path(), 2 * 2 * slot);
    DirectFile& file = spill.file();
    const CacheGroups groups(2);
    CacheSpill cache(file, 0, groups, 2, slot, {{type, 1, 16, 32, false, true}, layout}, 0, 0);
    const Arena pages(2 * slot, "pages"), found(2 * slot, "pages");
    Batch batch;
    storePages(cache, 1, pages, batch);
    std::memset(found.data(), 0, 2 * slot);
    const std::atomic<bool> stopped{false};
    EXPECT_EQ(cache.load(1, 0, batch, found.data(), stopped), 2 * cache.keyBytes(1));
    const auto here = [&](size_t page, size_t at) { return found.data()[page * slot + at] != 0; };
    for (size_t at = 0; at < 3 * cacheKeyBytes(layout); at++) ASSERT_TRUE(here(0, at) && here(1, at));
    EXPECT_FALSE(here(0, cachePageBytes(layout) - 1));
    // Token 5 of the first head, and token 40, in the second page, of the last.
    std::vector<uint64_t> bits(3 * chosenWords(64, 1));
    bits[0] = uint64_t{1} << 5;
    bits[2 * chosenWords(64, 1)] = uint64_t{1} << 40;
    const uint64_t* chosen = bits.data();
    const uint64_t read = cache.loadValues(1, 0, batch, &chosen, found.data(), stopped);
    size_t blocks = 0;
    const size_t block = file.blockBytes();
    for (size_t page = 0; page < 2; page++)
      for (size_t b = cache.keyBytes(1) / block; b < slot / block; b++) blocks += here(page, b * block) ? 1 : 0;
    EXPECT_EQ(read, blocks * block) << int(type);
    EXPECT_LE(blocks, 6u * (1 + 320 / block));
    const auto valuesHere = [&](uint32_t head, uint32_t token) {
      bool all = true;
      forValueBytes(layout, token % 32, [&](size_t at, size_t bytes) {
        const size_t first = cacheValuesOffset(layout, head) + at;
        for (size_t i = 0; i < bytes; i++)
          all = all && found.data()[token / 32 * slot + first + i] == pages.data()[token / 32 * slot + first + i];
      });
      return all;
    };
    EXPECT_TRUE(valuesHere(0, 5));
    EXPECT_TRUE(valuesHere(2, 40));
    if (block == 512) EXPECT_FALSE(valuesHere(0, 31)) << int(type);
    EXPECT_THROW(cache.loadValues(1, 0, batch, &chosen, found.data(), std::atomic<bool>{true}), Error);
  }
}

// The same choice, again and again: of all tokens in one page, of a few in the other.
TEST_F(ChosenValues, BlocksThatWereReadComeFromMemoryUntilTheirPageIsWrittenAgain) {
  const CacheLayout layout = {CacheType::F16, 3, 64, 32, false, true};
  const size_t slot = DirectFile::aligned(cachePageBytes(layout));
  for (const size_t heldBytes : {size_t{0}, size_t{20000}, 8 * slot}) {
    SpillFile spill(folder_.path(), 2 * slot);
    const CacheGroups groups(1);
    CacheSpill cache(spill.file(), 0, groups, 2, slot, {layout}, heldBytes, 0);
    const size_t places = HeldBlocks(heldBytes, spill.file().blockBytes()).places();
    const size_t words = chosenWords(64, 1);
    std::vector<uint64_t> bits(3 * words);
    for (size_t head = 0; head < 3; head++) bits[head * words] = 0xffffffffu | uint64_t{1} << (33 + 9 * head);
    const uint64_t* chosen = bits.data();
    const Arena pages(2 * slot, "pages"), found(2 * slot, "pages");
    uint64_t all = 0;
    for (int writing = 0; writing < 3; writing++) {
      Batch batch;
      storePages(cache, 0, pages, batch, size_t(writing));
      // What was given up is not there the next time.
      EXPECT_THROW(cache.loadValues(0, 0, batch, &chosen, found.data(), std::atomic<bool>{true}), Error);
      for (int time = 0; time < 4; time++) {
        std::memset(found.data(), 0, 2 * slot);
        const uint64_t read = cache.loadValues(0, 0, batch, &chosen, found.data(), std::atomic<bool>{false});
        if (writing == 0 && time == 0) all = read;
        if (time == 0) EXPECT_EQ(read, all);
        if (time != 0 && places == 0) EXPECT_EQ(read, all);
        if (time != 0 && heldBytes == 8 * slot) EXPECT_EQ(read, 0u);
        if (time == 3 && places != 0) EXPECT_LT(read, all);
        EXPECT_LE(all - read, places * spill.file().blockBytes());
        const auto values = size_t(layout.kvHeads) * cacheKeyBytes(layout);
        ASSERT_EQ(std::memcmp(found.data() + values, pages.data() + values, cachePageBytes(layout) - values), 0);
        for (uint32_t head = 0; head < 3; head++) {
          const size_t at = slot + cacheValuesOffset(layout, head) + (1 + 9 * head) * 128;
          ASSERT_EQ(std::memcmp(found.data() + at, pages.data() + at, 128), 0);
        }
      }
    }
  }
}

// Tokens 0, 4 and 20 of a head's first page: of blocks of four tokens the first two, and the sixth.
TEST_F(ChosenValues, WhatIsNearEachOtherIsReadTogether) {
  const CacheLayout layout = {CacheType::F16, 1, 64, 32, false, true};
  const size_t slot = DirectFile::aligned(cachePageBytes(layout));
  for (const size_t gapBytes : {size_t{0}, size_t{1535}, size_t{1536}, size_t{1} << 40}) {
    SpillFile spill(folder_.path(), 2 * slot);
    if (spill.file().blockBytes() != 512) GTEST_SKIP() << "blocks are as large as values here";
    const CacheGroups groups(1);
    CacheSpill cache(spill.file(), 0, groups, 2, slot, {layout}, 0, gapBytes);
    const Arena pages(2 * slot, "pages"), found(2 * slot, "pages");
    Batch batch;
    storePages(cache, 0, pages, batch);
    std::vector<uint64_t> bits(chosenWords(64, 1));
    bits[0] = 1 | 1 << 4 | 1 << 20;
    const uint64_t* chosen = bits.data();
    const uint64_t read = cache.loadValues(0, 0, batch, &chosen, found.data(), std::atomic<bool>{false});
    EXPECT_EQ(read, (gapBytes < 1536 ? 3 : 6) * 512u);
    const size_t values = cacheKeyBytes(layout);
    for (const size_t at : {values, values + 512, values + 5 * 512})
      EXPECT_EQ(std::memcmp(found.data() + at, pages.data() + at, 512), 0);
  }
}

TEST_F(ChosenValues, AFailureOfTheirReadingIsTheRowsError) {
  const TinyModel model(wideSpec(2), false);
  for (const int64_t fault : {int64_t(-EIO), DiskFaults::kEnd}) {
    std::atomic<bool> armed{false};
    ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t bytes, int) -> int64_t {
      return armed && operation == DiskOperation::Read && bytes < 4096 ? fault : 0;
    });
    RuntimeOptions options = spilling(sparse(model, 0.1f));
    options.diskFaults = &faults;
    SpillingRuntime runtime(options);
    if (runtime.tiny.runtime.bytes().spillBlock == 4096) GTEST_SKIP() << "blocks are as large as keys here";
    const uint32_t row = runtime.tiny.runtime.createSequence(sequenceOptions(randomTokens(90, 67, 4), 90, 80));
    const std::vector<int32_t> pages = {-1, -2, -3, -4, -5, 3};
    ASSERT_NE(runtime.pass({{{row, 0, 40, HeadMode::Score, pages}, 3}}), nullptr);
    ASSERT_NE(runtime.pass({{{row, 40, 40, HeadMode::Score, pages}, 3}}), nullptr);
    armed = true;
    EXPECT_EQ(runtime.pass({{{row, 80, 1, HeadMode::Score, pages}, 3}}), nullptr);
    ASSERT_TRUE(runtime.failure);
    EXPECT_EQ(runtime.failure->code, ErrorCode::File);
    EXPECT_NE(runtime.failure->message.find("layer 0 cache at offset"), std::string::npos) << runtime.failure->message;
  }
}

}  // namespace chosen_values_test
}  // namespace spillway
