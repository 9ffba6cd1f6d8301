// Every kind of decoder on a device, against the reference in double arithmetic.
#include "../../model/architectureCases.h"
#include "gpuFixture.h"

namespace spillway {
namespace {

using namespace fixture;

struct Expected {
  std::vector<double> scores;
  reference::Vector logits;
};

Expected expectedOf(reference::Decoder& decoder, const std::vector<int32_t>& text) {
  Expected expected;
  for (size_t p = 0; p < text.size(); p++) {
    expected.logits = decoder.step(text[p], p);
    if (p + 1 < text.size()) expected.scores.push_back(reference::logProbability(expected.logits, text[p + 1]));
  }
  return expected;
}

class GpuArchitecture : public testing::TestWithParam<Case> {
 protected:
  // tolerance: of a log-probability, and of how far a chosen token's logit may be from the best one.
  void check(Precision precision, CacheType cache, double tolerance) {
    DecoderSpec spec = smallSpec();
    GetParam().change(spec);
    const TinyModel model(spec, GetParam().optional);
    const std::vector<int32_t> text = randomTokens(40, spec.vocabularySize, 3);
    reference::Decoder decoder(spec, model.weights);
    Expected expected = expectedOf(decoder, text);

    RuntimeOptions options = onGpu(model.options());
    options.precision = precision;
    options.cacheType = cache;
    TinyRuntime tiny(std::move(options));
    const uint32_t scored = tiny.runtime.createSequence(sequenceOptions(text, 40));
    const auto scores = tiny.pass({{scored, 0, 40, HeadMode::Score, {9, 2, 7}}});
    ASSERT_EQ(scores->scores.size(), expected.scores.size());
    for (size_t i = 0; i < expected.scores.size(); i++)
      EXPECT_NEAR(scores->scores[i], expected.scores[i], tolerance) << "position " << i;

    // Goes on greedily, one token a pass, against the reference on the same tokens.
    const uint32_t grown = tiny.runtime.createSequence(sequenceOptions(text, 44));
    std::vector<int32_t> tokens = text;
    for (uint32_t first = 0; tokens.size() < 44; first = uint32_t(tokens.size()) - 1) {
      const auto head = tiny.pass({{grown, first, uint32_t(tokens.size()) - first, HeadMode::Sample, {3, 11, 4}}});
      ASSERT_EQ(head->tokens.size(), 1u);
      const int32_t token = head->tokens[0];
      for (size_t other = 0; other < expected.logits.size(); other++)
        EXPECT_LE(expected.logits[other], expected.logits[size_t(token)] + tolerance);
      expected.logits = decoder.step(token, tokens.size());
      tokens.push_back(token);
    }
  }
};

// In float32 as good as the processor.
TEST_P(GpuArchitecture, InFloat32EqualsTheReference) { check(Precision::Float32, CacheType::F32, 3e-4); }

// Products on halves: 11 bits of weights and activations, 2 layers, logits of about 3.
TEST_P(GpuArchitecture, OnHalvesIsNearTheReference) { check(Precision::Default, CacheType::F16, 4e-2); }

INSTANTIATE_TEST_SUITE_P(Kinds, GpuArchitecture, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spillway
