// The rules of rows, batches and tasks.
#include <functional>

#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

class RuntimeRules : public testing::Test {
 protected:
  RuntimeRules() : model_(smallSpec(), false), tiny_(model_.options()) {}
  uint32_t row(size_t tokens = 5, uint32_t capacity = 40) {
    return tiny_.runtime.createSequence(sequenceOptions(randomTokens(tokens, 67, 1), capacity));
  }
  void expectBatchRefused(const std::vector<int32_t>& rows, const std::vector<int32_t>& pages,
                          const std::string& words) {
    expectRefused([&] { tiny_.runtime.createBatch(rows, pages); }, words);
  }
  TinyModel model_;
  TinyRuntime tiny_;
};

TEST_F(RuntimeRules, RowsAreChecked) {
  const auto refuse = [&](const std::function<void(SequenceOptions&)>& change, const std::string& words) {
    SequenceOptions options = sequenceOptions({1, 2, 3}, 10);
    change(options);
    expectRefused([&] { tiny_.runtime.createSequence(std::move(options)); }, words);
  };
  refuse([](SequenceOptions& o) { o.tokens.clear(); }, "tokens: found none");
  refuse([](SequenceOptions& o) { o.tokens[1] = 67; }, "tokens[1]: found 67, expected an id under 67");
  refuse([](SequenceOptions& o) { o.tokens[2] = -1; }, "tokens[2]: found -1");
  refuse([](SequenceOptions& o) { o.capacityTokens = 2; }, "at least the 3 tokens");
  refuse([](SequenceOptions& o) { o.capacityTokens = 98; }, "context of 96");
  refuse([](SequenceOptions& o) { o.logprobs = 68; }, "logprobs");
  refuse([](SequenceOptions& o) { o.logprobs = -2; }, "logprobs");
  refuse([](SequenceOptions& o) { o.sampling.temperature = -1; }, "temperature");
  refuse([](SequenceOptions& o) { o.sampling.temperature = NAN; }, "temperature");
  refuse([](SequenceOptions& o) { o.sampling.topP = 0; }, "topP");
  refuse([](SequenceOptions& o) { o.sampling.minP = 1.5f; }, "minP");
  refuse([](SequenceOptions& o) { o.sampling.repetitionPenalty = 0; }, "repetitionPenalty");
}

TEST_F(RuntimeRules, HandlesAreReusedFromTheLowest) {
  const uint32_t a = row(), b = row(), c = row();
  tiny_.runtime.freeSequence(b);
  tiny_.runtime.freeSequence(a);
  EXPECT_EQ(row(), a);
  EXPECT_EQ(row(), b);
  EXPECT_EQ(row(), c + 1);
  expectRefused([&] { tiny_.runtime.freeSequence(99); }, "row: found 99");
  tiny_.runtime.freeSequence(c);
  expectRefused([&] { tiny_.runtime.freeSequence(c); }, "existing one");
}

TEST_F(RuntimeRules, BatchesAreChecked) {
  const int32_t a = int32_t(row()), b = int32_t(row());
  const std::vector<int32_t> pages = {0, 1, 2, 3};
  expectBatchRefused({}, pages, "1 to 16 rows");
  expectBatchRefused({a, 0, 5, 0, 0, 1}, pages, "7 a row");
  expectBatchRefused({77, 0, 5, 0, 0, 1, -1}, pages, "row: found 77");
  expectBatchRefused({-1, 0, 5, 0, 0, 1, -1}, pages, "rows[0] handle");
  expectBatchRefused({a, 0, 5, 0, 0, 1, -1, a, 5, 1, 0, 1, 1, -1}, pages, "rows[1] handle");
  expectBatchRefused({a, -1, 5, 0, 0, 1, -1}, pages, "rows[0] first position");
  expectBatchRefused({a, 40, 1, 0, 0, 4, -1}, pages, "rows[0] first position: found 40, expected 0 to 39");
  expectBatchRefused({a, 0, 0, 0, 0, 1, -1}, pages, "rows[0] tokens");
  // A row may hold one token more than the context, its last answer; but that has no position to be computed at.
  const int32_t full = int32_t(row(97, 97));
  expectBatchRefused({full, 96, 1, 0, 0, 4, -1}, pages, "first position: found 96, expected 0 to 95");
  expectBatchRefused({a, 39, 2, 0, 0, 4, -1}, pages, "rows[0] tokens: found 2, expected 1 to 1");
  expectBatchRefused({a, 0, INT32_MAX, 0, 0, 4, -1}, pages, "rows[0] tokens");
  expectBatchRefused({a, 0, 5, 3, 0, 1, -1}, pages, "rows[0] head mode");
  expectBatchRefused({a, 0, 5, 0, 5, 0, -1}, pages, "rows[0] first page");
  expectBatchRefused({a, 0, 5, 0, 3, 2, -1}, pages, "rows[0] page count");
  expectBatchRefused({a, 0, 17, 0, 0, 1, -1}, pages, "pages for 17 tokens at 16 a page");
  expectBatchRefused({a, 0, 5, 0, 0, 1, -1}, {64}, "pages[0]: found 64, expected a page under 64");
  expectBatchRefused({a, 0, 5, 0, 0, 1, -1}, {-1}, "pages[0]");
  expectBatchRefused({a, 0, 40, 0, 0, 4, -1, b, 0, 40, 0, 4, 4, -1}, {0, 1, 2, 3, 4, 5, 6, 7},
                     "at most 64 in the whole batch");
  expectBatchRefused({a, 0, 5, 0, 0, 1, -1, b, 0, 5, 0, 0, 1, -1}, pages, "rows[1] pages");
  expectBatchRefused({a, 0, 5, 0, 0, 1, -1, b, 16, 1, 0, 1, 2, -1}, {7, 7, 8},
                     "rows[1] pages: found 7, expected no page that row 0");
  expectBatchRefused({a, 16, 1, 0, 0, 2, -1}, {7, 7}, "rows[0] pages");
  // Pages that are only read may be shared: a common prompt.
  EXPECT_NO_THROW(tiny_.runtime.createBatch({a, 16, 1, 0, 0, 2, -1, b, 16, 1, 0, 2, 2, -1}, {7, 8, 7, 9}));
}

TEST_F(RuntimeRules, CopiesAreChecked) {
  const int32_t a = int32_t(row()), b = int32_t(row());
  const auto refuse = [&](const std::vector<int32_t>& copies, const std::string& words) {
    expectRefused(
        [&] { tiny_.runtime.createBatch({a, 18, 2, 0, 0, 2, -1, b, 16, 2, 0, 2, 2, -1}, {7, 8, 7, 9}, copies); },
        words);
  };
  refuse({0}, "two a copy");
  refuse({2, 5}, "copies[0] range: found 2, expected one of the batch's 2");
  refuse({-1, 5}, "copies[0] range");
  refuse({0, 64}, "copies[0] page: found 64");
  refuse({0, -1}, "copies[0] page: found -1");
  refuse({0, 8}, "another page than the range's own");
  refuse({1, 5}, "begins within a page");
  refuse({0, 5, 0, 6}, "copies[1] range: found 0, expected each range once");
  EXPECT_NO_THROW(tiny_.runtime.createBatch({a, 18, 2, 0, 0, 2, -1, b, 16, 2, 0, 2, 2, -1}, {7, 8, 7, 9}, {0, 5}));
}

// A prompt that goes on in the middle of a page where another one parts from it, also while that one goes on in its own
// page in the same batch.
TEST_F(RuntimeRules, ACopiedPageGivesTheSameBits) {
  std::vector<int32_t> first = randomTokens(22, 64, 1), second(first.begin(), first.begin() + 19);
  for (int32_t token : randomTokens(6, 64, 2)) second.push_back(token);
  const auto make = [&](const std::vector<int32_t>& tokens) {
    SequenceOptions options = sequenceOptions(tokens, 40);
    options.logprobs = 3;
    return tiny_.runtime.createSequence(std::move(options));
  };
  const auto alone = tiny_.pass({{make(second), 0, 25, HeadMode::Sample, {0, 1}}});
  const uint32_t donor = make(first), follower = make(second);
  tiny_.pass({{donor, 0, 20, HeadMode::None, {10, 11}}});
  const auto together =
      tiny_.pass({{donor, 20, 2, HeadMode::None, {10, 11}}, {follower, 19, 6, HeadMode::Sample, {10, 12}, 11}});
  EXPECT_EQ(together->tokens, alone->tokens);
  EXPECT_EQ(together->topTokens, alone->topTokens);
  EXPECT_EQ(together->topLogprobs, alone->topLogprobs);
}

TEST_F(RuntimeRules, SubmissionsAreChecked) {
  const uint32_t r = row();
  const uint32_t batch = tiny_.runtime.createBatch({int32_t(r), 0, 5, 0, 0, 1, -1}, {0});
  Runtime& runtime = tiny_.runtime;
  const uint32_t small = runtime.createActivations(4);
  expectRefused([&] { runtime.submitCompute(ComputePart::Embed, 0, batch, small, {}); }, "room for the batch's 5");
  expectRefused([&] { runtime.submitCompute(ComputePart::Project, 2, batch, tiny_.activations, {}); },
                "layer: found 2");
  expectRefused([&] { runtime.submitCompute(ComputePart::Embed, 0, batch + 1, tiny_.activations, {}); },
                "batch: found");
  expectRefused([&] { runtime.submitCompute(ComputePart::Embed, 0, batch, 50, {}); }, "activations: found 50");
  expectRefused([&] { runtime.submitCompute(ComputePart::Embed, 0, batch, tiny_.activations, {999}); },
                "after: found event 999");
  expectRefused([&] { runtime.createActivations(65); }, "tokensPerSquare");
  expectRefused([&] { runtime.createActivations(0); }, "tokensPerSquare");
  expectRefused([&] { runtime.load(); }, "second call");
  runtime.freeSequence(r);
  expectRefused([&] { runtime.submitCompute(ComputePart::Embed, 0, batch, tiny_.activations, {}); }, "was freed");
}

TEST_F(RuntimeRules, NothingIsComputedBeforeLoading) {
  Runtime runtime(model_.options(), [] {});
  const int32_t r = int32_t(runtime.createSequence(sequenceOptions({1}, 2)));
  const uint32_t batch = runtime.createBatch({r, 0, 1, 0, 0, 1, -1}, {0});
  const uint32_t activations = runtime.createActivations(1);
  expectRefused([&] { runtime.submitCompute(ComputePart::Embed, 0, batch, activations, {}); }, "not loaded");
}

TEST_F(RuntimeRules, ABusyRowIsNotFreedAndAFreedBatchLivesOn) {
  const uint32_t r = row(40);
  const uint32_t batch = tiny_.runtime.createBatch({int32_t(r), 0, 40, 0, 0, 3, -1}, {0, 1, 2});
  EventId last = 0;
  for (int i = 0; i < 200; i++)
    last = tiny_.runtime.submitCompute(ComputePart::Project, 0, batch, tiny_.activations, {});
  tiny_.runtime.freeBatch(batch);
  expectRefused([&] { tiny_.runtime.freeSequence(r); }, "no running task");
  EXPECT_FALSE(tiny_.await(last).failed);
  tiny_.runtime.freeSequence(r);
}

TEST_F(RuntimeRules, RangesPastTheKnownTokensFailTheirTask) {
  const uint32_t r = row(5, 40);
  const uint32_t batch = tiny_.runtime.createBatch({int32_t(r), 4, 2, 1, 0, 1, -1}, {0});
  const Completion embedded =
      tiny_.await(tiny_.runtime.submitCompute(ComputePart::Embed, 0, batch, tiny_.activations, {}));
  EXPECT_TRUE(embedded.failed);
  EXPECT_EQ(embedded.code, ErrorCode::InvalidArgument);
  EXPECT_NE(embedded.message.find("its 5 known tokens"), std::string::npos) << embedded.message;
  const Completion headed =
      tiny_.await(tiny_.runtime.submitCompute(ComputePart::Head, 0, batch, tiny_.activations, {}));
  EXPECT_TRUE(headed.failed);
  const uint32_t early = tiny_.runtime.createBatch({int32_t(r), 0, 4, 1, 0, 1, -1}, {0});
  const Completion sampled =
      tiny_.await(tiny_.runtime.submitCompute(ComputePart::Head, 0, early, tiny_.activations, {}));
  EXPECT_NE(sampled.message.find("last known token at position 4"), std::string::npos) << sampled.message;
}

// Passes are issued before their rows' tokens are known: all at once here. One more than the row has room for changes
// nothing.
TEST_F(RuntimeRules, PassesRunAheadOfTheirCallerAndPastTheCapacity) {
  const std::vector<int32_t> prompt = randomTokens(6, 67, 9);
  const auto generate = [&](bool ahead) {
    const uint32_t r = tiny_.runtime.createSequence(sequenceOptions(prompt, 12));
    std::vector<EventId> heads;
    std::vector<int32_t> tokens;
    for (int32_t first = 0, count = 6; first + count <= 12; first += count, count = 1) {
      const uint32_t batch = tiny_.runtime.createBatch({int32_t(r), first, count, 1, 0, 1, -1}, {int32_t(r)});
      tiny_.runtime.submitCompute(ComputePart::Embed, 0, batch, tiny_.activations, {});
      for (uint32_t layer = 0; layer < 2; layer++) {
        for (ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish}) {
          tiny_.runtime.submitCompute(part, layer, batch, tiny_.activations, {});
        }
      }
      heads.push_back(tiny_.runtime.submitCompute(ComputePart::Head, 0, batch, tiny_.activations, {}));
      tiny_.runtime.freeBatch(batch);
      if (!ahead) tokens.push_back(static_cast<HeadResult&>(*tiny_.await(heads.back()).result).tokens.at(0));
    }
    for (size_t i = 0; ahead && i < heads.size(); i++)
      tokens.push_back(static_cast<HeadResult&>(*tiny_.await(heads[i]).result).tokens.at(0));
    return tokens;
  };
  const std::vector<int32_t> stepwise = generate(false);
  EXPECT_EQ(stepwise.size(), 7u);
  EXPECT_EQ(generate(true), stepwise);
}

TEST_F(RuntimeRules, ALayerInOneTaskIsItsPartsToTheBit) {
  const std::vector<int32_t> prompt = randomTokens(9, 67, 3);
  const auto logprobs = [&](bool joined) {
    SequenceOptions options = sequenceOptions(prompt, 12);
    options.logprobs = 5;
    const uint32_t row = tiny_.runtime.createSequence(std::move(options));
    std::vector<float> all;
    for (uint32_t first = 0, count = 9; first + count <= 12; first += count, count = 1) {
      const auto head = tiny_.pass({{row, first, count, HeadMode::Sample, {0}}}, joined);
      all.insert(all.end(), head->topLogprobs.begin(), head->topLogprobs.end());
    }
    return all;
  };
  const std::vector<float> parts = logprobs(false);
  EXPECT_EQ(parts.size(), 20u);
  EXPECT_EQ(logprobs(true), parts);
}

TEST_F(RuntimeRules, LogprobsAndAlternativesAreReportedWhereAskedFor) {
  SequenceOptions with = sequenceOptions({4, 5, 6}, 5), none = sequenceOptions({4, 5, 6}, 5),
                  bare = sequenceOptions({4, 5, 6}, 5);
  with.logprobs = 3;
  bare.logprobs = 0;
  const uint32_t a = tiny_.runtime.createSequence(std::move(none)), b = tiny_.runtime.createSequence(std::move(with)),
                 c = tiny_.runtime.createSequence(std::move(bare));
  const auto head = tiny_.pass(
      {{a, 0, 3, HeadMode::Sample, {0}}, {b, 0, 3, HeadMode::Sample, {1}}, {c, 0, 3, HeadMode::Sample, {2}}});
  EXPECT_EQ(head->rows, (std::vector<int32_t>{int32_t(a), int32_t(b), int32_t(c)}));
  EXPECT_EQ(head->topCounts, (std::vector<int32_t>{0, 3, 0}));
  EXPECT_TRUE(std::isnan(head->logprobs[0]));
  ASSERT_EQ(head->topTokens.size(), 3u);
  EXPECT_EQ(head->topTokens[0], head->tokens[1]);
  EXPECT_EQ(head->topLogprobs[0], head->logprobs[1]);
  EXPECT_GE(head->topLogprobs[0], head->topLogprobs[1]);
  EXPECT_EQ(head->logprobs[2], head->logprobs[1]);
}

TEST_F(RuntimeRules, TheLargestSquareFitsTheScratch) {
  const auto largest = [](RuntimeOptions options, size_t rows) {
    TinyRuntime tiny(std::move(options));
    std::vector<Range> ranges;
    for (size_t r = 0; r < rows; r++) {
      const uint32_t tokens = uint32_t(64 / rows);
      SequenceOptions row = sequenceOptions(randomTokens(tokens, 67, unsigned(r)), 70);
      row.sampling.temperature = 1;
      row.logprobs = 67;
      std::vector<int32_t> pages;
      for (int32_t p = 0; p < int32_t(64 / rows); p++) pages.push_back(int32_t(r) * int32_t(64 / rows) + p);
      ranges.push_back({tiny.runtime.createSequence(std::move(row)), 0, tokens,
                        r % 2 == 0 ? HeadMode::Score : HeadMode::Sample, pages});
    }
    EXPECT_NE(tiny.pass(ranges), nullptr);
  };
  for (size_t rows : {1, 16}) largest(model_.options(), rows);
  const TinyModel experts(mixtureSpec(2, 2));
  for (size_t rows : {1, 16}) largest(experts.options(), rows);
}

TEST_F(RuntimeRules, ClosingCancelsRefusesAndFreesTwice) {
  const uint32_t r = row(40);
  const uint32_t batch = tiny_.runtime.createBatch({int32_t(r), 0, 40, 0, 0, 3, -1}, {0, 1, 2});
  EventId last = 0;
  for (int i = 0; i < 500; i++)
    last = tiny_.runtime.submitCompute(ComputePart::Finish, 0, batch, tiny_.activations, {});
  tiny_.runtime.close();
  tiny_.runtime.close();
  EXPECT_EQ(tiny_.await(last).code, ErrorCode::Cancelled);
  tiny_.runtime.join();
  EXPECT_TRUE(tiny_.runtime.closed());
  expectRefused([&] { row(); }, "closed");
  expectRefused([&] { tiny_.runtime.cancelAll(); }, "closed");
  expectRefused([&] { tiny_.runtime.freeBatch(batch); }, "closed");
}

TEST_F(RuntimeRules, OptionsAreChecked) {
  const auto refuse = [&](const std::function<void(RuntimeOptions&)>& change, const std::string& words) {
    expectRefused(
        [&] {
          RuntimeOptions options = model_.options();
          change(options);
          Model model(std::move(options));
        },
        words);
  };
  refuse([](RuntimeOptions& o) { o.threads = 0; }, "threads");
  refuse([](RuntimeOptions& o) { o.threads = 1025; }, "threads");
  refuse([](RuntimeOptions& o) { o.pageTokens = 48; }, "cache.pageTokens");
  refuse([](RuntimeOptions& o) { o.pages = 0; }, "cache.pages");
  refuse([](RuntimeOptions& o) { o.limits.tokensPerSquare = 1 << 17; }, "tokensPerSquare");
  refuse([](RuntimeOptions& o) { o.limits.rowsPerSquare = 65; }, "rowsPerSquare");
  refuse([](RuntimeOptions& o) { o.decoder.layers = 0; }, "decoder.layers: found 0");
  refuse([](RuntimeOptions& o) { o.decoder.layers = 3; }, "decoder.layerSpecs: found 2 entries, expected 3");
  refuse([](RuntimeOptions& o) { o.decoder.hiddenSize = UINT32_MAX; }, "decoder.hiddenSize");
  refuse([](RuntimeOptions& o) { o.decoder.kvHeads = 3; }, "a multiple of kvHeads 3");
  refuse([](RuntimeOptions& o) { o.decoder.kvHeads = 8; }, "decoder.kvHeads");
  refuse([](RuntimeOptions& o) { o.decoder.headDim = 1024; }, "decoder.headDim");
  refuse(
      [](RuntimeOptions& o) {
        o.decoder.heads = 16384;
        o.decoder.kvHeads = 1;
        o.decoder.headDim = 512;
      },
      "decoder.heads x headDim");
  refuse([](RuntimeOptions& o) { o.decoder.rotaryDims = 15; }, "decoder.position.dims");
  refuse([](RuntimeOptions& o) { o.decoder.rotaryDims = 8; }, "frequencies: found 8 numbers, expected 4");
  refuse([](RuntimeOptions& o) { o.decoder.rotaryTables[0].frequencies[3] = INFINITY; }, "frequencies");
  refuse([](RuntimeOptions& o) { o.decoder.layerSpecs[1].rotaryTable = 1; }, "layerSpecs[1].rotaryTable");
  refuse([](RuntimeOptions& o) { o.decoder.normEpsilon = NAN; }, "decoder.norm.epsilon");
  refuse([](RuntimeOptions& o) { o.decoder.attentionSoftCap = NAN; }, "decoder.attention.softCap: found nan");
  refuse([](RuntimeOptions& o) { o.decoder.logitSoftCap = -1; }, "decoder.logitSoftCap: found -1");
  refuse(
      [](RuntimeOptions& o) {
        o.decoder.feedForward = FeedForwardKind::Plain;
        o.decoder.activation = Activation::ClampedSwiglu;
      },
      "decoder.feedForward.activation: found clamped-swiglu");
  refuse(
      [](RuntimeOptions& o) {
        o.decoder.position = PositionKind::Alibi;
        o.decoder.attentionSoftCap = 50;
      },
      "expected none beside the slopes of ALiBi");
  refuse([](RuntimeOptions& o) { o.decoder.position = PositionKind::Alibi; },
         "decoder.position.slopes: found 0 numbers, expected 4");
  refuse([](RuntimeOptions& o) { o.decoder.feedForward = FeedForwardKind::Experts; }, "feedForward.experts.count");
}

}  // namespace
}  // namespace spillway
