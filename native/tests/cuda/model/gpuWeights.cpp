// Weights in every split of device, host memory and store: the same bits, and nothing wrong unnoticed.
#include <cstdio>
#include <fstream>
#include <string>

#include "../../../backend/cuda/GpuWeights.h"
#include "gpuFixture.h"

namespace spillway {
namespace gpu_weights {

using namespace fixture;

std::vector<float> score(RuntimeOptions options, const std::vector<int32_t>& text) {
  Outcome outcome = scoreStreaming(std::move(options), text, 2);
  EXPECT_FALSE(outcome.failure) << outcome.failure->message;
  return outcome.scores;
}

void checkSplits(const DecoderSpec& spec) {
  const TinyStore store(spec);
  const std::vector<int32_t> text = randomTokens(12, spec.vocabularySize, 5);
  const std::vector<float> whole = score(onGpu(store.model.options()), text);
  const uint64_t layer = store.blocks(0)[1].bytes;
  for (const uint64_t device : {uint64_t(0), layer / 3, layer / 2 + 77, kAll}) {
    for (const uint64_t host : {uint64_t(0), layer / 4, kAll}) {
      expectSameBits(score(split(store, device, host), text), whole,
                     "device " + std::to_string(device) + ", host " + std::to_string(host));
    }
    // Without a store the rest is in host memory.
    RuntimeOptions options = onGpu(store.model.options());
    options.gpu->residentLayerBytes = device;
    options.gpu->buffers = 2;
    expectSameBits(score(options, text), whole, "device " + std::to_string(device) + ", no store");
  }
}

TEST(GpuWeights, InEverySplitGiveTheSameBits) {
  cuda::underEverySeed([] { checkSplits(smallSpec()); });
}

TEST(GpuWeights, GiveTheSameBitsHoweverMuchIsPinned) {
  const TinyStore store(smallSpec());
  const std::vector<int32_t> text = randomTokens(12, 67, 5);
  RuntimeOptions options = split(store, 0, 0);
  const std::vector<float> little = score(options, text);
  for (const uint64_t mebibytes : {2, 32, 33, 256}) {
    options.gpu->pinnedBytes = (mebibytes << 20) + 12345;
    expectSameBits(score(options, text), little, std::to_string(mebibytes) + " MiB pinned");
  }
}

TEST(GpuWeights, OfAMixtureInEverySplitGiveTheSameBits) { checkSplits(mixtureSpec(5, 2)); }

#if !defined(SPILLWAY_CUDA_RUNTIME)
TEST(GpuWeights, InHostMemoryArePinnedWhereTheSystemLetsThem) {
  const TinyStore store(smallSpec());
  const std::vector<int32_t> text = randomTokens(12, 67, 5);
  const uint64_t layer = store.blocks(0)[1].bytes;
  const RuntimeOptions options = split(store, layer / 3, layer / 3);
  const size_t bytes = Model(RuntimeOptions(options)).bytes().weights;
  {
    const TinyRuntime tiny(options);
    EXPECT_EQ(emulator::registeredBytes(), bytes);
  }
  EXPECT_EQ(emulator::registeredBytes(), 0u);
  const std::vector<float> pinned = score(options, text);
  emulator::setPinnable(false);
  const std::vector<float> staged = score(options, text);
  emulator::setPinnable(true);
  expectSameBits(staged, pinned, "staged");
}

// Of layers that are several of what one thread copies, through pieces that are, too.
TEST(GpuWeights, ThatCannotBePinnedAreCopiedByThreadsBesideThoseThatCompute) {
  DecoderSpec spec = smallSpec();
  spec.feedForwardSize = 3100;
  const TinyStore store(spec);
  ASSERT_GT(store.blocks(0)[1].bytes, size_t(3) << 19);
  const std::vector<int32_t> text = randomTokens(12, 67, 5);
  RuntimeOptions options = onGpu(store.options(kAll, 2), uint64_t(16) << 20);
  options.gpu->residentLayerBytes = 5000;
  options.gpu->buffers = 2;
  options.gpu->pinnedBytes = uint64_t(32) << 20;
  const std::vector<float> pinned = score(options, text);
  options.threads = 9;
  const auto unpinned = [&] { return TinyRuntime(options).runtime.bytes().gpu->unpinned; };
  EXPECT_EQ(unpinned(), 0u);
  expectSameBits(score(options, text), pinned, "nine threads");
  emulator::setPinnable(false);
  EXPECT_GT(unpinned(), size_t(3) << 19);
  expectSameBits(score(options, text), pinned, "not pinned");
  emulator::setPinnable(true);
}
#endif

// Of pieces of pinned memory some are being read into while others are on the link, and few make way for many.
TEST(GpuWeights, ComeFromTheStoreThroughAnyPieces) {
  const TinyStore store(smallSpec());
  const RuntimeOptions options = store.model.options();
  const auto weightsOf = [&] { return Weights(options.decoder, options.bindings, options.files, uint64_t(0)); };
  const Weights onDevice = weightsOf(), here = weightsOf();
  DirectOptions disk;
  disk.requestBytes = DirectFile::kAlignment;
  WeightStore opened(store.path, TinyStore::kFingerprint, here, disk);
  const uint64_t bytes = here.layerBlock(1).streamedBytes();
  ASSERT_GT(bytes, 10 * DirectFile::kAlignment);
  const Arena plain(bytes, "the test");
  const std::atomic<bool> stopped{false};
  cuda::underEverySeed([&] {
    Device device(0, size_t(4) << 20);
    device.use();
    const Device::Piece resident = device.take(onDevice.bytes(), "the test"), buffer = device.take(bytes, "the test");
    Weights placed = weightsOf();
    placed.place(resident.data());
    for (const size_t pieceBytes : {DirectFile::kAlignment, 3 * DirectFile::kAlignment, DirectFile::aligned(bytes)}) {
      for (const size_t pieces : {1, 2, 5, 40}) {
        StreamsDone done;
        cuda::MemoryPool pinned(cuda::MemoryKind::Pinned, pieces * pieceBytes);
        Link link(device, done, StreamIndex::Weights, Uploads::CopyEngine,
                  pinned.take(pieces * pieceBytes, nullptr, "the test").data, pieceBytes, pieces);
        GpuWeights weights(placed, here);
        weights.reserve();
        LoadProgress progress;
        weights.load(opened, link, progress);
        weights.loadLayer(1, buffer.data(), &opened, link, stopped);
        link.finish();
        opened.readStreamed(1, plain.data(), stopped);
        std::vector<uint8_t> found(bytes);
        cuda::check(cudaMemcpy(found.data(), buffer.data(), bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
        EXPECT_EQ(std::memcmp(found.data(), plain.data(), bytes), 0) << pieces << " of " << pieceBytes;
      }
    }
  });
}

TEST(GpuWeights, AreCountedWhereTheyAre) {
  const TinyStore store(smallSpec());
  const uint64_t layer = store.blocks(0)[1].bytes, vectors = store.blocks(0)[1].vectorBytes;
  const auto bytesOf = [&](uint64_t device, uint64_t host) { return Model(split(store, device, host)).bytes(); };

  const RuntimeBytes all = bytesOf(kAll, 0);
  EXPECT_EQ(all.weights, 0u);
  EXPECT_EQ(all.gpu->weightBuffers, 0u);
  EXPECT_EQ(all.streamed, (std::vector<uint64_t>{0, 0}));

  const RuntimeBytes disk = bytesOf(0, 0);
  EXPECT_EQ(disk.weights, 0u);
  EXPECT_EQ(disk.streamed, disk.gpu->streamedFromStore);
  EXPECT_GE(disk.streamed[0], layer - vectors);
  EXPECT_LT(disk.streamed[0], layer - vectors + 2 * Weights::kAlignment);
  EXPECT_EQ(disk.gpu->weightBuffers, 2 * disk.streamed[0]);

  const RuntimeBytes host = bytesOf(0, kAll);
  EXPECT_EQ(host.weights, disk.streamed[0] + disk.streamed[1]);
  EXPECT_EQ(host.streamed, disk.streamed);
  EXPECT_EQ(host.gpu->streamedFromStore, (std::vector<uint64_t>{0, 0}));

  const RuntimeBytes third = bytesOf(layer / 3, layer / 3);
  EXPECT_NEAR(double(third.gpu->weights - disk.gpu->weights), 2.0 * double(layer / 3 - vectors),
              4.0 * Weights::kAlignment);
  EXPECT_NEAR(double(third.weights), 2.0 * double(layer) / 3, 4.0 * Weights::kAlignment);
  EXPECT_NEAR(double(third.gpu->streamedFromStore[0]), double(layer) / 3, 2.0 * Weights::kAlignment + 4096);
  EXPECT_LT(third.gpu->streamedFromStore[0], third.streamed[0]);
}

// Layers of several chunks, which are checked piece by piece.
DecoderSpec wideSpec() {
  DecoderSpec spec = smallSpec();
  spec.hiddenSize = spec.embeddingSize = 256;
  spec.feedForwardSize = 4096;
  return spec;
}

Completion loadFirstLayer(TinyRuntime& tiny) { return tiny.await(tiny.runtime.submitLoadWeight(0, 0, {})); }

TEST(GpuWeights, ThatAreDamagedInTheStoreAreFoundWhereTheyAre) {
  const TinyStore store(wideSpec());
  const uint64_t layer = store.blocks(0)[1].bytes;
  ASSERT_GT(layer, 2 * kChunkBytes);
  LoadProgress progress;
  const StoreFacts facts = *inspectStore(store.path, TinyStore::kFingerprint);
  const uint64_t lastLayer = facts.fileBytes - (facts.layerBytes[1] + 4095) / 4096 * 4096;
  const uint64_t firstLayer = lastLayer - (facts.layerBytes[0] + 4095) / 4096 * 4096;
  for (const uint64_t resident : {uint64_t(0), uint64_t(5000000), kChunkBytes}) {
    for (const uint64_t at : {resident + 40000, kChunkBytes + 1000000, layer - 5000}) {
      if (at < resident + 40000) continue;
      RuntimeOptions options = split(store, resident / 2, resident - resident / 2);
      options.gpu->memoryBytes = uint64_t(64) << 20;
      TinyRuntime tiny(std::move(options));
      flipByte(store.path, firstLayer + at);  // after loading, which looks at the whole chunk that the cut goes through
      const Completion loaded = loadFirstLayer(tiny);
      EXPECT_TRUE(loaded.failed) << "resident " << resident << ", at " << at;
      EXPECT_EQ(loaded.code, ErrorCode::File);
      EXPECT_NE(loaded.message.find("layer 0 at offset"), std::string::npos) << loaded.message;
      // The other layer is whole, and a buffer that a failed load left is free.
      const Completion other = tiny.await(tiny.runtime.submitLoadWeight(1, 0, {}));
      EXPECT_FALSE(other.failed) << other.message;
      flipByte(store.path, firstLayer + at);
    }
  }
  RuntimeOptions options = split(store, 5000000, 0);
  options.gpu->memoryBytes = uint64_t(64) << 20;
  TinyRuntime tiny(std::move(options));
  EXPECT_FALSE(loadFirstLayer(tiny).failed);
}

TEST(GpuWeights, ThatTheBufferDoesNotHoldAreNotComputedWith) {
  const TinyStore store(smallSpec());
  TinyRuntime tiny(split(store, 0, 0));
  Runtime& runtime = tiny.runtime;
  const auto row = int32_t(runtime.createSequence(sequenceOptions({1, 2, 3}, 3)));
  const uint32_t batch = runtime.createBatch({row, 0, 3, int32_t(HeadMode::None), 0, 1, -1}, {0});
  tiny.await(runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {}));
  expectRefused([&] { runtime.submitCompute(ComputePart::Project, 0, batch, tiny.activations, {}); },
                "buffer: found -1");
  const Completion empty = tiny.await(runtime.submitCompute(ComputePart::Project, 0, batch, tiny.activations, {}, 1));
  EXPECT_TRUE(empty.failed);
  EXPECT_NE(empty.message.find("found nothing, expected layer 0"), std::string::npos) << empty.message;
  EXPECT_FALSE(tiny.await(runtime.submitLoadWeight(1, 1, {})).failed);
  const Completion other = tiny.await(runtime.submitCompute(ComputePart::Project, 0, batch, tiny.activations, {}, 1));
  EXPECT_NE(other.message.find("found layer 1, expected layer 0"), std::string::npos) << other.message;
}

#if defined(__linux__)
// What the system says of the mapping that an address is in.
std::string flagsOfMapping(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(maps, line)) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2) {
      const auto at = reinterpret_cast<uintptr_t>(address);
      inside = begin <= at && at < end;
    } else if (inside && line.rfind("VmFlags:", 0) == 0) {
      return line + " ";
    }
  }
  return "";
}

TEST(GpuWeights, ThatArePinnedAreNotCopiedForAChild) {
  const Arena memory(1 << 20, "a test");
  memory.data()[0] = 1;
  {
    HostPin pin;
    pin = HostPin(memory.data(), memory.bytes());
    ASSERT_TRUE(pin.pinned());
    EXPECT_NE(flagsOfMapping(memory.data()).find(" dc "), std::string::npos);
  }
  EXPECT_EQ(flagsOfMapping(memory.data()).find(" dc "), std::string::npos);
}
#endif

}  // namespace gpu_weights
}  // namespace spillway
