// Sampled tokens against the CPU's, for the same logits, parameters and random numbers.
#include "../../kernels/cuda/Sampling.h"

#include "../notFinite.h"
#include "fixture.h"

namespace spillway::cuda {
namespace {

struct Row {
  SamplingParameters parameters;
  std::vector<float> logits;
  std::vector<int32_t> history;
  uint32_t position;
};

struct Sampled {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
};

Sampled onDevice(const std::vector<Row>& rows) {
  std::vector<DeviceArray<float>> logits;
  std::vector<DeviceArray<int32_t>> histories;
  std::vector<SamplingRow> list;
  for (const Row& row : rows) {
    logits.emplace_back(row.logits);
    histories.emplace_back(row.history.empty() ? std::vector<int32_t>(1) : row.history);
    list.push_back({row.parameters, logits.back().get(), histories.back().get(),
                    static_cast<uint32_t>(row.history.size()), row.position});
  }
  const size_t vocabulary = rows[0].logits.size();
  const DeviceArray<SamplingRow> on(list);
  const DeviceArray<float> workspace(rows.size() * vocabulary), logprobs(rows.size());
  const DeviceArray<int32_t> tokens(rows.size());
  sampleTokens(testStream(), on.get(), rows.size(), vocabulary, workspace.get(), tokens.get(), logprobs.get());
  return {tokens.values(), logprobs.values()};
}

Sampled onHost(const std::vector<Row>& rows) {
  Sampled result;
  for (const Row& row : rows) {
    std::vector<double> workspace(row.logits.size());
    const SampledToken token =
        sampleToken(kernelsFor(bestInstructionSet()), row.parameters, row.logits.data(), row.logits.size(),
                    row.history.data(), row.history.size(), row.position, true, workspace.data());
    result.tokens.push_back(token.token);
    result.logprobs.push_back(token.logprob);
  }
  return result;
}

void expectAsOnTheHost(const std::vector<Row>& rows) {
  const Sampled expected = onHost(rows);
  underEverySeed([&] {
    const Sampled sampled = onDevice(rows);
    EXPECT_EQ(sampled.tokens, expected.tokens);
    expectClose(sampled.logprobs, expected.logprobs, 1e-6f, 2e-6f, "log-probability");
    const Sampled alone = onDevice({rows.back()});
    EXPECT_EQ(alone.tokens[0], sampled.tokens.back());
    expectSame(alone.logprobs, {sampled.logprobs.back()}, "alone");
  });
}

TEST(CudaSampling, RandomParametersGiveTheCpusTokens) {
  std::mt19937 random(1);
  for (const size_t vocabulary : {size_t{3}, size_t{32}, size_t{1000}, size_t{5003}}) {
    std::vector<Row> rows;
    for (unsigned i = 0; i < 24; i++) {
      Row row = {{}, normalNumbers(vocabulary, i, 3), {}, i};
      const auto oneOf = [&](std::vector<double> choices) { return choices[random() % choices.size()]; };
      row.parameters.temperature = static_cast<float>(oneOf({0, 0.3, 0.7, 1, 2, 1e-30}));
      row.parameters.topP = static_cast<float>(oneOf({1, 1, 0.9, 0.5, 0.05, 0}));
      row.parameters.topK = static_cast<uint32_t>(oneOf({0, 0, 1, 2, 40, 1e6}));
      row.parameters.minP = static_cast<float>(oneOf({0, 0, 0.05, 1}));
      row.parameters.repetitionPenalty = static_cast<float>(oneOf({1, 1.3, 0.5}));
      row.parameters.seed = random();
      for (int j = 0; j < 9; j++) row.history.push_back(static_cast<int32_t>(random() % (vocabulary + 2)) - 1);
      rows.push_back(std::move(row));
    }
    expectAsOnTheHost(rows);
  }
}

TEST(CudaSampling, TiesAndWhatIsNotFinite) {
  std::vector<Row> rows;
  std::mt19937 random(2);
  for (unsigned i = 0; i < 24; i++) {
    Row row = {{}, {}, {2}, i};
    for (int j = 0; j < 200; j++) row.logits.push_back(static_cast<float>(static_cast<int>(random() % 5)) - 2);
    if (i % 3 == 1)
      for (float& logit : row.logits)
        if (random() % 3 == 0) logit = random() % 2 ? kNan : -kInfinity;
    if (i == 7) row.logits[31] = row.logits[50] = kInfinity;
    if (i == 8) row.logits.assign(200, kNan);
    if (i == 9) row.logits.assign(200, -kInfinity);
    row.parameters.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    row.parameters.topK = i % 4 == 1 ? 30 : 0;
    row.parameters.topP = i % 4 == 3 ? 0.7f : 1.0f;
    row.parameters.repetitionPenalty = i % 5 == 0 ? 2.0f : 1.0f;
    row.parameters.seed = i;
    rows.push_back(std::move(row));
  }
  const Sampled expected = onHost(rows);
  for (const size_t odd : {1u, 7u, 8u, 9u}) EXPECT_EQ(expected.tokens[odd], kNotFinite);
  underEverySeed([&] {
    const Sampled sampled = onDevice(rows);
    EXPECT_EQ(sampled.tokens, expected.tokens);
    for (size_t i = 0; i < rows.size(); i++)
      EXPECT_EQ(std::isnan(sampled.logprobs[i]), expected.tokens[i] == kNotFinite) << i;
  });
}

// The same random numbers: over many positions each token comes as often as on the CPU, every time.
TEST(CudaSampling, ManyPositionsOfOneRow) {
  std::vector<Row> rows;
  for (uint32_t position = 0; position < 200; position++) rows.push_back({{}, normalNumbers(50, 3), {}, position});
  for (Row& row : rows) row.parameters.temperature = 1.0f, row.parameters.seed = 12345, row.parameters.topP = 0.95f;
  EXPECT_EQ(onDevice(rows).tokens, onHost(rows).tokens);
}

}  // namespace
}  // namespace spillway::cuda
