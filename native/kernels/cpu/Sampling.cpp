#include "Sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "Philox.h"

namespace spillway {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr size_t kChunk = 1024;  // probabilities are summed in float within a chunk, in double over chunks

float orMinusInfinity(float x) { return x > kMinusInfinity ? x : kMinusInfinity; }

// Orders ids by value, best first, the lowest id at a tie. NaN counts as -infinity, so the order is total.
struct Better {
  const float* values;
  bool operator()(int32_t a, int32_t b) const {
    const float x = orMinusInfinity(values[a]), y = orMinusInfinity(values[b]);
    return x != y ? x > y : a < b;
  }
};

// Leaves the `count` best ids in `best`, as a heap with the worst of them in front. One pass: most values are no better
// than that one.
void heapOfBest(const float* values, size_t n, size_t count, int32_t* best) {
  const Better better{values};
  for (size_t i = 0; i < count; i++) best[i] = static_cast<int32_t>(i);
  std::make_heap(best, best + count, better);
  float worst = orMinusInfinity(values[best[0]]);
  for (size_t i = count; i < n; i++) {
    if (!(values[i] > worst)) continue;  // at a tie the lower id is in already
    std::pop_heap(best, best + count, better);
    best[count - 1] = static_cast<int32_t>(i);
    std::push_heap(best, best + count, better);
    worst = orMinusInfinity(values[best[0]]);
  }
}

double sumOfExp(const Kernels& kernels, const float* values, size_t n) {
  double sum = 0;
  for (size_t start = 0; start < n; start += kChunk)
    sum += kernels.rows.sumExp(values + start, 0.0f, std::min(kChunk, n - start));
  return sum;
}

// Writes the logits with the penalty applied. Every token of the history is penalised from its own logit, so once
// however often it stands there.
void penalise(const float* logits, size_t vocabulary, const int32_t* history, size_t historyCount, float penalty,
              float* values) {
  std::copy(logits, logits + vocabulary, values);
  if (penalty == 1.0f) return;
  for (size_t i = 0; i < historyCount; i++) {
    if (history[i] < 0 || static_cast<size_t>(history[i]) >= vocabulary) continue;
    const float logit = logits[history[i]];
    values[history[i]] = logit < 0 ? logit * penalty : logit / penalty;
  }
}

// Writes the adjusted logits, the penalties among them. workspace: [vocabulary].
void adjust(const SamplingParameters& parameters, const LogitAdjustments& adjustments, const float* logits,
            size_t vocabulary, const int32_t* history, size_t historyCount, size_t promptTokens, float* values,
            void* workspace) {
  const auto known = [vocabulary](int32_t token) { return token >= 0 && static_cast<size_t>(token) < vocabulary; };
  float* biased = static_cast<float*>(workspace);
  std::copy(logits, logits + vocabulary, biased);
  for (size_t i = 0; i < adjustments.biasedTokens.size(); i++)
    if (known(adjustments.biasedTokens[i])) biased[adjustments.biasedTokens[i]] += adjustments.biases[i];
  penalise(biased, vocabulary, history, historyCount, parameters.repetitionPenalty, values);

  const int32_t* generated = history + std::min(promptTokens, historyCount);
  const int32_t* end = history + historyCount;
  const size_t generatedCount = static_cast<size_t>(end - generated);
  if (adjustments.presencePenalty != 0 || adjustments.frequencyPenalty != 0) {
    uint32_t* counts = static_cast<uint32_t*>(workspace);
    std::fill_n(counts, vocabulary, 0u);
    for (size_t i = 0; i < generatedCount; i++)
      if (known(generated[i])) counts[generated[i]]++;
    for (size_t i = 0; i < generatedCount; i++) {
      if (!known(generated[i]) || counts[generated[i]] == 0) continue;
      values[generated[i]] -=
          adjustments.frequencyPenalty * static_cast<float>(counts[generated[i]]) + adjustments.presencePenalty;
      counts[generated[i]] = 0;
    }
  }

  if (generatedCount < adjustments.minNewTokens)
    for (const int32_t token : adjustments.endTokens)
      if (known(token)) values[token] = kMinusInfinity;
  for (const std::vector<int32_t>& word : adjustments.badWords) {
    const size_t before = word.size() - 1;
    if (before <= generatedCount && known(word.back()) && std::equal(word.begin(), word.end() - 1, end - before))
      values[word.back()] = kMinusInfinity;
  }
}

// What is removed becomes -infinity. The values are logits less their maximum, so the best one is 0.
void keepTopK(float* values, size_t n, size_t k, int32_t* ids) {
  if (k == 0 || k >= n) return;
  heapOfBest(values, n, k, ids);
  const float worst = values[ids[0]];
  for (size_t i = 0; i < n; i++) values[i] = values[i] < worst ? kMinusInfinity : values[i];
}

void keepTopP(const Kernels& kernels, float* values, size_t n, float topP, int32_t* ids) {
  if (!(topP < 1.0f)) return;
  const double total = sumOfExp(kernels, values, n);
  const double removable = (1.0 - std::max(static_cast<double>(topP), 0.0)) * total;
  // Tokens so unlikely that all of them together could be removed are: that leaves few to sort. Half, for the rounding
  // of the comparison.
  const float surelyRemoved = static_cast<float>(std::log(0.5 * removable / static_cast<double>(n)));
  size_t candidates = 0;
  for (size_t i = 0; i < n; i++) {
    ids[candidates] = static_cast<int32_t>(i);
    candidates += values[i] >= surelyRemoved ? 1 : 0;
  }
  // Sorted piece by piece from the best. A token is removed where it and all below it add up to no more than 1 - p;
  // never the best one.
  const Better better{values};
  double above = 0;  // probabilities of the tokens better than this one, times total
  int32_t last = ids[0];
  bool reached = false;
  for (size_t begin = 0, size = 256; begin < candidates && !reached; begin += size, size *= 4) {
    const size_t end = std::min(candidates, begin + size);
    if (end < candidates) std::nth_element(ids + begin, ids + end, ids + candidates, better);
    std::sort(ids + begin, ids + end, better);
    for (size_t i = begin; i < end; i++) {
      if (i > 0 && total - above <= removable) {
        reached = true;
        break;
      }
      last = ids[i];
      float probability;
      kernels.rows.expShifted(values + last, 0.0f, 1, &probability);
      above += probability;
    }
  }
  const float lowest = values[last];
  for (size_t i = 0; i < n; i++) {
    const bool kept = values[i] > lowest || (values[i] == lowest && static_cast<int32_t>(i) <= last);
    values[i] = kept ? values[i] : kMinusInfinity;
  }
}

void keepMinP(float* values, size_t n, float minP) {
  if (!(minP > 0.0f)) return;
  const float lowest = static_cast<float>(std::log(std::min(static_cast<double>(minP), 1.0)));
  for (size_t i = 0; i < n; i++) values[i] = values[i] < lowest ? kMinusInfinity : values[i];
}

// The token at which probabilities, added up in order of ids, pass `uniform` (in [0, 1)) times their total. At least
// one value is 0. Where rounding leaves a trifle over at the end of a chunk or of all, it is the last token there that
// has any probability.
int32_t inverseCumulative(const Kernels& kernels, const float* values, size_t n, double uniform) {
  double left = uniform * sumOfExp(kernels, values, n);
  size_t chunk = 0;
  bool found = false;
  for (size_t start = 0; start < n && !found; start += kChunk) {
    const double sum = kernels.rows.sumExp(values + start, 0.0f, std::min(kChunk, n - start));
    if (!(sum > 0)) continue;
    chunk = start;
    found = left < sum;
    if (!found) left -= sum;
  }
  if (!found) left = std::numeric_limits<double>::infinity();

  float weights[kChunk];
  const size_t count = std::min(kChunk, n - chunk);
  kernels.rows.expShifted(values + chunk, 0.0f, count, weights);
  size_t token = chunk;
  for (size_t i = 0; i < count; i++) {
    if (!(weights[i] > 0)) continue;
    token = chunk + i;
    if (left < weights[i]) break;
    left -= weights[i];
  }
  return static_cast<int32_t>(token);
}

int32_t chooseToken(const Kernels& kernels, const SamplingParameters& parameters, const float* logits,
                    size_t vocabulary, const int32_t* history, size_t historyCount, uint32_t position, void* workspace,
                    const LogitAdjustments* adjustments, size_t promptTokens) {
  float best;
  size_t index;
  const bool greedy = !(parameters.temperature > 0.0f);
  const bool changed = parameters.repetitionPenalty != 1.0f || adjustments != nullptr;
  kernels.rows.argMax(logits, vocabulary, &best, &index);
  if (!std::isfinite(best)) return kNotFinite;
  if (greedy && !changed) return static_cast<int32_t>(index);
  float* values = static_cast<float*>(workspace);
  int32_t* ids = reinterpret_cast<int32_t*>(values + vocabulary);
  if (adjustments == nullptr)
    penalise(logits, vocabulary, history, historyCount, parameters.repetitionPenalty, values);
  else
    adjust(parameters, *adjustments, logits, vocabulary, history, historyCount, promptTokens, values, ids);
  if (changed) kernels.rows.argMax(values, vocabulary, &best, &index);
  if (adjustments != nullptr && best == kMinusInfinity) return kNotFinite;
  if (greedy || std::isinf(best)) return static_cast<int32_t>(index);

  // Less the maximum before the division, so that a tiny temperature cannot make infinities of finite logits.
  for (size_t i = 0; i < vocabulary; i++) values[i] = orMinusInfinity((values[i] - best) / parameters.temperature);
  keepTopK(values, vocabulary, parameters.topK, ids);
  keepTopP(kernels, values, vocabulary, parameters.topP, ids);
  keepMinP(values, vocabulary, parameters.minP);
  return inverseCumulative(kernels, values, vocabulary, uniformAt(parameters.seed, position));
}

}  // namespace

SampledToken sampleToken(const Kernels& kernels, const SamplingParameters& parameters, const float* logits,
                         size_t vocabulary, const int32_t* history, size_t historyCount, uint32_t position,
                         bool wantLogprob, void* workspace, const LogitAdjustments* adjustments, size_t promptTokens) {
  const int32_t token = chooseToken(kernels, parameters, logits, vocabulary, history, historyCount, position, workspace,
                                    adjustments, promptTokens);
  return {token, wantLogprob && token != kNotFinite ? logProbability(kernels, logits, vocabulary, token)
                                                    : std::numeric_limits<float>::quiet_NaN()};
}

LogNormaliser normaliserOf(const Kernels& kernels, const float* logits, size_t vocabulary) {
  LogNormaliser result;
  size_t index;
  kernels.rows.argMax(logits, vocabulary, &result.maximum, &index);
  double sum = 0;
  for (size_t start = 0; start < vocabulary; start += kChunk)
    sum += kernels.rows.sumExp(logits + start, result.maximum, std::min(kChunk, vocabulary - start));
  result.logSum = static_cast<float>(std::log(sum));
  return result;
}

float logProbabilityOf(const LogNormaliser& normaliser, float logit) {
  if (!std::isfinite(normaliser.maximum)) return std::numeric_limits<float>::quiet_NaN();
  return logit == kMinusInfinity ? kMinusInfinity : (logit - normaliser.maximum) - normaliser.logSum;
}

float logProbability(const Kernels& kernels, const float* logits, size_t vocabulary, int32_t token) {
  return logProbabilityOf(normaliserOf(kernels, logits, vocabulary), logits[token]);
}

float certaintyOf(const Kernels& kernels, const float* logits, size_t vocabulary, int32_t token) {
  const auto ways = std::count_if(logits, logits + vocabulary, [](float logit) { return logit > kMinusInfinity; });
  return ways > 1 ? std::exp(logProbability(kernels, logits, vocabulary, token))
                  : std::numeric_limits<float>::quiet_NaN();
}

void logProbabilities(const Kernels& kernels, const float* logits, size_t vocabulary, const int32_t* tokens,
                      size_t count, float* logprobs) {
  const LogNormaliser normaliser = normaliserOf(kernels, logits, vocabulary);
  for (size_t i = 0; i < count; i++) logprobs[i] = logProbabilityOf(normaliser, logits[tokens[i]]);
}

void topLogProbabilities(const Kernels& kernels, const float* logits, size_t vocabulary, size_t count, int32_t* tokens,
                         float* logprobs, void* workspace) {
  count = std::min(count, vocabulary);
  if (count == 0) return;
  int32_t* ids = static_cast<int32_t*>(workspace);
  heapOfBest(logits, vocabulary, count, ids);
  std::sort_heap(ids, ids + count, Better{logits});
  const LogNormaliser normaliser = normaliserOf(kernels, logits, vocabulary);
  for (size_t i = 0; i < count; i++) {
    tokens[i] = ids[i];
    logprobs[i] = logProbabilityOf(normaliser, logits[ids[i]]);
  }
}

}  // namespace spillway
