// The bits of results, which kNumericsVersion stands for.
#include "../../kernels/numerics.h"
#include "../../system/Checksum.h"
#include "architectureCases.h"

namespace spillway {
namespace {

using namespace fixture;

// Of a text's log-probabilities, and of a continuation of it that is drawn token by token.
uint32_t sumOf(RuntimeOptions options) {
  options.instructionSet = InstructionSet::Scalar;  // the others but AMX give the same bits: kernel tests compare them
  const std::vector<int32_t> text = randomTokens(40, options.decoder.vocabularySize, 3);
  TinyRuntime tiny(std::move(options));
  const uint32_t scored = tiny.runtime.createSequence(sequenceOptions(text, 40));
  const auto scores = tiny.pass({{scored, 0, 40, HeadMode::Score, {9, 2, 7}}});
  uint32_t sum = crc32c(0, scores->scores.data(), scores->scores.size() * sizeof(float));

  SequenceOptions drawn = sequenceOptions(text, 52);
  drawn.sampling.temperature = 0.9f;
  drawn.sampling.topP = 0.95f;
  drawn.sampling.minP = 0.01f;
  drawn.sampling.repetitionPenalty = 1.1f;
  drawn.sampling.seed = 5;
  const uint32_t grown = tiny.runtime.createSequence(std::move(drawn));
  for (uint32_t first = 0, tokens = 40; tokens < 52; first = tokens++) {
    const auto head = tiny.pass({{grown, first, tokens - first, HeadMode::Sample, {3, 11, 4, 30}}});
    sum = crc32c(sum, head->tokens.data(), head->tokens.size() * sizeof(int32_t));
  }
  return sum;
}

// Results are kept by users under kNumericsVersion, in records of jobs and caches: whoever changes a bit of them raises
// it, and then changes these sums.
TEST(NumericsVersion, StandsForEveryBitOfResults) {
  uint32_t kinds = 0;
  for (const Case& kind : kCases) {
    DecoderSpec spec = smallSpec();
    kind.change(spec);
    const TinyModel model(spec, kind.optional);
    const uint32_t sum = sumOf(model.options());
    kinds = crc32c(kinds, &sum, sizeof(sum));
  }
  // Rounded activations, weights and caches, and sparse attention.
  DecoderSpec spec = smallSpec();
  spec.hiddenSize = spec.embeddingSize = 64;
  spec.feedForwardSize = 128;
  const TinyModel model(spec, false);
  uint32_t rounded = 0;
  for (const std::optional<WeightType> weights :
       {std::optional<WeightType>{}, std::optional<WeightType>{WeightType::Q8_0},
        std::optional<WeightType>{WeightType::Q4_G64}}) {
    for (const CacheType cache : {CacheType::F16, CacheType::Q8, CacheType::Q4}) {
      RuntimeOptions options = model.options();
      options.precision = Precision::Default;
      options.cacheType = cache;
      options.keepKeys = cache == CacheType::Q8 ? 0.4f : 1.0f;
      for (WeightBinding& binding : options.bindings) {
        if (binding.matrix && weights && binding.columns % weightBlockElements(*weights) == 0)
          binding.compressed = weights;
      }
      const uint32_t sum = sumOf(std::move(options));
      rounded = crc32c(rounded, &sum, sizeof(sum));
    }
  }
  EXPECT_EQ(kNumericsVersion, 6u);
  EXPECT_EQ(kinds, 847857116u);
  EXPECT_EQ(rounded, 1029301674u);
}

}  // namespace
}  // namespace spillway
