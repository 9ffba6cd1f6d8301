// Every kind of decoder against the reference in double arithmetic.
#include "architectureCases.h"

namespace spillway {
namespace {

using namespace fixture;

class Architecture : public testing::TestWithParam<Case> {};

TEST_P(Architecture, ScoresAndContinuationsEqualTheReference) {
  DecoderSpec spec = smallSpec();
  GetParam().change(spec);
  const TinyModel model(spec, GetParam().optional);
  const std::vector<int32_t> text = randomTokens(40, spec.vocabularySize, 3);

  reference::Decoder decoder(spec, model.weights);
  std::vector<double> expected;
  reference::Vector logits;
  for (size_t p = 0; p < text.size(); p++) {
    logits = decoder.step(text[p], p);
    if (p + 1 < text.size()) expected.push_back(reference::logProbability(logits, text[p + 1]));
  }

  TinyRuntime tiny(model.options());
  const uint32_t scored = tiny.runtime.createSequence(sequenceOptions(text, 40));
  const auto scores = tiny.pass({{scored, 0, 40, HeadMode::Score, {9, 2, 7}}});
  EXPECT_EQ(scores->scored, (std::vector<int32_t>{int32_t(scored), 0, 39}));
  ASSERT_EQ(scores->scores.size(), expected.size());
  for (size_t i = 0; i < expected.size(); i++) EXPECT_NEAR(scores->scores[i], expected[i], 2e-4) << "position " << i;

  // Goes on greedily, one token a pass, against the reference on the same tokens.
  const uint32_t grown = tiny.runtime.createSequence(sequenceOptions(text, 52));
  std::vector<int32_t> tokens = text;
  for (uint32_t first = 0; tokens.size() < 52; first = uint32_t(tokens.size()) - 1) {
    const auto head = tiny.pass({{grown, first, uint32_t(tokens.size()) - first, HeadMode::Sample, {3, 11, 4, 30}}});
    ASSERT_EQ(head->tokens.size(), 1u);
    const int32_t token = head->tokens[0];
    for (size_t other = 0; other < logits.size(); other++) EXPECT_LE(logits[other], logits[size_t(token)] + 1e-4);
    logits = decoder.step(token, tokens.size());
    tokens.push_back(token);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Architecture, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spillway
