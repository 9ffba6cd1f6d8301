// Tasks are launched ahead of the device; events between its streams, and nothing else, keep them in order.
#if !defined(SPILLWAY_CUDA_RUNTIME)
#include <chrono>
#include <thread>

#include "gpuFixture.h"

namespace spillway {
namespace {

using namespace fixture;

constexpr uint32_t kLayers = 4;
constexpr size_t kAhead = 4;

DecoderSpec fourLayers() {
  DecoderSpec spec = smallSpec();
  spec.layers = kLayers;
  spec.layerSpecs.resize(kLayers);
  return spec;
}

// The device stands still while one of these exists, so that it shows what is launched without it.
class Pause {
 public:
  Pause() { emulator::pause(); }
  ~Pause() { emulator::resume(); }
  Pause(const Pause&) = delete;
};

// A pass of one row over layers that stream through two buffers.
class Streaming {
 public:
  // Weights are in host memory, or, where they are not, in the store.
  explicit Streaming(const TinyStore& store, uint64_t hostBytes = kAll) : tiny(split(store, 0, hostBytes)) {
    const std::vector<int32_t> text = randomTokens(4, 67, 5);
    const auto row = int32_t(runtime.createSequence(sequenceOptions(text, uint32_t(text.size()))));
    batch = runtime.createBatch({row, 0, int32_t(text.size()), int32_t(HeadMode::Score), 0, 1, -1}, {0});
    chain.push_back(runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {}));
    EXPECT_FALSE(tiny.await(chain[0]).failed);
    awaitLaunched(0, 0);  // it is told of before the queue has let it go
  }

  EventId load(uint32_t layer, const std::vector<EventId>& after) {
    return loads.emplace_back(runtime.submitLoadWeight(layer, layer % 2, after));
  }
  void compute(ComputePart part, uint32_t layer) {
    std::vector<EventId> after = {chain.back()};
    if (part == ComputePart::Project) after.push_back(loads[layer]);
    chain.push_back(runtime.submitCompute(part, layer, batch, tiny.activations, after,
                                          part == ComputePart::Head ? kNoBuffer : int32_t(layer % 2)));
  }
  void submit() {
    for (uint32_t layer = 0; layer < kLayers; layer++) {
      if (layer < 2)
        load(layer, {});
      else
        load(layer, {chain[3 * (layer - 1)]});  // what finished the layer that the buffer had
      for (const ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish})
        compute(part, layer);
    }
    compute(ComputePart::Head, 0);
  }
  // Until as many have been launched: the device gets no further by itself.
  bool awaitLaunched(size_t computes, size_t loaded) {
    for (int i = 0; i < 300000; i++) {
      if (runtime.computesUnderWay() == computes && runtime.loadsUnderWay() == loaded) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << runtime.computesUnderWay() << " and " << runtime.loadsUnderWay() << " were launched, expected "
                  << computes << " and " << loaded;
    return false;
  }
  std::vector<float> scores() {
    for (const EventId event : loads) expectDone(tiny.await(event));
    for (size_t i = 1; i + 1 < chain.size(); i++) expectDone(tiny.await(chain[i]));
    const Completion head = tiny.await(chain.back());
    expectDone(head);
    return head.failed ? std::vector<float>() : static_cast<const HeadResult&>(*head.result).scores;
  }
  static void expectDone(const Completion& completion) { EXPECT_FALSE(completion.failed) << completion.message; }

  TinyRuntime tiny;
  Runtime& runtime = tiny.runtime;
  uint32_t batch = 0;
  std::vector<EventId> chain, loads;  // chain: embedding, then three parts of each layer, then the head
};

std::vector<float> rightScores(const TinyStore& store) {
  Streaming streaming(store);
  streaming.submit();
  return streaming.scores();
}

TEST(GpuAhead, LayersAreLaunchedAndLoadsOfTheNextOnesBehindThemWhileTheDeviceHasNotBegun) {
  const TinyStore store(fourLayers());
  const std::vector<float> right = rightScores(store);
  for (const uint64_t hostBytes : {kAll, uint64_t(20000), uint64_t(0)}) {
    Streaming streaming(store, hostBytes);
    {
      const Pause pause;
      streaming.submit();
      // Three parts of layer 0 and one of layer 1; its weights, those of layer 1, and those of layer 2 over the first
      // ones.
      EXPECT_TRUE(streaming.awaitLaunched(kAhead, 3));
      std::vector<Completion> taken;
      streaming.runtime.channel().take(taken);
      EXPECT_TRUE(taken.empty());
    }
    expectSameBits(streaming.scores(), right, "host " + std::to_string(hostBytes));
    EXPECT_TRUE(emulator::idle());
  }
}

// Layer 0's projection waits for its weights; layer 2's weights for layer 0 to be finished and layer 1's projection for
// its own, in whichever order the host's threads come to launch them.
TEST(GpuAhead, AnEventThatIsMissingBetweenStreamsShows) {
  const TinyStore store(fourLayers());
  const std::vector<float> right = rightScores(store);
  constexpr size_t kWaits = 3;
  const auto isRight = [&](uint64_t seed, size_t forgotten) {
    emulator::setSeed(seed);
    Streaming streaming(store);
    {
      const Pause pause;
      const size_t before = emulator::streamWaits();
      emulator::forgetWait(forgotten);
      streaming.submit();
      EXPECT_TRUE(streaming.awaitLaunched(kAhead, 3));
      EXPECT_EQ(emulator::streamWaits() - before, kWaits);
    }
    const std::vector<float> scores = streaming.scores();
    emulator::forgetWait(SIZE_MAX);
    emulator::setSeed(0);
    return scores.size() == right.size() && std::memcmp(scores.data(), right.data(), right.size() * sizeof(float)) == 0;
  };
  for (uint64_t seed = 0; seed < 4; seed++) {
    EXPECT_TRUE(isRight(seed, SIZE_MAX)) << "seed " << seed;
    for (size_t wait = 0; wait < kWaits; wait++)
      EXPECT_FALSE(isRight(seed, wait)) << "seed " << seed << ", wait " << wait;
  }
}

TEST(GpuAhead, APlanThatLacksAnEventIsRefused) {
  const TinyStore store(fourLayers());
  const auto refused = [](Streaming& streaming, EventId event, const std::string& words) {
    const Completion completion = streaming.tiny.await(event);
    EXPECT_TRUE(completion.failed) << words;
    EXPECT_EQ(completion.code, ErrorCode::InvalidArgument);
    EXPECT_NE(completion.message.find(words), std::string::npos) << completion.message;
  };
  {
    Streaming streaming(store);
    EventId early;
    {
      const Pause pause;
      streaming.load(0, {});
      streaming.compute(ComputePart::Project, 0);
      EXPECT_TRUE(streaming.awaitLaunched(1, 1));
      early = streaming.runtime.submitLoadWeight(2, 0, {});
      EXPECT_TRUE(streaming.awaitLaunched(1, 2));
    }
    refused(streaming, early, "weight buffer 0: found in use on the device, expected to be free");
    Streaming::expectDone(streaming.tiny.await(streaming.chain.back()));
    Streaming::expectDone(streaming.tiny.await(streaming.runtime.submitLoadWeight(2, 0, {})));  // now it is free
  }
  Streaming streaming(store);
  const Pause pause;
  streaming.load(0, {});
  EXPECT_TRUE(streaming.awaitLaunched(0, 1));
  const EventId early =
      streaming.runtime.submitCompute(ComputePart::Project, 0, streaming.batch, streaming.tiny.activations, {}, 0);
  refused(streaming, early, "weight buffer 0: found on its way to the device, expected to be there");
}

// An order that runs over a third stream, and one over the host, are orders, too.
TEST(GpuAhead, EventsReachThroughOtherStreams) {
  const TinyStore store(fourLayers());
  RuntimeOptions options = split(store, 0, kAll);
  options.spill = SpillOptions{"/tmp", 0, 0, 0, 1 << 20};
  TinyRuntime tiny(std::move(options));
  Runtime& runtime = tiny.runtime;
  const auto row = int32_t(runtime.createSequence(sequenceOptions(randomTokens(12, 67, 5), 12)));
  const uint32_t batch = runtime.createBatch({row, 0, 12, int32_t(HeadMode::None), 0, 1, -1}, {0});
  const uint32_t hidden = runtime.createHiddenStore(12, 5);
  std::vector<EventId> events;
  const auto then = [&](EventId event) { events.push_back(event); };
  then(runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {}));
  for (uint32_t layer = 0; layer < kLayers; layer++) {
    then(runtime.submitLoadWeight(
        layer, 0, {events.back()}));  // after the last load_activation, which follows the store that follows the layer
    for (const ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish})
      then(runtime.submitCompute(part, layer, batch, tiny.activations, {events.back()}, 0));
    then(runtime.submitStoreActivation(hidden, tiny.activations, 12, {events.back()}));
    then(runtime.submitLoadActivation(hidden, tiny.activations, 12, {events.back()}));
  }
  for (const EventId event : events) Streaming::expectDone(tiny.await(event));
  EXPECT_TRUE(emulator::idle());
}

TEST(GpuAhead, ADeviceThatFailsFailsTheTaskAndWhatDependsOnItAndNothingHangs) {
  const TinyStore store(fourLayers());
  for (const size_t kernel : {size_t(0), size_t(5), size_t(17), size_t(40)}) {
    {
      Streaming streaming(store);
      {
        const Pause pause;
        emulator::breakAt(kernel);
        streaming.submit();
        EXPECT_TRUE(streaming.awaitLaunched(kAhead, 3));
      }
      bool failed = false;
      for (size_t i = 1; i < streaming.chain.size(); i++) {
        const Completion completion = streaming.tiny.await(streaming.chain[i]);
        if (!failed && !completion.failed) continue;
        // The first one says what the device said, the others whose fault it is.
        EXPECT_EQ(completion.code, failed || completion.message.find("which this task waits for") != std::string::npos
                                       ? ErrorCode::Dependency
                                       : ErrorCode::Internal)
            << i << ": " << completion.message;
        failed = true;
      }
      EXPECT_TRUE(failed) << "kernel " << kernel;
      for (const EventId event : streaming.loads) {
        const Completion load = streaming.tiny.await(event);
        EXPECT_TRUE(!load.failed || load.code == ErrorCode::Dependency ||
                    load.message.find("unspecified launch failure") != std::string::npos)
            << load.message;
      }
    }
    emulator::breakAt(SIZE_MAX);
  }
  EXPECT_EQ(rightScores(store).size(), 3u);
}

TEST(GpuAhead, WhatWasLaunchedFinishesWhenTheRestIsCancelledOrTheRuntimeIsClosed) {
  const TinyStore store(fourLayers());
  const std::vector<float> right = rightScores(store);
  for (const bool closes : {false, true}) {
    Streaming streaming(store);
    Runtime& runtime = streaming.runtime;
    {
      const Pause pause;
      streaming.submit();
      EXPECT_TRUE(streaming.awaitLaunched(kAhead, 3));
      if (closes)
        runtime.close();
      else
        runtime.cancelAll();
    }
    for (size_t i = 1; i < streaming.chain.size(); i++) {
      const Completion completion = streaming.tiny.await(streaming.chain[i]);
      EXPECT_EQ(completion.failed, i > kAhead) << i << ": " << completion.message;
      if (i > kAhead) {
        EXPECT_EQ(completion.code, ErrorCode::Cancelled) << i;
      }
    }
    for (size_t i = 0; i < streaming.loads.size(); i++)
      EXPECT_EQ(streaming.tiny.await(streaming.loads[i]).failed, i > 2) << i;
    if (!closes) continue;
    runtime.join();
    EXPECT_TRUE(runtime.closed());
    EXPECT_TRUE(emulator::idle());
  }
  expectSameBits(rightScores(store), right, "afterwards");
}

}  // namespace
}  // namespace spillway
#endif
