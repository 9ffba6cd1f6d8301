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

  ReferenceText reference(model, text);

  TinyRuntime tiny(model.options());
  const uint32_t scored = tiny.runtime.createSequence(sequenceOptions(text, 40));
  const auto scores = tiny.pass({{scored, 0, 40, HeadMode::Score, {9, 2, 7}}});
  EXPECT_EQ(scores->scored, (std::vector<int32_t>{int32_t(scored), 0, 39}));
  reference.expectScores(*scores, 2e-4);

  const uint32_t grown = tiny.runtime.createSequence(sequenceOptions(text, 52));
  reference.expectContinuation(tiny, grown, 52, {3, 11, 4, 30}, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Architecture, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spillway
