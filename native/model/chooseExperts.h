// Which experts of a mixture a token goes to.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "../kernels/cpu/RowKernels.h"
#include "DecoderSpec.h"

namespace spillway {

struct ExpertChoice {
  uint32_t expert;
  float weight;
};

// The expert of the best score that is none of those taken, the lowest index first among equals.
inline uint32_t bestOfOthers(const float* scores, uint32_t experts, const ExpertChoice* taken, uint32_t takenCount) {
  uint32_t best = experts;
  for (uint32_t e = 0; e < experts; e++) {
    const bool isTaken =
        std::any_of(taken, taken + takenCount, [e](const ExpertChoice& choice) { return choice.expert == e; });
    if (!isTaken && (best == experts || scores[e] > scores[best])) best = e;
  }
  return best;
}

// The best `count` of softmax(logits), divided by their sum, the lowest index first among equals. Of a NaN among the
// logits all weights are NaN: it has to show. Logits are overwritten.
inline void chooseExperts(const RowKernels& kernels, float* logits, uint32_t experts, uint32_t count,
                          ExpertChoice* choices) {
  float maximum;
  size_t first;
  kernels.argMax(logits, experts, &maximum, &first);
  kernels.expShifted(logits, maximum, experts,
                     logits);  // the softmax up to a factor, which the division takes out again
  float sum = 0;
  for (uint32_t c = 0; c < count; c++) {
    const uint32_t best = bestOfOthers(logits, experts, choices, c);
    choices[c] = {best, logits[best]};
    sum += logits[best];
  }
  for (uint32_t c = 0; c < count; c++) choices[c].weight /= sum;
}

// The score of a group of `count` experts.
inline float groupScore(GroupScore kind, const float* scores, uint32_t count) {
  float best = -std::numeric_limits<float>::infinity(), second = best;
  for (uint32_t e = 0; e < count; e++) {
    second = std::max(second, std::min(best, scores[e]));
    best = std::max(best, scores[e]);
  }
  return kind == GroupScore::Best || count < 2 ? best : best + second;
}

// Takes those experts out of a choice that are not of a token's best groups, the lowest index first among equals.
// scores: [experts]
inline void keepBestGroups(const RouterSpec& router, uint32_t experts, float* scores) {
  const uint32_t size = experts / router.groups;
  const auto scoreOf = [&](uint32_t group) { return groupScore(router.groupScore, scores + group * size, size); };
  float groups[RouterSpec::kMostGroups];
  for (uint32_t g = 0; g < router.groups; g++) groups[g] = scoreOf(g);
  for (uint32_t g = 0; g < router.groups; g++) {
    uint32_t better = 0;
    for (uint32_t other = 0; other < router.groups; other++)
      better += groups[other] > groups[g] || (groups[other] == groups[g] && other < g) ? 1 : 0;
    if (better >= router.groupsPerToken)
      std::fill_n(scores + size_t(g) * size, size, -std::numeric_limits<float>::infinity());
  }
}

// SparseMixer's choice of experts (Liu et al. 2024; Phi-3.5-MoE): the best of those not taken, one after another, each
// weighed by the softmax over itself and those of the others that are near it.
inline void chooseSparsely(const float* logits, uint32_t experts, uint32_t count, float jitter, ExpertChoice* choices) {
  for (uint32_t c = 0; c < count; c++) {
    const uint32_t best = bestOfOthers(logits, experts, choices, c);
    const float most = logits[best];
    float sum = 0;
    for (uint32_t e = 0; e < experts; e++) {
      const bool isTaken = std::any_of(choices, choices + c, [e](const ExpertChoice& one) { return one.expert == e; });
      const bool isFar = (most - logits[e]) / std::max(std::fabs(logits[e]), most) > 2 * jitter;
      if (!isTaken && !isFar) sum += std::exp(logits[e] - most);
    }
    choices[c] = {best, 1 / sum};
  }
}

// As chooseExperts(), by any router: scores are a softmax of the logits, or the logistic function of each; those (or
// the logits) plus `choiceBias`, where that is given, decide which experts a token goes to, and the scores themselves
// what they weigh. room: [experts]; logits are overwritten.
inline void chooseExperts(const RowKernels& kernels, const RouterSpec& router, const float* choiceBias, float* logits,
                          uint32_t experts, uint32_t count, ExpertChoice* choices, float* room) {
  if (router.plain()) return chooseExperts(kernels, logits, experts, count, choices);
  float maximum;
  size_t first;
  kernels.argMax(logits, experts, &maximum, &first);
  if (router.score == RouterScore::SparseMixer) {
    chooseSparsely(logits, experts, count, router.jitter, choices);
    if (std::isnan(maximum))
      for (uint32_t c = 0; c < count; c++) choices[c].weight = maximum;
    return;
  }
  float* scores = logits;
  float* wanted = room;
  const auto want = [&](const float* by) {
    for (uint32_t e = 0; e < experts; e++) wanted[e] = by[e] + (choiceBias == nullptr ? 0.0f : choiceBias[e]);
  };
  if (router.choosesByLogits) want(logits);
  if (router.score == RouterScore::Softmax) {
    kernels.expShifted(logits, maximum, experts, scores);
    float sum = 0;
    for (uint32_t e = 0; e < experts; e++) sum += scores[e];
    for (uint32_t e = 0; e < experts; e++) scores[e] /= sum;
  } else {
    for (uint32_t e = 0; e < experts; e++) scores[e] = 1.0f / (1.0f + std::exp(-logits[e]));
  }
  if (!router.choosesByLogits) want(scores);
  if (router.groupsPerToken < router.groups) keepBestGroups(router, experts, wanted);
  float sum = 0;
  for (uint32_t c = 0; c < count; c++) {
    const uint32_t best = bestOfOthers(wanted, experts, choices, c);
    choices[c] = {best, scores[best]};
    sum += scores[best];
  }
  // Of a NaN among the logits all weights are NaN: it has to show.
  const float factor = std::isnan(maximum) ? maximum : router.scale / (router.normalised ? sum + router.epsilon : 1.0f);
  for (uint32_t c = 0; c < count; c++) choices[c].weight *= factor;
}

}  // namespace spillway
