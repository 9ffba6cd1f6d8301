// What a device is asked for, what it refuses, and what it hands back.
#include "../../model/oddRows.h"
#include "gpuFixture.h"

namespace spillway {
namespace {

using namespace fixture;

void open(const RuntimeOptions& options) {
  const Runtime runtime(RuntimeOptions(options), [] {});
}

TEST(GpuRules, OptionsThatContradictThemselvesAreRefused) {
  const TinyModel model(smallSpec());
  const RuntimeOptions fine = onGpu(model.options());
  const auto refused = [&](const std::function<void(RuntimeOptions&)>& change, const std::string& words,
                           ErrorCode code = ErrorCode::InvalidArgument) {
    RuntimeOptions options = fine;
    change(options);
    expectRefused([&] { open(options); }, words, code);
  };
  refused([](RuntimeOptions& o) { o.gpu->device = 1000; }, "gpu.device: found 1000, expected an index under");
  refused([](RuntimeOptions& o) { o.gpu->pinnedBytes = 4096; },
          "gpu.pinnedBytes: found 4096, expected at least 1048576");
  refused([](RuntimeOptions& o) { o.gpu->residentLayerBytes = 0; }, "gpu.buffers: found 0, expected 1 or more");
  refused([](RuntimeOptions& o) { o.gpu->buffers = 5000; }, "gpu.buffers: found 5000");
  refused([](RuntimeOptions& o) { o.gpu->pages = 0; }, "cache.pages: found 0");
  refused([](RuntimeOptions& o) { o.gpu->pages = 4000000000u; }, "gpu.pages: found 4000000000");
  refused([](RuntimeOptions& o) { o.gpu->memoryBytes = 100000; }, "asked for", ErrorCode::Memory);
}

TEST(GpuRules, NoMoreIsReservedThanTheCapAndNoMoreTakenThanWasSaid) {
  const TinyModel model(smallSpec());
  RuntimeOptions options = onGpu(model.options());
  options.precision = Precision::Default;
  options.cacheType = CacheType::Q4;  // takes halves of its pages, too
  options.keepKeys = 0.5f;            // and scores
  const RuntimeBytes bytes = Model(RuntimeOptions(options)).bytes();
  const GpuBytes& gpu = *bytes.gpu;
  options.gpu->memoryBytes = gpu.weights + gpu.weightBuffers + gpu.cache + gpu.scratch + 2 * gpu.activations;
  open(options);  // whatever CUDA itself takes is taken by now
  const uint64_t before = takenBytes();
  const auto expectTaken = [&](uint64_t bytes) {
    EXPECT_LE(takenBytes(), before + bytes + kCountedBytes);
    EXPECT_GE(takenBytes() + kCountedBytes, before + bytes);
  };
  {
    Runtime runtime(RuntimeOptions(options), [] {});
    expectTaken(options.gpu->memoryBytes);
    const uint32_t first = runtime.createActivations(64);
    runtime.createActivations(64);
    expectRefused([&] { runtime.createActivations(1); }, "activations: asked for", ErrorCode::Memory);
    runtime.freeActivations(first);
    runtime.createActivations(64);
    expectTaken(options.gpu->memoryBytes);
#if !defined(SPILLWAY_CUDA_RUNTIME)
    EXPECT_EQ(emulator::pinnedBytesInUse(), options.gpu->pinnedBytes);
#endif
  }
  expectTaken(0);
#if !defined(SPILLWAY_CUDA_RUNTIME)
  EXPECT_EQ(emulator::pinnedBytesInUse(), 0u);
#endif
  options.gpu->memoryBytes = gpu.weights + gpu.weightBuffers + gpu.cache + gpu.scratch - 256;
  expectRefused([&] { open(options); }, "scratch memory: asked for", ErrorCode::Memory);
}

#if !defined(SPILLWAY_CUDA_RUNTIME)
TEST(GpuRules, ADeviceThatIsTooSmallOrNotThereIsSaidSo) {
  const TinyModel model(smallSpec());
  const RuntimeOptions options = onGpu(model.options());
  emulator::setDeviceBytes(1 << 20);
  expectRefused([&] { open(options); }, "GPU memory: asked for 8388608 bytes, 1048576 of its 1048576 bytes are free",
                ErrorCode::Memory);
  emulator::setDeviceBytes(size_t{1} << 30);
  emulator::setDevices(0);
  expectRefused([&] { open(options); }, "there is no NVIDIA GPU");
  EXPECT_GT(Model(RuntimeOptions(options)).bytes().gpu->weights, 0u);  // measuring needs none
  emulator::setDevices(1);
}
#endif

#if !defined(SPILLWAY_CUDA_RUNTIME)
// Whoever waits for a task's event may rely on what it has done: on other streams, too.
TEST(GpuRules, TasksEndWhenTheDeviceIsDone) {
  const TinyStore store(smallSpec());
  for (const bool pinnable : {true, false}) {
    emulator::setPinnable(pinnable);
    RuntimeOptions options = split(store, 0, 20000);
    options.pages = 8;
    options.spill = SpillOptions{"/tmp", 0, 0, 0, 1 << 20};
    TinyRuntime tiny(std::move(options));
    Runtime& runtime = tiny.runtime;
    EXPECT_TRUE(emulator::idle());
    const auto row = int32_t(runtime.createSequence(sequenceOptions(randomTokens(30, 67, 1), 31)));
    const uint32_t batch = runtime.createBatch({row, 0, 30, int32_t(HeadMode::Sample), 0, 2, -1},
                                               {8, 0});  // on the device, in host memory
    const uint32_t hidden = runtime.createHiddenStore(30, 7);
    const auto done = [&](EventId event, const std::string& what) {
      const Completion completion = tiny.await(event);
      EXPECT_FALSE(completion.failed) << what << ": " << completion.message;
      EXPECT_TRUE(emulator::idle()) << what << (pinnable ? "" : ", nothing pinned");
    };
    done(runtime.submitLoadWeight(0, 1, {}), "load_weight");
    done(runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {}), "embed");
    done(runtime.submitCompute(ComputePart::Project, 0, batch, tiny.activations, {}, 1), "project");
    done(runtime.submitCompute(ComputePart::Attend, 0, batch, tiny.activations, {}), "attend");
    done(runtime.submitCompute(ComputePart::Finish, 0, batch, tiny.activations, {}, 1), "finish");
    done(runtime.submitStoreActivation(hidden, tiny.activations, 30, {}), "store_activation");
    done(runtime.submitLoadActivation(hidden, tiny.activations, 30, {}), "load_activation");
    done(runtime.submitCompute(ComputePart::Head, 0, batch, tiny.activations, {}), "head");
  }
  emulator::setPinnable(true);
}
#endif

TEST(GpuRules, OddRowsChangeNoBitOfTheOthersAndHaveNoToken) {
  const TinyModel model(oddSpec());
  overwriteRow(model, -1, "token_embedding", kOddToken, std::numeric_limits<float>::quiet_NaN());
  RuntimeOptions options = onGpu(model.options());
  options.cacheType = CacheType::F16;
  options.precision = Precision::Default;
  expectOddRowsAlone(options);
}

TEST(GpuRules, SamplingFollowsItsParametersThereAsHere) {
  const TinyModel model(smallSpec());
  const std::vector<int32_t> text = randomTokens(9, 67, 8);
  const auto sample = [&](RuntimeOptions options) {
    TinyRuntime tiny(std::move(options));
    std::vector<Range> ranges;
    for (int r = 0; r < 6; r++) {
      SequenceOptions row = sequenceOptions(text, 12);
      row.sampling.temperature = r == 0 ? 0.0f : 0.9f;
      row.sampling.topK = r == 2 ? 5 : 0;
      row.sampling.topP = r == 3 ? 0.8f : 1.0f;
      row.sampling.repetitionPenalty = r == 4 ? 1.3f : 1.0f;
      row.sampling.seed = uint32_t(17 + r);
      row.logprobs = r == 5 ? 3 : r == 1 ? 0 : -1;
      ranges.push_back({tiny.runtime.createSequence(std::move(row)), 0, 9, HeadMode::Sample, {r}});
    }
    return tiny.pass(ranges);
  };
  RuntimeOptions here = model.options();
  const auto expected = sample(here);
  const auto found = sample(onGpu(here));
  EXPECT_EQ(found->tokens, expected->tokens);
  EXPECT_EQ(found->topCounts, expected->topCounts);
  EXPECT_EQ(found->topTokens, expected->topTokens);
  for (size_t r = 0; r < 6; r++) {
    if (std::isnan(expected->logprobs[r]))
      EXPECT_TRUE(std::isnan(found->logprobs[r])) << r;
    else
      EXPECT_NEAR(found->logprobs[r], expected->logprobs[r], 1e-4) << r;
  }
  for (size_t t = 0; t < 3; t++) EXPECT_NEAR(found->topLogprobs[t], expected->topLogprobs[t], 1e-4);
}

TEST(GpuRules, HiddenStatesCrossTheLinkAndComeBack) {
  const TinyModel model(smallSpec());
  for (const uint32_t residentTokens : {0u, 9u, 20u}) {
    RuntimeOptions options = onGpu(model.options());
    options.spill = SpillOptions{"/tmp", 0, 0, 0, 1 << 20};
    TinyRuntime tiny(std::move(options));
    Runtime& runtime = tiny.runtime;
    const std::vector<int32_t> text = randomTokens(20, 67, 4);
    const auto row = int32_t(runtime.createSequence(sequenceOptions(text, 20)));
    const uint32_t batch = runtime.createBatch({row, 0, 20, int32_t(HeadMode::Score), 0, 2, -1}, {0, 1});
    const uint32_t other = runtime.createActivations(64), store = runtime.createHiddenStore(20, residentTokens);
    const auto scores = [&](bool stored) {
      std::vector<EventId> events = {runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {})};
      uint32_t activations = tiny.activations;
      for (uint32_t layer = 0; layer < 2; layer++) {
        for (ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish})
          events.push_back(runtime.submitCompute(part, layer, batch, activations, {events.back()}));
        if (!stored) continue;
        events.push_back(runtime.submitStoreActivation(store, activations, 20, {events.back()}));
        activations = activations == other ? tiny.activations : other;
        events.push_back(runtime.submitLoadActivation(store, activations, 20, {events.back()}));
      }
      const Completion head =
          tiny.await(runtime.submitCompute(ComputePart::Head, 0, batch, activations, {events.back()}));
      EXPECT_FALSE(head.failed) << head.message;
      return static_cast<const HeadResult&>(*head.result).scores;
    };
    const std::vector<float> kept = scores(false);
    expectSameBits(scores(true), kept, "resident tokens " + std::to_string(residentTokens));
  }
}

}  // namespace
}  // namespace spillway
