// Layers that remember a state against the reference in double arithmetic, token by token and in chunks.
#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

struct Mixture {
  const char* name;
  void (*change)(DecoderSpec&);
};

// Heads' sizes are whole blocks of a state, parts of one, and neither; heads are no power of two.
const Mixture kMixtures[] = {
    {"lightning",
     [](DecoderSpec& s) {
       s.residual = Residual::Post;
       s.recurrent.taps = 1;
       s.recurrent.lightning.heads = 3;
       s.recurrent.lightning.headDim = 41;
       s.recurrent.lightning.epsilon = 1e-5f;
       s.layerSpecs[0].mixer = Mixer::LightningAttention;
       s.layerSpecs[0].decays = {0.9f, 0.55f, 1};
       s.layerSpecs[0].mixerSum = {1.5f, 0.75f};
       s.layerSpecs[0].blockSum = {0.5f, 1.25f};
       s.layerSpecs[1].mixerSum = {2, 0.5f};
     }},
    {"lightning_blocks",
     [](DecoderSpec& s) {
       s.residual = Residual::Post;
       s.recurrent.taps = 1;
       s.recurrent.lightning.heads = 2;
       s.recurrent.lightning.headDim = 64;
       s.recurrent.lightning.epsilon = 1e-5f;
       for (LayerSpec& layer : s.layerSpecs) {
         layer.mixer = Mixer::LightningAttention;
         layer.decays = {0.8f, 0.97f};
       }
     }},
    {"delta_rule",
     [](DecoderSpec& s) {
       s.recurrent.taps = 4;
       s.recurrent.delta.keyHeads = 3;
       s.recurrent.delta.valueHeads = 6;
       s.recurrent.delta.keyDim = 24;
       s.recurrent.delta.valueDim = 52;
       s.recurrent.delta.epsilon = 1e-5f;
       s.layerSpecs[0].mixer = Mixer::DeltaRule;
     }},
    {"delta_rule_many_heads",
     [](DecoderSpec& s) {
       s.recurrent.taps = 3;
       s.recurrent.delta.keyHeads = s.recurrent.delta.valueHeads = 9;
       s.recurrent.delta.keyDim = 8;
       s.recurrent.delta.valueDim = 16;
       s.recurrent.delta.epsilon = 1e-5f;
       s.layerSpecs[1].mixer = Mixer::DeltaRule;
     }},
    {"rg_lru",
     [](DecoderSpec& s) {
       s.recurrent.taps = 4;
       s.recurrent.lru = {3, 25};
       s.activation = Activation::GeluTanh;
       s.layerSpecs[0].mixer = Mixer::RgLru;
     }},
    {"rg_lru_blocks",
     [](DecoderSpec& s) {
       s.recurrent.taps = 1;
       s.recurrent.lru = {2, 48};
       for (LayerSpec& layer : s.layerSpecs) layer.mixer = Mixer::RgLru;
     }},
    {"state_space",
     [](DecoderSpec& s) {
       s.recurrent.taps = 5;
       s.recurrent.stateSpace.heads = 6;
       s.recurrent.stateSpace.headDim = 44;
       s.recurrent.stateSpace.stateDim = 20;
       s.recurrent.stateSpace.groups = 2;
       s.layerSpecs[0].mixer = Mixer::StateSpace;
     }},
};

class Recurrent : public testing::TestWithParam<Mixture> {
 protected:
  static RuntimeOptions optionsOf(const TinyModel& model, InstructionSet set) {
    RuntimeOptions options = model.options();
    options.states = 2;
    options.instructionSet = set;
    return options;
  }
  static uint32_t sequence(TinyRuntime& tiny, const std::vector<int32_t>& text, uint32_t capacity, int32_t state) {
    SequenceOptions options = sequenceOptions(text, capacity);
    options.state = state;
    return tiny.runtime.createSequence(std::move(options));
  }
};

TEST_P(Recurrent, ScoresAndContinuationsEqualTheReference) {
  DecoderSpec spec = smallSpec();
  GetParam().change(spec);
  const TinyModel model(spec);
  const std::vector<int32_t> text = randomTokens(40, spec.vocabularySize, 3);
  ReferenceText reference(model, text);

  TinyRuntime tiny(optionsOf(model, InstructionSet::Scalar));
  reference.expectScores(*tiny.pass({{sequence(tiny, text, 40, 0), 0, 40, HeadMode::Score, {9, 2, 7}}}), 5e-4);
  reference.expectContinuation(tiny, sequence(tiny, text, 52, 1), 52, {3, 11, 4, 30}, 5e-4);
}

// Pieces of a prompt, several of them in a pass with another row's, one token alone: the same bits.
TEST_P(Recurrent, ChunksAndCompanyChangeNoBit) {
  DecoderSpec spec = smallSpec();
  GetParam().change(spec);
  const TinyModel model(spec);
  const std::vector<int32_t> text = randomTokens(40, spec.vocabularySize, 3),
                             other = randomTokens(30, spec.vocabularySize, 4);
  TinyRuntime tiny(optionsOf(model, InstructionSet::Scalar));
  const auto whole = tiny.pass({{sequence(tiny, text, 40, 0), 0, 40, HeadMode::Score, {9, 2, 7}}})->scores;

  TinyRuntime again(optionsOf(model, InstructionSet::Scalar));
  const uint32_t row = sequence(again, text, 40, 1), beside = sequence(again, other, 30, 0);
  std::vector<float> chunked;
  const auto keep = [&](const std::vector<Range>& ranges) {
    const auto scores = again.pass(ranges);
    const size_t own = std::min<size_t>(ranges[0].tokens, 40 - 1 - ranges[0].first);
    chunked.insert(chunked.end(), scores->scores.begin(), scores->scores.begin() + long(own));
  };
  const std::vector<int32_t> pages = {9, 2, 7}, others = {20, 21};
  keep({{row, 0, 7, HeadMode::Score, pages}, {beside, 0, 3, HeadMode::Score, others}});
  keep({{row, 7, 1, HeadMode::Score, pages}});
  keep({{row, 8, 2, HeadMode::Score, pages}, {beside, 3, 20, HeadMode::Score, others}});
  keep({{row, 10, 30, HeadMode::Score, pages}});
  ASSERT_EQ(chunked.size(), whole.size());
  for (size_t i = 0; i < whole.size(); i++) EXPECT_EQ(chunked[i], whole[i]) << "position " << i;
}

INSTANTIATE_TEST_SUITE_P(Mixers, Recurrent, testing::ValuesIn(kMixtures),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spillway
