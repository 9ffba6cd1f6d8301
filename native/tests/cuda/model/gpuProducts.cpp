// Long prompts multiplied by cuBLASLt, or what stands in for it.
#include "gpuFixture.h"
#if !defined(SPILLWAY_CUDA_RUNTIME)
#include "../fakeCublasLt.h"

namespace spillway {
namespace gpu_products {

using namespace fixture;

constexpr uint32_t kTokens = 37, kPrompt = 20;

RuntimeOptions withProducts(RuntimeOptions options, GpuProducts products = GpuProducts::CublasLt) {
  options.precision = Precision::Default;
  options.cacheType = CacheType::F16;
  options.gpu->products = products;
  options.gpu->longPromptTokens = kPrompt;
  return options;
}

SequenceOptions prompted(const std::vector<int32_t>& text, uint32_t promptTokens) {
  SequenceOptions options = sequenceOptions(text, uint32_t(text.size()));
  options.promptTokens = promptTokens;
  return options;
}

// The row's own scores, in chunks; in the company of a row that has no long prompt before it, and one with a longer one
// after it.
std::vector<float> score(RuntimeOptions options, const std::vector<int32_t>& text, uint32_t promptTokens,
                         uint32_t chunk, bool company) {
  TinyRuntime tiny(std::move(options));
  const uint32_t before = tiny.runtime.createSequence(prompted(randomTokens(kTokens, 67, 8), 3)),
                 behind = tiny.runtime.createSequence(prompted(randomTokens(kTokens, 67, 9), kTokens)),
                 row = tiny.runtime.createSequence(prompted(text, promptTokens));
  std::vector<float> scores;
  for (uint32_t first = 0; first < kTokens; first += chunk) {
    const uint32_t some = std::min(chunk, kTokens - first);
    std::vector<Range> ranges = {{row, first, some, HeadMode::Score, {0, 1, 2}}};
    if (company) {
      ranges.insert(ranges.begin(), {before, first, some, HeadMode::None, {10, 11, 12}});
      ranges.push_back({behind, first, some, HeadMode::None, {20, 21, 22}});
    }
    const auto head = tiny.pass(ranges);
    scores.insert(scores.end(), head->scores.begin(), head->scores.end());
  }
  return scores;
}

double mostApart(const std::vector<float>& a, const std::vector<float>& b) {
  double most = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); i++) most = std::max(most, double(std::fabs(a[i] - b[i])));
  return most;
}

TEST(GpuProducts, OfLongPromptsByCublasLtDependOnTheRowAlone) {
  const TinyStore store(smallSpec());
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 5);
  const auto resident = [&](GpuProducts products) { return withProducts(onGpu(store.model.options()), products); };
  const std::vector<float> own = score(resident(GpuProducts::Own), text, kPrompt, kTokens, false);
  const fake::Library library;
  cuda::underEverySeed([&] {
    const std::vector<float> alone = score(resident(GpuProducts::CublasLt), text, kPrompt, kTokens, false);
    EXPECT_LT(mostApart(alone, own), 1e-2);
    EXPECT_GT(mostApart(alone, own), 0) << "sums are in another order";
    EXPECT_EQ(library->used, fake::kOneSequence);
    expectSameBits(score(resident(GpuProducts::CublasLt), text, kPrompt, 9, true), alone, "in chunks, in company");
  });
  const uint64_t layer = store.blocks(0)[1].bytes;
  const Outcome streamed = scoreStreaming(withProducts(split(store, layer / 3, layer / 4), GpuProducts::Auto), text);
  ASSERT_FALSE(streamed.failure) << streamed.failure->message;
  expectSameBits(streamed.scores, scoreStreaming(resident(GpuProducts::CublasLt), text).scores, "weights on all tiers");
  expectSameBits(score(resident(GpuProducts::CublasLt), text, kPrompt - 1, 9, false),
                 score(resident(GpuProducts::Own), text, kPrompt - 1, kTokens, false), "a prompt that is not long");
  library->end = fake::kOneSequence;
  expectSameBits(score(resident(GpuProducts::CublasLt), text, kPrompt, 9, true), own, "no algorithm");
  EXPECT_EQ(library->objects, 0u);
}

// A prompt's beginning may be computed by itself, for several rows to go on from: it counts as a part of that prompt.
TEST(GpuProducts, OfAPromptsBeginningAreThoseOfThePrompt) {
  constexpr uint32_t kBeginning = 18;
  const fake::Library library;
  const TinyModel model(smallSpec());
  const RuntimeOptions options = withProducts(onGpu(model.options()));
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 5);
  const std::vector<float> alone = score(options, text, kPrompt, kTokens, false);
  const auto behind = [&](uint32_t promptTokens) {
    TinyRuntime tiny(options);
    const uint32_t beginning =
        tiny.runtime.createSequence(prompted({text.begin(), text.begin() + kBeginning}, promptTokens));
    const uint32_t row = tiny.runtime.createSequence(prompted(text, kPrompt));
    tiny.pass({{beginning, 0, kBeginning, HeadMode::None, {0, 1}}});
    return tiny.pass({{row, kBeginning, kTokens - kBeginning, HeadMode::Score, {0, 2, 3}, 1}})->scores;
  };
  expectSameBits(behind(kPrompt), {alone.begin() + kBeginning, alone.end()}, "of a long prompt");
  EXPECT_GT(mostApart(behind(kBeginning), {alone.begin() + kBeginning, alone.end()}), 0) << "of a prompt by itself";
}

TEST(GpuProducts, WithoutCublasLtAreTheKernelsOrRefused) {
  const TinyModel model(smallSpec());
  const RuntimeOptions options = onGpu(model.options());
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 5);
  expectSameBits(score(withProducts(options, GpuProducts::Auto), text, kPrompt, 16, false),
                 score(withProducts(options, GpuProducts::Own), text, kPrompt, 16, false), "auto");
  expectRefused([&] { const Runtime runtime(withProducts(options), [] {}); },
                "gpu.products: found cublaslt, expected own: no libcublasLt was found");
  RuntimeOptions exact = withProducts(options);
  exact.precision = Precision::Float32;
  exact.cacheType = CacheType::F32;
  const Runtime runtime(std::move(exact), [] {});  // has no use for it
}

TEST(GpuProducts, TheirMemoryIsWithinTheCap) {
  const fake::Library library;
  const TinyModel model(smallSpec());
  const GpuBytes own = *Model(withProducts(onGpu(model.options()), GpuProducts::Own)).bytes().gpu;
  RuntimeOptions options = withProducts(onGpu(model.options()));
  const GpuBytes bytes = *Model(RuntimeOptions(options)).bytes().gpu;
  EXPECT_GT(bytes.scratch, own.scratch);
  options.gpu->memoryBytes = bytes.weights + bytes.weightBuffers + bytes.cache + bytes.scratch + bytes.activations;
  const uint64_t before = takenBytes();
  TinyRuntime tiny(std::move(options));
  EXPECT_LE(takenBytes(), before + bytes.weights + bytes.weightBuffers + bytes.cache + bytes.scratch +
                              bytes.activations + kCountedBytes);
  const uint32_t row = tiny.runtime.createSequence(prompted(randomTokens(kTokens, 67, 5), kTokens));
  library->rows = 0;
  tiny.pass({{row, 0, kTokens, HeadMode::Score, {0, 1, 2}}});
  EXPECT_GT(library->rows, 0u);
}

TEST(GpuProducts, AnErrorInMidRunFailsItsTaskAndNoMore) {
  const fake::Library library;
  const TinyModel model(smallSpec());
  TinyRuntime tiny(withProducts(onGpu(model.options())));
  const auto row = int32_t(tiny.runtime.createSequence(prompted(randomTokens(kTokens, 67, 5), kTokens)));
  const uint32_t batch =
      tiny.runtime.createBatch({row, 0, int32_t(kTokens), int32_t(HeadMode::Sample), 0, 3, -1}, {0, 1, 2});
  EXPECT_FALSE(tiny.await(tiny.runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {})).failed);
  library->multiplyStatus = 14;
  const Completion failed =
      tiny.await(tiny.runtime.submitCompute(ComputePart::Project, 0, batch, tiny.activations, {}));
  EXPECT_TRUE(failed.failed);
  EXPECT_EQ(failed.message, "cuBLASLt: cublasLtMatmul: status 14");
  library->multiplyStatus = 0;
  EXPECT_FALSE(tiny.await(tiny.runtime.submitCompute(ComputePart::Project, 0, batch, tiny.activations, {})).failed);
}

}  // namespace gpu_products
}  // namespace spillway
#endif
