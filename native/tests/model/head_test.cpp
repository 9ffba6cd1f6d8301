// Greedy rows take the largest logit slice by slice of the vocabulary: the same tokens as from all logits at once.
#include <cstdio>

#include "../tries.h"
#include "oddRows.h"

namespace spillway {
namespace head_test {

using namespace fixture;

constexpr uint32_t kPairs = 32;

// So many outputs that the logits of 32 rows are three slices.
DecoderSpec wideSpec() {
  DecoderSpec spec = smallSpec();
  spec.vocabularySize = 20000;
  return spec;
}

RuntimeOptions wideOptions(const TinyModel& model) {
  RuntimeOptions options = model.options();
  options.limits = {64, 64};
  return options;
}

TEST(Head, GreedyRowsSampleTheSameTokensWithAndWithoutTheirLogits) {
  const TinyModel model(wideSpec(), false);
  TinyRuntime tiny(wideOptions(model));
  // Rows that want a log-probability need all logits; their twins do not. The two kinds stand in turn in the batch.
  std::vector<Range> ranges;
  for (uint32_t i = 0; i < 2 * kPairs; i++) {
    SequenceOptions options = sequenceOptions(randomTokens(1, model.spec.vocabularySize, i / 2), 8);
    options.logprobs = i % 2 == 0 ? 0 : -1;
    ranges.push_back({tiny.runtime.createSequence(std::move(options)), 0, 1, HeadMode::Sample, {int32_t(i)}});
  }
  size_t beyondTheFirstSlice = 0;
  for (int pass = 0; pass < tries(2, 4); pass++) {
    const auto head = tiny.pass(ranges);
    ASSERT_EQ(head->tokens.size(), 2 * kPairs);
    for (uint32_t i = 0; i < 2 * kPairs; i += 2) {
      EXPECT_EQ(head->rows[i], int32_t(ranges[i].row));
      EXPECT_EQ(head->tokens[i], head->tokens[i + 1]) << "pass " << pass << ", row " << i;
      EXPECT_FALSE(std::isnan(head->logprobs[i]));
      EXPECT_TRUE(std::isnan(head->logprobs[i + 1]));
      beyondTheFirstSlice += head->tokens[i] >= 8192 ? 1 : 0;
    }
    for (Range& range : ranges) range.first++;
  }
  EXPECT_GT(beyondTheFirstSlice, 0u);
}

TEST(Head, OfEqualLogitsInSeveralSlicesTheFirstWins) {
  const TinyModel model(wideSpec(), false);
  for (const WeightBinding& binding : model.bindings) {
    if (binding.role != "token_embedding") continue;  // the head is tied to it
    FILE* file = std::fopen(model.file.c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    const std::vector<float> zeros(binding.columns, 0.0f);
    for (const auto& segment : binding.segments) {
      std::fseek(file, static_cast<long>(segment.offset), SEEK_SET);
      for (uint32_t r = 0; r < segment.rows; r++) std::fwrite(zeros.data(), sizeof(float), zeros.size(), file);
    }
    std::fclose(file);
  }
  TinyRuntime tiny(wideOptions(model));
  std::vector<Range> ranges;
  for (uint32_t i = 0; i < kPairs; i++)
    ranges.push_back(
        {tiny.runtime.createSequence(sequenceOptions({int32_t(i)}, 8)), 0, 1, HeadMode::Sample, {int32_t(i)}});
  const auto head = tiny.pass(ranges);
  for (int32_t token : head->tokens) EXPECT_EQ(token, 0);
}

// One row samples, asked for the log-probabilities of some tokens; its twin for those of all, best first.
TEST(Head, CandidatesHaveTheLogProbabilitiesThatTheAlternativesHave) {
  const TinyModel model(smallSpec());
  TinyRuntime tiny(model.options());
  const std::vector<int32_t> candidates = {5, 0, 66, 5};
  SequenceOptions asked = sequenceOptions({1, 2, 3}, 8), all = sequenceOptions({1, 2, 3}, 8);
  asked.candidates = candidates;
  all.logprobs = static_cast<int32_t>(model.spec.vocabularySize);
  const auto head = tiny.pass({{tiny.runtime.createSequence(std::move(asked)), 0, 3, HeadMode::Sample, {0}},
                               {tiny.runtime.createSequence(std::move(all)), 0, 3, HeadMode::Sample, {1}}});
  ASSERT_EQ(head->topCounts, (std::vector<int32_t>{4, static_cast<int32_t>(model.spec.vocabularySize)}));
  EXPECT_EQ(head->tokens[0], head->tokens[1]);
  for (size_t i = 0; i < candidates.size(); i++) {
    EXPECT_EQ(head->topTokens[i], candidates[i]);
    const auto found = std::find(head->topTokens.begin() + 4, head->topTokens.end(), candidates[i]);
    ASSERT_NE(found, head->topTokens.end());
    EXPECT_EQ(head->topLogprobs[i], head->topLogprobs[static_cast<size_t>(found - head->topTokens.begin())]);
  }
  SequenceOptions stranger = sequenceOptions({1}, 2);
  stranger.candidates = {static_cast<int32_t>(model.spec.vocabularySize)};
  EXPECT_THROW(tiny.runtime.createSequence(std::move(stranger)), Error);
}

// A row's embedding is the same bits whole and in chunks, beside a row that samples; the mean of one token is that
// token's.
TEST(Head, EmbeddingsDoNotDependOnChunksOrCompany) {
  const TinyModel model(smallSpec());
  const std::vector<int32_t> text = {1, 2, 3, 4, 5};
  const auto row = [](std::vector<int32_t> tokens, Pooling pooling) {
    SequenceOptions options = sequenceOptions(std::move(tokens), 8);
    options.pooling = pooling;
    return options;
  };
  const auto first = [&](Pooling pooling) {
    TinyRuntime tiny(model.options());
    return tiny.pass({{tiny.runtime.createSequence(row({1}, pooling)), 0, 1, HeadMode::Sample, {0}}})->embeddings;
  };
  EXPECT_EQ(first(Pooling::Mean), first(Pooling::Last));
  for (const Pooling pooling : {Pooling::Last, Pooling::Mean, Pooling::First}) {
    TinyRuntime whole(model.options());
    const auto expected = whole.pass({{whole.runtime.createSequence(row(text, pooling)), 0, 5, HeadMode::Sample, {0}}});
    ASSERT_EQ(expected->embeddings.size(), model.spec.hiddenSize);
    EXPECT_EQ(expected->embedded, (std::vector<int32_t>{0}));
    TinyRuntime tiny(model.options());
    const uint32_t embedded = tiny.runtime.createSequence(row(text, pooling)),
                   other = tiny.runtime.createSequence(sequenceOptions({9, 8}, 8));
    EXPECT_TRUE(tiny.pass({{embedded, 0, 3, HeadMode::None, {0}}})->embeddings.empty());
    const auto head = tiny.pass({{other, 0, 2, HeadMode::Sample, {1}}, {embedded, 3, 2, HeadMode::Sample, {0}}});
    EXPECT_EQ(head->embedded, (std::vector<int32_t>{1}));
    EXPECT_EQ(head->embeddings, expected->embeddings);
    EXPECT_GE(head->tokens[0], 0);
    if (pooling == Pooling::First) EXPECT_EQ(head->embeddings, first(Pooling::Last));
  }
}

TEST(OddRows, ChangeNoBitOfTheOthersAndHaveNoToken) {
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const TinyModel model(oddSpec());
    overwriteRow(model, -1, "token_embedding", kOddToken, value);
    for (const CacheType cache : {CacheType::F32, CacheType::F16, CacheType::Q8, CacheType::Q4})
      for (const InstructionSet set : kInstructionSets) {
        if (!machineHas(set)) continue;
        SCOPED_TRACE(std::string(instructionSetName(set)) + ", cache " + std::to_string(int(cache)) + ", " +
                     std::to_string(value));
        RuntimeOptions options = model.options();
        options.cacheType = cache;
        options.instructionSet = set;
        options.precision = cache == CacheType::F32 ? Precision::Float32 : Precision::Default;
        expectOddRowsAlone(options);
        options.keepKeys = 0.5f;
        if (std::isnan(value)) expectOddRowsAlone(options);
      }
  }
}

TEST(OddRows, OfAMixtureWhereARoutersWeightsAreOdd) {
  const TinyModel model(mixtureSpec(4, 2));
  overwriteRow(model, 1, "router.weight", 2, std::numeric_limits<float>::quiet_NaN());
  TinyRuntime tiny(model.options());
  const auto head =
      tiny.pass({{tiny.runtime.createSequence(sequenceOptions({1, 2, 3}, 8)), 0, 3, HeadMode::Sample, {0}}});
  EXPECT_EQ(head->tokens[0], -2 - 1);
}

// The head itself, a slice of it that is not the first, and each of the layers.
TEST(OddRows, SayAsOfWhichLayer) {
  const auto tokenOf = [](const std::function<void(const TinyModel&)>& change, DecoderSpec spec = smallSpec(),
                          int32_t logprobs = -1) {
    const TinyModel model(spec);
    change(model);
    TinyRuntime tiny(model.options());
    SequenceOptions row = sequenceOptions({1, 2, 3}, 8);
    row.logprobs = logprobs;
    return tiny.pass({{tiny.runtime.createSequence(std::move(row)), 0, 3, HeadMode::Sample, {0}}})->tokens[0];
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_GE(tokenOf([](const TinyModel&) {}), 0);
  EXPECT_EQ(tokenOf([&](const TinyModel& model) { overwriteRow(model, 0, "down.weight", 3, nan); }), -2);
  EXPECT_EQ(tokenOf([&](const TinyModel& model) { overwriteRow(model, 1, "v.weight", 3, nan); }), -3);
  EXPECT_EQ(tokenOf([&](const TinyModel& model) { overwriteRow(model, 1, "o.weight", 3, 3e38f); }), -3);
  EXPECT_EQ(tokenOf([&](const TinyModel& model) { overwriteRow(model, -1, "final_norm.weight", 0, nan); }), kNotFinite);
  for (const int32_t logprobs : {-1, 0, 3})
    for (const uint32_t token : {0u, 19999u})
      EXPECT_EQ(tokenOf([&](const TinyModel& model) { overwriteRow(model, -1, "head.weight", token, nan); }, wideSpec(),
                        logprobs),
                kNotFinite);
}

}  // namespace head_test
}  // namespace spillway
