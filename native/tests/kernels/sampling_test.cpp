// Sampling against transformers' definitions, written out plainly in double precision, and its statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "../../kernels/cpu/Philox.h"
#include "../../kernels/cpu/Sampling.h"
#include "../notFinite.h"
#include "instructionSets.h"

namespace spillway {
namespace {

struct Sampler {
  InstructionSet set = bestInstructionSet();
  std::vector<int32_t> history = {};

  SampledToken operator()(const SamplingParameters& parameters, const std::vector<float>& logits,
                          uint32_t position = 0) const {
    const std::vector<float> before = logits;
    std::vector<double> workspace(logits.size());
    const SampledToken result = sampleToken(kernelsFor(set), parameters, logits.data(), logits.size(), history.data(),
                                            history.size(), position, true, workspace.data());
    for (size_t i = 0; i < logits.size(); i++) EXPECT_TRUE(logits[i] == before[i] || std::isnan(before[i]));
    return result;
  }
  // How often each token comes, positions 0 to draws - 1.
  std::map<int32_t, int> count(const SamplingParameters& parameters, const std::vector<float>& logits,
                               int draws) const {
    std::map<int32_t, int> counts;
    for (int position = 0; position < draws; position++)
      counts[(*this)(parameters, logits, static_cast<uint32_t>(position)).token]++;
    return counts;
  }
};

std::vector<float> randomLogits(size_t n, unsigned seed, float width = 2.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, width);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

SamplingParameters at(float temperature) {
  SamplingParameters parameters;
  parameters.temperature = temperature;
  return parameters;
}

// Probabilities after penalty, temperature, top-k, top-p, min-p, each step as transformers' logits processor of that
// name does it.
std::vector<double> referenceProbabilities(const SamplingParameters& p, const std::vector<float>& logits,
                                           const std::vector<int32_t>& history) {
  const size_t n = logits.size();
  std::vector<double> scores(logits.begin(), logits.end());
  for (int32_t token : history)
    scores[token] = logits[token] < 0 ? logits[token] * static_cast<double>(p.repetitionPenalty)
                                      : logits[token] / static_cast<double>(p.repetitionPenalty);
  for (double& score : scores) score /= p.temperature;
  const auto softmax = [&] {
    const double maximum = *std::max_element(scores.begin(), scores.end());
    std::vector<double> probabilities;
    double sum = 0;
    for (double score : scores) probabilities.push_back(std::exp(score - maximum)), sum += probabilities.back();
    for (double& probability : probabilities) probability /= sum;
    return probabilities;
  };
  if (p.topK > 0) {
    std::vector<double> sorted = scores;
    std::sort(sorted.rbegin(), sorted.rend());
    const double lowest = sorted[std::min<size_t>(p.topK, n) - 1];
    for (double& score : scores)
      if (score < lowest) score = -kInfinity;
  }
  if (p.topP < 1) {
    const std::vector<double> probabilities = softmax();
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; i++) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] < scores[b] : a > b; });
    double cumulative = 0;
    for (size_t i = 0; i + 1 < n; i++) {
      cumulative += probabilities[order[i]];
      if (cumulative <= 1 - static_cast<double>(p.topP)) scores[order[i]] = -kInfinity;
    }
  }
  if (p.minP > 0) {
    const std::vector<double> probabilities = softmax();
    const double best = *std::max_element(probabilities.begin(), probabilities.end());
    for (size_t i = 0; i < n; i++)
      if (probabilities[i] < p.minP * best) scores[i] = -kInfinity;
  }
  return softmax();
}

TEST(Philox, KnownAnswers) {
  // The generator's published test vectors.
  const PhiloxWords zero = philox4x32({{0, 0, 0, 0}}, 0, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
  const PhiloxWords ones = philox4x32({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u);
  EXPECT_EQ(ones.word[0], 0x408f276du);
  EXPECT_EQ(ones.word[1], 0x41c83b0eu);
  EXPECT_EQ(ones.word[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.word[3], 0x6d5451fdu);
}

TEST(Philox, UniformNumbersAreEvenOverSeedsAndPositions) {
  // Chi-square over 16 bins has 15 degrees of freedom: above 37.7 once in a thousand. The numbers are fixed, so this
  // passes always or never.
  const auto chiSquare = [](const std::vector<int>& bins, double expected) {
    double sum = 0;
    for (int count : bins) sum += (count - expected) * (count - expected) / expected;
    return sum;
  };
  std::vector<int> overPositions(16), overSeeds(16);
  for (uint32_t i = 0; i < 100000; i++) {
    const double byPosition = uniformAt(7, i), bySeed = uniformAt(i, 7);
    ASSERT_GE(byPosition, 0.0);
    ASSERT_LT(byPosition, 1.0);
    ASSERT_NE(byPosition, uniformAt(7, i + 1));
    ASSERT_NE(bySeed, uniformAt(i + 1, 7));
    overPositions[static_cast<size_t>(byPosition * 16)]++;
    overSeeds[static_cast<size_t>(bySeed * 16)]++;
  }
  EXPECT_LT(chiSquare(overPositions, 6250), 37.7);
  EXPECT_LT(chiSquare(overSeeds, 6250), 37.7);
}

TEST(Sampling, GreedyTakesTheLargestAndTheLowestIdAtATie) {
  const Sampler sample;
  EXPECT_EQ(sample(at(0), {1, 5, 3, 5}).token, 1);
  EXPECT_EQ(sample(at(0), {-1}).token, 0);
  EXPECT_EQ(sample(at(0), {-3, -kInfinity, -2}).token, 2);
}

// A NaN wherever it stands among many, infinity, and nothing that could be chosen; however the row samples.
TEST(Sampling, LogitsThatAreNotFiniteGiveNoToken) {
  SamplingParameters all = at(1);
  all.topK = 2, all.topP = 0.9f, all.minP = 0.1f, all.repetitionPenalty = 1.3f;
  SamplingParameters penalised = at(0);
  penalised.repetitionPenalty = 2;
  std::vector<std::vector<float>> odd = {{kNan},
                                         {kInfinity},
                                         {-kInfinity},
                                         {kNan, -50, kNan},
                                         {-kInfinity, -kInfinity},
                                         {1, kInfinity, kInfinity},
                                         {-kInfinity, kNan},
                                         {kInfinity, -kInfinity}};
  for (const size_t n : {size_t{15}, size_t{16}, size_t{33}, size_t{1025}, size_t{3000}})
    for (const size_t at : {size_t{0}, size_t{7}, n / 2, n - 1})
      for (const float value : {kNan, kInfinity}) {
        odd.push_back(randomLogits(n, n));
        odd.back()[at] = value;
      }
  for (const InstructionSet set : allSets()) {
    if (!machineHas(set)) continue;
    for (const SamplingParameters& parameters : {at(0), at(1), penalised, all})
      for (const std::vector<float>& logits : odd) {
        const SampledToken sampled = Sampler{set, {0, 1, 2}}(parameters, logits);
        ASSERT_EQ(sampled.token, kNotFinite) << instructionSetName(set) << ", " << logits.size();
        ASSERT_TRUE(std::isnan(sampled.logprob));
        ASSERT_TRUE(std::isnan(logProbability(kernelsFor(set), logits.data(), logits.size(), 0)));
      }
  }
}

TEST(Sampling, MinusInfinityIsATokenThatIsNeverChosen) {
  const Sampler sample;
  for (float temperature : {0.0f, 1.0f}) {
    const SampledToken sampled = sample(at(temperature), {-kInfinity, -50, -kInfinity});
    EXPECT_EQ(sampled.token, 1);
    EXPECT_EQ(sampled.logprob, 0.0f);
  }
  const std::vector<float> logits = {-kInfinity, 2};
  EXPECT_EQ(logProbability(kernelsFor(bestInstructionSet()), logits.data(), 2, 0), -kInfinity);
}

// What a penalty makes of finite logits is no fault of the model's.
TEST(Sampling, APenaltyThatMakesAnInfinityIsTakenAsGreedyWould) {
  for (float temperature : {0.0f, 1.0f}) {
    SamplingParameters parameters = at(temperature);
    parameters.repetitionPenalty = 1e-30f;
    EXPECT_EQ((Sampler{bestInstructionSet(), {1}}(parameters, {4, 1e10f, 5}).token), 1);
  }
}

TEST(Sampling, RepetitionPenaltyCountsEachTokenOnceAndIgnoresWhatIsNoToken) {
  SamplingParameters parameters;
  parameters.repetitionPenalty = 2;
  // 4/2 = 2 beats 1.5 however often token 0 stands in the history; negative logits are multiplied.
  EXPECT_EQ((Sampler{bestInstructionSet(), {0, 0, 0}}(parameters, {4, 1.5f}).token), 0);
  EXPECT_EQ((Sampler{bestInstructionSet(), {0}}(parameters, {4, 2.5f}).token), 1);
  EXPECT_EQ((Sampler{bestInstructionSet(), {1}}(parameters, {-3, -2}).token), 0);
  EXPECT_EQ((Sampler{bestInstructionSet(), {1}}(parameters, {-5, -2}).token), 1);
  EXPECT_EQ((Sampler{bestInstructionSet(), {-1, 2, 1 << 30}}(parameters, {4, 1.5f}).token), 0);
}

TEST(Sampling, LogProbabilityIsTheModelsOwn) {
  SamplingParameters parameters = at(0.5f);
  parameters.repetitionPenalty = 1.5f, parameters.topK = 1;
  const SampledToken sampled = Sampler{bestInstructionSet(), {0}}(parameters, {1, 3, 2});
  EXPECT_EQ(sampled.token, 1);
  EXPECT_NEAR(sampled.logprob, 3 - std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0)), 1e-6);
  const std::vector<float> logits = {1, 2};
  double workspace[2];
  EXPECT_TRUE(std::isnan(
      sampleToken(kernelsFor(bestInstructionSet()), at(0), logits.data(), 2, nullptr, 0, 0, false, workspace).logprob));
}

TEST(Sampling, EdgesOfTopKTopPAndMinP) {
  const Sampler sample;
  const std::vector<float> quarters = {std::log(0.1f), std::log(0.2f), std::log(0.3f), std::log(0.4f)};
  const auto kept = [&](SamplingParameters p, const std::vector<float>& logits) {
    std::vector<int32_t> tokens;
    for (const auto& entry : sample.count(p, logits, 400)) tokens.push_back(entry.first);
    return tokens;
  };
  using Tokens = std::vector<int32_t>;
  SamplingParameters p = at(1);
  EXPECT_EQ(kept(p, quarters), (Tokens{0, 1, 2, 3}));
  p.topK = 2;
  EXPECT_EQ(kept(p, quarters), (Tokens{2, 3}));
  EXPECT_EQ(kept(p, {1, 2, 2, 2, 0}), (Tokens{1, 2, 3}));  // ties with the second stay
  p.topK = 9;
  EXPECT_EQ(kept(p, quarters), (Tokens{0, 1, 2, 3}));
  p.topK = 0, p.topP = 0.65f;  // 0.4 + 0.3 reach it
  EXPECT_EQ(kept(p, quarters), (Tokens{2, 3}));
  p.topP = 0.75f;
  EXPECT_EQ(kept(p, quarters), (Tokens{1, 2, 3}));
  p.topP = 0.0f;
  EXPECT_EQ(kept(p, quarters), (Tokens{3}));
  p.topP = 0.5f;  // exactly reached by two of four equal ones: what is below them, 0.5, is no more than 1 - p
  EXPECT_EQ(kept(p, {1, 1, 1, 1}), (Tokens{0, 1}));
  p.topP = 1, p.minP = 0.6f;  // of 0.4: 0.24
  EXPECT_EQ(kept(p, quarters), (Tokens{2, 3}));
  p.minP = 1;
  EXPECT_EQ(kept(p, {3, 3, 2}), (Tokens{0, 1}));
  // One after another: top-k leaves 0.3 and 0.4, of which the better one has 0.571 of the mass.
  p = at(1), p.topK = 2, p.topP = 0.55f;
  EXPECT_EQ(kept(p, quarters), (Tokens{3}));
  // A tiny temperature is greedy, a huge one uniform.
  EXPECT_EQ(kept(at(1e-30f), quarters), (Tokens{3}));
  EXPECT_EQ(kept(at(1e30f), quarters), (Tokens{0, 1, 2, 3}));
}

// Every draw must be the reference distribution's own inverse at the same random number, but for numbers that lie
// within rounding of a boundary.
TEST(Sampling, AgreesWithTheDefinitionForRandomParameters) {
  std::mt19937 random(1);
  const auto oneOf = [&](std::initializer_list<float> choices) {
    return *(choices.begin() + random() % choices.size());
  };
  int near = 0, draws = 0;
  for (int round = 0; round < 300; round++) {
    const size_t n = 1 + random() % (round % 10 == 0 ? 5000 : 60);
    const std::vector<float> logits = randomLogits(n, random(), oneOf({0.1f, 1, 2, 5}));
    SamplingParameters p = at(oneOf({0.3f, 0.7f, 1, 1.7f}));
    p.topK = static_cast<uint32_t>(oneOf({0, 0, 1, 5, 40, 1000}));
    p.topP = oneOf({1, 1, 0.95f, 0.9f, 0.5f, 0.1f});
    p.minP = oneOf({0, 0, 0.05f, 0.3f});
    p.repetitionPenalty = oneOf({1, 1, 1.3f, 0.8f});
    p.seed = random();
    Sampler sample;
    for (int i = 0; i < 10; i++) sample.history.push_back(static_cast<int32_t>(random() % n));
    const std::vector<double> probabilities = referenceProbabilities(p, logits, sample.history);
    for (uint32_t position = 0; position < 20; position++) {
      const int32_t token = sample(p, logits, position).token;
      const double uniform = uniformAt(p.seed, position);
      double below = 0;
      for (int32_t i = 0; i < token; i++) below += probabilities[static_cast<size_t>(i)];
      ASSERT_GT(probabilities[static_cast<size_t>(token)], 0.0)
          << "a token that the definition removes, round " << round;
      ASSERT_GE(uniform, below - 1e-5) << "round " << round;
      ASSERT_LE(uniform, below + probabilities[static_cast<size_t>(token)] + 1e-5) << "round " << round;
      draws++, near += uniform < below || uniform > below + probabilities[static_cast<size_t>(token)] ? 1 : 0;
    }
  }
  EXPECT_LT(near, draws / 500);
}

// The order and the formulas of vLLM: bias, repetition penalty, frequency and presence penalties, what is forbidden.
TEST(Sampling, AdjustmentsFollowTheirDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; round++) {
    const size_t n = 5 + random() % 60;
    const auto token = [&] { return static_cast<int32_t>(random() % n); };
    const auto tokens = [&](size_t most) {
      std::vector<int32_t> list(random() % (most + 1));
      for (int32_t& each : list) each = token();
      return list;
    };
    const auto number = [&] { return static_cast<float>(random() % 401) / 100.0f - 2.0f; };
    const std::vector<float> logits = randomLogits(n, random());
    const std::vector<int32_t> history = tokens(20);
    const size_t promptTokens = random() % (history.size() + 1);
    SamplingParameters p = at(0);
    if (random() % 2 == 0) p.repetitionPenalty = 1.3f;
    LogitAdjustments adjustments;
    adjustments.presencePenalty = number(), adjustments.frequencyPenalty = number();
    for (size_t i = random() % 4; i > 0; i--)
      adjustments.biasedTokens.push_back(token()), adjustments.biases.push_back(10 * number());
    adjustments.endTokens = tokens(3), adjustments.minNewTokens = static_cast<uint32_t>(random() % 10);
    for (size_t i = random() % 4; i > 0; i--) {
      // Often one that the history has just begun.
      const size_t before = std::min<size_t>(random() % 3, history.size());
      std::vector<int32_t> word(history.end() - static_cast<std::ptrdiff_t>(before), history.end());
      word.push_back(token());
      adjustments.badWords.push_back(word);
    }

    std::vector<float> expected = logits;
    for (size_t i = 0; i < adjustments.biases.size(); i++)
      expected[adjustments.biasedTokens[i]] += adjustments.biases[i];
    const std::vector<float> biased = expected;
    for (const int32_t each : history)
      expected[each] = biased[each] < 0 ? biased[each] * p.repetitionPenalty : biased[each] / p.repetitionPenalty;
    std::map<int32_t, int> counts;
    for (size_t i = promptTokens; i < history.size(); i++) counts[history[i]]++;
    for (const auto& entry : counts)
      expected[entry.first] -=
          adjustments.frequencyPenalty * static_cast<float>(entry.second) + adjustments.presencePenalty;
    const size_t generated = history.size() - promptTokens;
    if (generated < adjustments.minNewTokens)
      for (const int32_t each : adjustments.endTokens) expected[each] = -kInfinity;
    for (const std::vector<int32_t>& word : adjustments.badWords) {
      const size_t before = word.size() - 1;
      if (before <= generated &&
          std::equal(word.begin(), word.end() - 1, history.end() - static_cast<std::ptrdiff_t>(before)))
        expected[word.back()] = -kInfinity;
    }
    std::vector<float> workspace(2 * n);
    const SampledToken sampled = sampleToken(kernelsFor(bestInstructionSet()), p, logits.data(), n, history.data(),
                                             history.size(), 0, true, workspace.data(), &adjustments, promptTokens);
    const auto best = std::max_element(expected.begin(), expected.end());
    ASSERT_EQ(sampled.token, static_cast<int32_t>(best - expected.begin())) << "round " << round;
    ASSERT_EQ(sampled.logprob, logProbability(kernelsFor(bestInstructionSet()), logits.data(), n, sampled.token));
  }
}

TEST(Sampling, NothingIsChosenWhereEverythingIsForbidden) {
  const std::vector<float> logits = {1, 2};
  LogitAdjustments adjustments;
  adjustments.badWords = {{0}, {1}};
  for (const float temperature : {0.0f, 1.0f}) {
    std::vector<float> workspace(4);
    const int32_t history = 0;
    EXPECT_EQ(sampleToken(kernelsFor(bestInstructionSet()), at(temperature), logits.data(), 2, &history, 1, 0, true,
                          workspace.data(), &adjustments, 1)
                  .token,
              kNotFinite);
  }
}

TEST(Sampling, FrequenciesFollowTheProbabilities) {
  const std::vector<float> logits = {0, 1, 2, -1, 1.5f};
  const std::vector<double> probabilities = referenceProbabilities(at(0.8f), logits, {});
  const int draws = 20000;
  const std::map<int32_t, int> counts = Sampler{}.count(at(0.8f), logits, draws);
  for (const auto& entry : counts)
    EXPECT_NEAR(entry.second / static_cast<double>(draws), probabilities[static_cast<size_t>(entry.first)], 0.012)
        << entry.first;
}

TEST(Sampling, SameTokenOnEveryInstructionSet) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; round++) {
    const std::vector<float> logits = randomLogits(1 + random() % 3000, random());
    SamplingParameters p = at(round % 4 == 0 ? 0.0f : 0.9f);
    p.topP = round % 3 == 0 ? 1.0f : 0.9f, p.topK = round % 5 == 0 ? 50 : 0, p.minP = round % 7 == 0 ? 0.02f : 0;
    p.seed = random();
    const SampledToken expected = Sampler{InstructionSet::Scalar}(p, logits, 3);
    for (InstructionSet set : kSets) {
      if (!machineHas(set)) continue;
      const SampledToken sampled = Sampler{set}(p, logits, 3);
      ASSERT_EQ(sampled.token, expected.token);
      ASSERT_EQ(sampled.logprob, expected.logprob);
    }
  }
}

TEST(Sampling, TopLogProbabilitiesForAnyCount) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; round++) {
    const size_t n = 1 + random() % 400;
    std::vector<float> logits = randomLogits(n, random());
    for (float& logit : logits) {
      if (round % 2) logit = std::round(logit);  // many ties
      if (round % 3 == 0 && random() % 3 == 0) logit = -kInfinity;
    }
    logits[random() % n] = 1;  // one can be chosen
    double sum = 0;
    std::vector<int32_t> order(n);
    for (size_t i = 0; i < n; i++) order[i] = static_cast<int32_t>(i), sum += std::exp(static_cast<double>(logits[i]));
    const auto value = [&](int32_t i) { return logits[static_cast<size_t>(i)]; };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return value(a) > value(b); });
    for (size_t count : {size_t{0}, size_t{1}, size_t{5}, n / 2, n}) {
      if (count > n) continue;
      std::vector<int32_t> tokens(count);
      std::vector<float> logprobs(count);
      std::vector<double> workspace(n);
      topLogProbabilities(kernelsFor(bestInstructionSet()), logits.data(), n, count, tokens.data(), logprobs.data(),
                          workspace.data());
      for (size_t i = 0; i < count; i++) {
        ASSERT_EQ(tokens[i], order[i]);
        const double expected = value(order[i]) == -kInfinity ? -kInfinity : value(order[i]) - std::log(sum);
        if (std::isinf(expected))
          ASSERT_EQ(logprobs[i], -kInfinity);
        else
          ASSERT_NEAR(logprobs[i], expected, 2e-6);
        ASSERT_EQ(logprobs[i], logProbability(kernelsFor(bestInstructionSet()), logits.data(), n, tokens[i]));
      }
    }
  }
}

}  // namespace
}  // namespace spillway
