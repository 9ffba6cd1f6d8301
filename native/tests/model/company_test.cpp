// A row's result is bitwise the same whatever its company, its chunks, its pages, and the number of threads.
#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

std::vector<float> scoreAlone(RuntimeOptions options, const std::vector<int32_t>& text, uint32_t chunk) {
  TinyRuntime tiny(std::move(options));
  const uint32_t row = tiny.runtime.createSequence(sequenceOptions(text, uint32_t(text.size())));
  std::vector<float> scores;
  for (uint32_t first = 0; first < text.size(); first += chunk) {
    const uint32_t tokens = std::min(chunk, uint32_t(text.size()) - first);
    const auto head = tiny.pass({{row, first, tokens, HeadMode::Score, {0, 1, 2, 3}}});
    scores.insert(scores.end(), head->scores.begin(), head->scores.end());
  }
  EXPECT_EQ(scores.size(), text.size() - 1);
  return scores;
}

void checkIndependence(const DecoderSpec& spec) {
  const TinyModel model(spec, false);
  const std::vector<int32_t> text = randomTokens(45, spec.vocabularySize, 5);
  const std::vector<float> alone = scoreAlone(model.options(), text, 45);
  for (uint32_t chunk : {1u, 7u, 16u}) expectSameBits(scoreAlone(model.options(), text, chunk), alone, "chunked");
  RuntimeOptions single = model.options();
  single.threads = 1;
  expectSameBits(scoreAlone(std::move(single), text, 45), alone, "one thread");
  for (InstructionSet set : kInstructionSets) {
    if (!machineHas(set)) continue;
    RuntimeOptions other = model.options();
    other.instructionSet = set;
    expectSameBits(scoreAlone(std::move(other), text, 45), alone, instructionSetName(set));
  }

  // Among five others at other positions, in chunks of 9.
  TinyRuntime tiny(model.options());
  std::vector<uint32_t> others;
  for (unsigned o = 0; o < 5; o++)
    others.push_back(tiny.runtime.createSequence(sequenceOptions(randomTokens(45, spec.vocabularySize, 100 + o), 45)));
  const uint32_t row = tiny.runtime.createSequence(sequenceOptions(text, 45));
  std::vector<float> scores;
  for (uint32_t first = 0; first < 45; first += 9) {
    std::vector<Range> ranges;
    for (uint32_t o = 0; o < 5; o++) {
      const uint32_t tokens = o + 1;
      const int32_t page = int32_t(10 + 4 * o);
      ranges.push_back({others[o],
                        first / 9 * tokens,
                        tokens,
                        o % 2 == 0 ? HeadMode::Score : HeadMode::None,
                        {page, page + 1, page + 2, page + 3}});
    }
    ranges.insert(ranges.begin() + first / 9, {row, first, 9, HeadMode::Score, {50, 6, 41, 3}});
    const auto head = tiny.pass(ranges);
    size_t at = 0;
    for (size_t s = 0; s < head->scored.size(); s += 3) {
      const size_t count = size_t(head->scored[s + 2]);
      if (uint32_t(head->scored[s]) == row)
        scores.insert(scores.end(), head->scores.begin() + long(at), head->scores.begin() + long(at + count));
      at += count;
    }
  }
  expectSameBits(scores, alone, "in company");
}

TEST(Company, ChangesNoBitOfALlama) { checkIndependence(smallSpec()); }

TEST(Company, ChangesNoBitOfAMixture) { checkIndependence(mixtureSpec(6, 3)); }

TEST(Company, ChangesNoBitOfAWindowedSandwich) { checkIndependence(windowedSandwichSpec()); }

struct Choice {
  int32_t token;
  float logprob;
};

SequenceOptions sampledRow(const std::vector<int32_t>& text) {
  SequenceOptions options = sequenceOptions(text, 64);
  options.logprobs = 0;
  return options;
}

// What follows a text whose tokens come one by one.
Choice continueAlone(const TinyModel& model, const std::vector<int32_t>& text) {
  TinyRuntime tiny(model.options());
  const uint32_t row = tiny.runtime.createSequence(sampledRow(text)), last = uint32_t(text.size()) - 1;
  for (uint32_t t = 0; t < last; t++) tiny.pass({{row, t, 1, HeadMode::None, {0, 1, 2, 3}}});
  const auto head = tiny.pass({{row, last, 1, HeadMode::Sample, {0, 1, 2, 3}}});
  return {head->tokens[0], head->logprobs[0]};
}

void checkHeadTokens(const DecoderSpec& spec) {
  const TinyModel model(spec, false);
  TinyRuntime tiny(model.options());
  std::vector<std::vector<int32_t>> texts;
  std::vector<uint32_t> rows;
  for (const size_t length : {17, 20, 9, 1}) {
    texts.push_back(randomTokens(length, spec.vocabularySize, unsigned(200 + length)));
    rows.push_back(tiny.runtime.createSequence(sampledRow(texts.back())));
  }
  const auto head = tiny.pass({{rows[0], 0, 12, HeadMode::None, {0, 1}},
                               {rows[1], 0, 20, HeadMode::Sample, {2, 3}},
                               {rows[2], 0, 9, HeadMode::Score, {4}},
                               {rows[3], 0, 1, HeadMode::Sample, {5}}});
  ASSERT_EQ(head->rows, (std::vector<int32_t>{int32_t(rows[1]), int32_t(rows[3])}));
  expectSameBits(head->scores, scoreAlone(model.options(), texts[2], 1), "scored");
  const auto nothing = tiny.pass({{rows[0], 12, 2, HeadMode::None, {0, 1}}});
  EXPECT_TRUE(nothing->rows.empty());
  const auto rest = tiny.pass({{rows[0], 14, 3, HeadMode::Sample, {0, 1}}});
  const Choice found[] = {
      {rest->tokens[0], rest->logprobs[0]}, {head->tokens[0], head->logprobs[0]}, {head->tokens[1], head->logprobs[1]}};
  const size_t of[] = {0, 1, 3};
  for (size_t i = 0; i < 3; i++) {
    const Choice alone = continueAlone(model, texts[of[i]]);
    EXPECT_EQ(found[i].token, alone.token) << "row " << of[i];
    expectSameBits({found[i].logprob}, {alone.logprob}, "sampled");
  }
}

// After the last layer only the tokens that the head takes are finished: here none of a range, its last one, and all.
TEST(Company, RangesThatSampleScoreAndDoNeitherKeepTheirBits) {
  checkHeadTokens(smallSpec());
  checkHeadTokens(mixtureSpec(6, 3));
  checkHeadTokens(windowedSandwichSpec());
}

}  // namespace
}  // namespace spillway
