// Weights from a store: the same bits wherever a layer is cut, and damage that is found and named.
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

#include "../../model/WeightBuffers.h"
#include "../../model/WeightStore.h"
#include "../../system/Checksum.h"
#include "storeFixture.h"

namespace spillway {
namespace store_test {

using namespace fixture;

std::vector<int32_t> text(const DecoderSpec& spec) { return randomTokens(37, spec.vocabularySize, 8); }

Outcome fromMemory(const TinyStore& store) { return scoreStreaming(store.model.options(), text(store.model.spec)); }

void expectSameBits(const Outcome& found, const Outcome& expected, const std::string& where) {
  ASSERT_FALSE(found.failure) << where << ": " << found.failure->message;
  ASSERT_EQ(found.scores.size(), expected.scores.size()) << where;
  ASSERT_FALSE(found.scores.empty());
  EXPECT_EQ(std::memcmp(found.scores.data(), expected.scores.data(), found.scores.size() * sizeof(float)), 0) << where;
}

// Every panel of a layer is the first one that streams once.
void checkEveryCut(const DecoderSpec& spec, bool optional) {
  const TinyStore store(spec, optional);
  const Outcome expected = fromMemory(store);
  const uint64_t all = store.blocks(~uint64_t(0))[1].bytes;
  uint64_t cuts = 0;
  for (uint64_t bytes = 0, resident = 0; bytes < all; bytes = resident + 1) {
    // The least number of bytes that keeps one more panel.
    uint64_t low = bytes, high = all;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (store.blocks(middle)[1].residentBytes > resident)
        high = middle;
      else
        low = middle + 1;
    }
    resident = store.blocks(low)[1].residentBytes;
    expectSameBits(scoreStreaming(store.options(low, 2), text(spec)), expected,
                   std::to_string(low) + " resident bytes");
    cuts++;
  }
  EXPECT_GE(cuts, 18u);
}

TEST(Store, EveryCutOfALlamaGivesTheSameBits) { checkEveryCut(smallSpec(), true); }

TEST(Store, EveryCutOfAMixtureGivesTheSameBits) { checkEveryCut(mixtureSpec(3, 2), false); }

TEST(Store, EveryCutOfAParallelLayerGivesTheSameBits) {
  DecoderSpec spec = smallSpec();
  spec.norm = NormKind::Layer;
  spec.residual = Residual::Parallel;
  spec.feedForward = FeedForwardKind::Plain;
  spec.kvHeads = 1;
  checkEveryCut(spec, true);
}

TEST(Store, ProjectedEmbeddingsAndLearnedPositions) {
  DecoderSpec spec = smallSpec();
  spec.norm = NormKind::Layer;
  spec.residual = Residual::Post;
  spec.finalNorm = false;
  spec.embeddingSize = 20;
  spec.position = PositionKind::Learned;
  spec.learnedOffset = 2;
  spec.feedForward = FeedForwardKind::Plain;
  const TinyStore store(spec);
  const Outcome expected = fromMemory(store);
  for (uint64_t bytes : {0, 10000, 1 << 20})
    expectSameBits(scoreStreaming(store.options(bytes, 2), text(spec), 2), expected, std::to_string(bytes));
}

// Blocks of several chunks, cut within the first, the second, and at a chunk's very end.
class LargeStore : public testing::Test {
 protected:
  LargeStore() : store_(severalChunksSpec(), false), all_(store_.blocks(~uint64_t(0))) {}
  TinyStore store_;
  std::vector<Weights::Block> all_;
};

TEST_F(LargeStore, IsReadInChunks) {
  ASSERT_GT(all_[1].bytes, 2 * kChunkBytes);
  const auto score = [](RuntimeOptions options, unsigned passes) {
    options.instructionSet = bestInstructionSet();
    return scoreStreaming(std::move(options), randomTokens(6, 67, 8), passes);
  };
  const Outcome expected = score(store_.model.options(), 1);
  for (uint64_t bytes : {uint64_t(0), kChunkBytes - 1, kChunkBytes, kChunkBytes + 40000, 2 * kChunkBytes + 5,
                         all_[1].bytes - 1, all_[1].bytes}) {
    expectSameBits(score(store_.options(bytes, 2), bytes == 0 ? 3 : 1), expected, std::to_string(bytes));
  }
}

// What streams is checked once, and again when the file has been written to since.
TEST_F(LargeStore, IsCheckedAgainOnceSomebodyHasWrittenToIt) {
  const RuntimeOptions options = store_.model.options();
  Weights weights(options.decoder, options.bindings, options.files, 0);
  weights.reserve();
  WeightStore opened(store_.path, TinyStore::kFingerprint, weights);
  ThreadPool pool(1);
  LoadProgress progress;
  opened.loadResident(pool, progress);
  const Arena buffer(DirectFile::aligned(weights.mostStreamedBytes()), "the test");
  const std::atomic<bool> stopped{false};
  uint64_t pieces = 0;
  std::function<void()> afterFirst = [] {};
  const auto read = [&] {
    pieces = 0;
    opened.readStreamed(1,
                        {kChunkBytes / 4, [&](uint64_t offset, bool) { return buffer.data() + offset; },
                         [&](uint64_t offset, uint64_t) {
                           if (pieces++ == 0) afterFirst();
                           EXPECT_EQ(offset % (kChunkBytes / 4), 0u);
                         }},
                        stopped);
  };
  const uint64_t last = inspectStore(store_.path, TinyStore::kFingerprint)->fileBytes - DirectFile::kAlignment;
  const auto overwrite = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the times of a file change by the kernel's tick
    flipByte(store_.path, last);
  };
  read();
  const uint64_t usual = pieces;
  read();
  EXPECT_EQ(pieces, usual);

  overwrite();
  EXPECT_THROW(read(), FileError);
  overwrite();
  read();
  // While it is read: all of it comes a second time.
  afterFirst = overwrite;
  EXPECT_THROW(read(), FileError);
  EXPECT_GT(pieces, usual);
  afterFirst = [] {};
  EXPECT_THROW(read(), FileError);
  overwrite();
  read();
  afterFirst = [&] {
    overwrite();
    overwrite();
  };
  read();
  EXPECT_EQ(pieces, 2 * usual);
}

TEST_F(LargeStore, DamageIsFoundWhereverItIs) {
  const std::optional<StoreFacts> facts = inspectStore(store_.path, TinyStore::kFingerprint);
  ASSERT_TRUE(facts);
  const uint64_t layer1 = facts->fileBytes - (all_[2].bytes + 4095) / 4096 * 4096;
  for (uint64_t resident : {uint64_t(0), kChunkBytes + 40000, all_[2].bytes}) {
    const uint64_t cut = store_.blocks(resident)[2].residentBytes;
    for (uint64_t at :
         {uint64_t(0), uint64_t(4000), kChunkBytes - 1, cut - 1, cut, kChunkBytes + 40960, all_[2].bytes - 1}) {
      if (at >= all_[2].bytes) continue;
      flipByte(store_.path, layer1 + at);
      const std::string where = std::to_string(at) + " of " + std::to_string(resident);
      // A chunk with a resident part is checked whole when the model is loaded.
      const bool found = at / kChunkBytes * kChunkBytes < cut;
      try {
        const Outcome outcome = scoreStreaming(store_.options(resident, 2), text(severalChunksSpec()), 2);
        EXPECT_FALSE(found) << where;
        ASSERT_TRUE(outcome.failure) << where;
        EXPECT_EQ(outcome.failure->code, ErrorCode::File);
        ASSERT_NE(outcome.failure->fileError, nullptr);
        EXPECT_EQ(outcome.failure->fileError->file, store_.path);
        EXPECT_NE(outcome.failure->fileError->field.find("layer 1 at offset "), std::string::npos)
            << outcome.failure->message;
      } catch (const std::runtime_error& error) {
        EXPECT_TRUE(found) << where;
        EXPECT_NE(std::string(error.what()).find("layer 1 at offset "), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find("checksum"), std::string::npos) << error.what();
      }
      flipByte(store_.path, layer1 + at);
    }
  }
}

// Its checksum fits: somebody meant it.
TEST(Store, ATableWithoutLayersIsDamaged) {
  const TinyStore store(smallSpec());
  std::fstream file(store.path, std::ios::binary | std::ios::in | std::ios::out);
  const auto put = [&](uint64_t at, uint32_t value) {
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  uint32_t tableBytes = 0;  // stands after magic and version
  file.seekg(12);
  file.read(reinterpret_cast<char*>(&tableBytes), sizeof(tableBytes));
  for (uint32_t blocks : {0u, 1u, (1u << 16) + 1}) {
    put(36, blocks);
    file.flush();
    std::vector<char> table(tableBytes - sizeof(uint32_t));
    file.seekg(0);
    file.read(table.data(), static_cast<std::streamsize>(table.size()));
    put(table.size(), crc32c(0, table.data(), table.size()));
    file.flush();
    try {
      inspectStore(store.path, TinyStore::kFingerprint);
      FAIL() << blocks;
    } catch (const FileError& error) {
      EXPECT_EQ(error.field, "header");
      EXPECT_EQ(error.found, std::to_string(blocks) + " blocks");
    }
  }
}

TEST_F(LargeStore, FilesThatShrinkWhileInUseAreAnError) {
  TinyRuntime tiny(store_.options(0, 1));
  ASSERT_EQ(truncate(store_.path.c_str(),
                     static_cast<off_t>(inspectStore(store_.path, TinyStore::kFingerprint)->fileBytes - 8192)),
            0);
  const Completion completion = tiny.await(tiny.runtime.submitLoadWeight(1, 0, {}));
  EXPECT_TRUE(completion.failed);
  EXPECT_EQ(completion.code, ErrorCode::File);
  EXPECT_NE(completion.message.find("layer 1"), std::string::npos) << completion.message;
  EXPECT_FALSE(tiny.await(tiny.runtime.submitLoadWeight(0, 0, {})).failed);
}

TEST(StoreSplit, KeepsVectorsAndWholePanels) {
  const TinyModel model(smallSpec());
  const RuntimeOptions options = model.options();
  uint64_t before = 0;
  for (uint64_t bytes = 0; bytes < 60000; bytes += 617) {
    const Weights weights(options.decoder, options.bindings, options.files, bytes);
    const Weights::Block& block = weights.layerBlock(0);
    EXPECT_LE(block.residentBytes, std::max(bytes, block.vectorBytes));
    EXPECT_GE(block.residentBytes, std::max(before, block.vectorBytes));
    if (bytes > block.vectorBytes && bytes < block.bytes) {
      EXPECT_LT(bytes - block.residentBytes, panelBytes(WeightType::F32, 80));
    }
    EXPECT_GE(block.streamedFrom() + block.streamedBytes(), block.streams() ? block.bytes : 0);
    uint64_t matrices = 0, end = 0;
    for (size_t w = block.first; w < block.end; w++) {
      const Weights::Placed& weight = weights.placed()[w];
      EXPECT_EQ(weight.offset, end);
      end += weight.bytes;
      if (weight.matrix == nullptr) {
        EXPECT_EQ(matrices, 0u) << "a vector after a matrix";
        continue;
      }
      matrices++;
      if (!streams(*weight.matrix)) continue;
      EXPECT_EQ(weight.matrix->residentOutputs % kPanelOutputs, 0u);
      EXPECT_EQ(weight.matrix->streamedAt + block.streamedFrom(),
                weight.offset + weight.matrix->residentOutputs / kPanelOutputs *
                                    panelBytes(WeightType::F32, weight.matrix->inputs));
    }
    EXPECT_EQ(end, block.bytes);
    EXPECT_EQ(matrices, 7u);
    before = block.residentBytes;
  }
}

class StreamingRules : public testing::Test {
 protected:
  StreamingRules() : store_(smallSpec(), false), tiny_(store_.options(0, 2)) {}
  uint32_t batch() {
    const int32_t row = int32_t(tiny_.runtime.createSequence(sequenceOptions(randomTokens(20, 67, 1), 20)));
    return tiny_.runtime.createBatch({row, 0, 20, 0, 0, 2, -1}, {0, 1});
  }
  void expectFailure(EventId event, const std::string& words) {
    const Completion completion = tiny_.await(event);
    EXPECT_TRUE(completion.failed) << words;
    EXPECT_EQ(completion.code, ErrorCode::InvalidArgument);
    EXPECT_NE(completion.message.find(words), std::string::npos) << completion.message;
  }
  void expectRefused(const std::function<void()>& call, const std::string& words) {
    try {
      call();
      ADD_FAILURE() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  TinyStore store_;
  TinyRuntime tiny_;
};

TEST_F(StreamingRules, ABufferMustHoldTheLayer) {
  const uint32_t b = batch();
  Runtime& runtime = tiny_.runtime;
  expectFailure(runtime.submitCompute(ComputePart::Project, 0, b, tiny_.activations, {}, 0),
                "weight buffer 0: found nothing, expected layer 0");
  const EventId loaded = runtime.submitLoadWeight(1, 0, {});
  expectFailure(runtime.submitCompute(ComputePart::Finish, 0, b, tiny_.activations, {loaded}, 0),
                "weight buffer 0: found layer 1, expected layer 0");
  expectFailure(runtime.submitCompute(ComputePart::Finish, 1, b, tiny_.activations, {loaded}, 1),
                "weight buffer 1: found nothing");
  EXPECT_FALSE(tiny_.await(runtime.submitCompute(ComputePart::Project, 1, b, tiny_.activations, {loaded}, 0)).failed);
  EXPECT_FALSE(tiny_.await(runtime.submitCompute(ComputePart::Attend, 1, b, tiny_.activations, {}, 1)).failed)
      << "attention needs no weights";
}

TEST_F(StreamingRules, ABufferInUseIsNotOverwritten) {
  WeightBuffers buffers;
  buffers.reserve(2, 4096);
  {
    WeightBuffers::Filling filling(buffers, 1);
    expectRefused([&] { WeightBuffers::Use use(buffers, 1, 0); }, "a layer that is being loaded");
    filling.finish(0);
  }
  {
    const WeightBuffers::Use use(buffers, 1, 0);
    EXPECT_EQ(use.data(), WeightBuffers::Use(buffers, 1, 0).data());
    expectRefused([&] { WeightBuffers::Filling filling(buffers, 1); }, "found in use");
    EXPECT_NE(WeightBuffers::Filling(buffers, 0).data(), use.data());
  }
  { const WeightBuffers::Filling abandoned(buffers, 1); }
  expectRefused([&] { WeightBuffers::Use use(buffers, 1, 0); }, "found nothing");
}

TEST_F(StreamingRules, ArgumentsAreChecked) {
  const uint32_t b = batch();
  Runtime& runtime = tiny_.runtime;
  const auto compute = [&](ComputePart part, int32_t buffer) {
    return [&, part, buffer] { runtime.submitCompute(part, 0, b, tiny_.activations, {}, buffer); };
  };
  expectRefused(compute(ComputePart::Project, -1), "buffer: found -1, expected the buffer that layer 0 was loaded to");
  expectRefused(compute(ComputePart::Finish, -1), "buffer: found -1");
  expectRefused(compute(ComputePart::Finish, -2), "buffer: found -2");
  expectRefused(compute(ComputePart::Embed, 2), "buffer: found 2, expected -1, or an index under 2");
  expectRefused([&] { runtime.submitLoadWeight(2, 0, {}); }, "layer: found 2");
  expectRefused([&] { runtime.submitLoadWeight(0, 2, {}); }, "buffer: found 2, expected an index under 2");
  expectRefused([&] { runtime.submitLoadWeight(0, 0, {99}); }, "after: found event 99");

  TinyRuntime resident(store_.options(1 << 20, 2));
  EXPECT_EQ(resident.runtime.bytes().weightBuffers, 0u);
  expectRefused([&] { resident.runtime.submitLoadWeight(0, 0, {}); }, "one that streams");
  RuntimeOptions none = store_.options(0, 0);
  expectRefused([&] { Model model(std::move(none)); }, "weights.buffers: found 0");
  Runtime unloaded(store_.options(0, 1), [] {});
  expectRefused([&] { unloaded.submitLoadWeight(0, 0, {}); }, "not loaded");
}

TEST_F(StreamingRules, BytesAreCounted) {
  const TinyRuntime memory(store_.model.options());
  const RuntimeBytes& all = memory.runtime.bytes();
  EXPECT_EQ(all.weightBuffers, 0u);
  EXPECT_EQ(all.streamed, (std::vector<uint64_t>{0, 0}));
  const RuntimeBytes& bytes = tiny_.runtime.bytes();
  EXPECT_LT(bytes.weights, all.weights);
  EXPECT_EQ(bytes.weightBuffers, 2 * bytes.streamed[0]);
  EXPECT_EQ(bytes.scratch, all.scratch);
  EXPECT_EQ(Model(store_.options(0, 2)).bytes().streamed, bytes.streamed);
}

TEST_F(StreamingRules, ClosingAndCancellingAmidReads) {
  for (int round = 0; round < 20; round++) {
    TinyRuntime tiny(store_.options(0, 2));
    EventId last = 0;
    for (int i = 0; i < 50 + round * 7; i++) last = tiny.runtime.submitLoadWeight(uint32_t(i % 2), uint32_t(i % 2), {});
    tiny.runtime.cancelAll();
    const EventId after = tiny.runtime.submitLoadWeight(0, 0, {});
    const Completion cancelled = tiny.await(last);
    EXPECT_TRUE(!cancelled.failed || cancelled.code == ErrorCode::Cancelled);
    if (round % 2 == 0) {
      EXPECT_FALSE(tiny.await(after).failed);
    }
    for (int i = 0; i < 50; i++) last = tiny.runtime.submitLoadWeight(uint32_t(i % 2), uint32_t(i % 2), {});
    tiny.runtime.close();
    tiny.await(last);
    tiny.runtime.join();
    EXPECT_TRUE(tiny.runtime.closed());
  }
}

}  // namespace store_test
}  // namespace spillway
