// Every kind of decoder against the reference in double arithmetic.
#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

struct Case {
  const char* name;
  void (*change)(DecoderSpec&);
  bool optional = true;  // with every weight that a decoder of the kind may have, or with none of them
};

void rotary(DecoderSpec& spec, RotaryStyle style, uint32_t dims, float scale = 1) {
  spec.rotaryStyle = style;
  spec.rotaryDims = dims;
  spec.rotaryTables[0].frequencies.resize(dims / 2);
  spec.rotaryTables[0].scale = scale;
}

const Case kCases[] = {
    {"llama", [](DecoderSpec&) {}, false},
    {"llama_biases", [](DecoderSpec&) {}},
    {"mistral_window", [](DecoderSpec& s) { rotary(s, RotaryStyle::Halves, 16); s.layerSpecs[0].window = s.layerSpecs[1].window = 5; }, false},
    {"qwen3_head_norms", [](DecoderSpec& s) { rotary(s, RotaryStyle::Halves, 16); s.qkNorm = true; }, false},
    {"phi3_partial_rotary_scaled", [](DecoderSpec& s) { rotary(s, RotaryStyle::Halves, 12, 1.19f); }, false},
    {"gemma3",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.residual = Residual::Sandwich;
       s.qkNorm = true;
       s.activation = Activation::GeluTanh;
       s.embeddingScale = 6.93f;
       s.rotaryTables.push_back(s.rotaryTables[0]);
       for (float& f : s.rotaryTables[1].frequencies) f *= 0.125f;
       s.layerSpecs[0] = {7, 1};
     },
     false},
    {"opt",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.position = PositionKind::Learned;
       s.rotaryTables.clear();
       s.rotaryDims = 0;
       s.learnedOffset = 2;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Relu;
       s.kvHeads = 4;
     }},
    {"opt_350m",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.residual = Residual::Post;
       s.finalNorm = false;
       s.embeddingSize = 20;
       s.position = PositionKind::Learned;
       s.learnedOffset = 2;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Relu;
     }},
    {"gpt_neox_two_norms",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 4);
       s.norm = NormKind::Layer;
       s.residual = Residual::Parallel;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Gelu;
     }},
    {"falcon_one_norm",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.residual = Residual::Parallel;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Gelu;
       s.kvHeads = 1;
     },
     false},
    {"falcon_alibi",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.residual = Residual::Parallel;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Gelu;
       s.position = PositionKind::Alibi;
       s.alibiSlopes = {0.5f, 0.31f, 0.125f, 0.07f};
       s.alibiRoundToBfloat16 = true;
     }},
    {"alibi", [](DecoderSpec& s) { s.position = PositionKind::Alibi; s.alibiSlopes = {0.5f, 0.31f, 0.125f, 0.07f}; }},
    {"mixtral",
     [](DecoderSpec& s) {
       s.feedForward = FeedForwardKind::Experts;
       s.experts = 5;
       s.expertsPerToken = 2;
     },
     false},
};

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
  const uint32_t scored = tiny.runtime.createRow(rowOptions(text, 40));
  const auto scores = tiny.pass({{scored, 0, 40, HeadMode::Score, {9, 2, 7}}});
  EXPECT_EQ(scores->scored, (std::vector<int32_t>{int32_t(scored), 0, 39}));
  ASSERT_EQ(scores->scores.size(), expected.size());
  for (size_t i = 0; i < expected.size(); i++) EXPECT_NEAR(scores->scores[i], expected[i], 2e-4) << "position " << i;

  // Goes on greedily, one token a pass, against the reference on the same tokens.
  const uint32_t grown = tiny.runtime.createRow(rowOptions(text, 52));
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

INSTANTIATE_TEST_SUITE_P(Kinds, Architecture, testing::ValuesIn(kCases), [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spillway
