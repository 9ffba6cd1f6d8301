#include <algorithm>
#include <limits>

#include "../../kernels/cuda/Sampling.h"
#include "../../model/headRows.h"
#include "../../model/pooling.h"
#include "CudaPass.h"

namespace spillway {

namespace {

// The device samples for sequences that need neither alternatives nor certainty nor their history nor a grammar; the
// host takes the logits of the others.
bool samplesThere(const Sequence& sequence) {
  return sequence.logprobs <= 0 && sequence.candidates.empty() && sequence.takesLogitsAsTheyAre() &&
         !sequence.certainty && sequence.grammar == nullptr;
}

// Tokens, and log-probabilities for sequences that want them, of `rows` rows of logits.
void sample(const CudaPass& pass, const WantedLogits* wanted, size_t rows, const float* logits, HeadResult& result) {
  const size_t vocabulary = pass.spec.vocabularySize;
  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();
  float* workspace = pass.scratch.take<float>(rows * vocabulary);
  int32_t* tokens = pass.scratch.take<int32_t>(rows);
  float* logprobs = pass.scratch.take<float>(rows);
  auto* tasks = pass.host.take<cuda::SamplingRow>(rows);
  int32_t* sampled = pass.host.take<int32_t>(rows);
  float* sampledLogprobs = pass.host.take<float>(rows);
  bool anyLogprobs = false;
  for (size_t r = 0; r < rows && !pass.measuring; r++) {
    const Sequence& sequence = *pass.batch.ranges[wanted[r].range].sequence;
    tasks[r] = {sequence.sampling, logits + r * vocabulary, nullptr, 0, static_cast<uint32_t>(sequence.tokens.size())};
    anyLogprobs |= sequence.logprobs >= 0;
  }
  const cuda::SamplingRow* there = pass.upload(tasks, rows);
  if (!pass.measuring) {
    cuda::sampleTokens(pass.link->stream(), there, rows, vocabulary, workspace, tokens,
                       anyLogprobs ? logprobs : nullptr);
    pass.link->download(sampled, tokens, rows * sizeof(int32_t));
    if (anyLogprobs) pass.link->download(sampledLogprobs, logprobs, rows * sizeof(float));
    for (size_t r = 0; r < rows; r++) {
      result.tokens[wanted[r].result] = sampled[r];
      if (pass.batch.ranges[wanted[r].range].sequence->logprobs >= 0)
        result.logprobs[wanted[r].result] = sampledLogprobs[r];
    }
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
}

// Those that the host scores or samples, as many at a time as it has threads.
void fetchLogits(const CudaPass& pass, const WantedLogits* wanted, size_t rows, const float* logits,
                 HeadResult& result) {
  const size_t vocabulary = pass.spec.vocabularySize, most = std::min<size_t>(rows, pass.compute.pool.threads());
  const size_t hostMark = pass.host.used(), workspaceBytes = Scratch::aligned(vocabulary * 8);
  float* fetched = pass.host.take<float>(most * vocabulary);
  uint8_t* workspaces = pass.host.take<uint8_t>(workspaceBytes * most);
  for (size_t first = 0, some; first < rows && !pass.measuring; first += some) {
    some = std::min(most, rows - first);
    pass.link->download(fetched, logits + first * vocabulary, some * vocabulary * sizeof(float));
    pass.forEach(some, [&](size_t i, unsigned) {
      useLogits(pass.compute.kernels, pass.batch, wanted[first + i], fetched + i * vocabulary, vocabulary,
                workspaces + i * workspaceBytes, result);
    });
  }
  pass.host.release(hostMark);
}

// The hidden states of some of the batch's tokens after the final norm, on the device. `places`: room for their
// numbers here and there.
void gatherNormed(const CudaPass& pass, const uint32_t* places, uint32_t* placesThere, size_t rows, float* normed) {
  const GlobalWeights& weights = pass.weights.global();
  if (!pass.measuring) pass.link->upload(placesThere, places, rows * sizeof(uint32_t));
  pass.run([&](cudaStream_t stream) {
    cuda::gatherRows(stream, pass.activations.hidden, placesThere, rows, pass.spec.hiddenSize, normed);
  });
  if (pass.spec.finalNorm) pass.normRows(normed, weights.finalNorm, weights.finalNormBias, rows, normed);
}

// Embeddings, added up on the host.
void poolHidden(const CudaPass& pass, HeadResult& result) {
  const std::vector<uint32_t> tokens = pass.measuring ? std::vector<uint32_t>(pass.tokens()) : listPooled(pass.batch);
  if (tokens.empty() && result.embedded.empty()) return;
  const size_t width = pass.spec.hiddenSize, most = std::min(headRowsAtATime(pass.spec), tokens.size());
  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();
  uint32_t* places = pass.host.take<uint32_t>(most);
  float* fetched = pass.host.take<float>(most * width);
  uint32_t* placesThere = pass.scratch.take<uint32_t>(most);
  float* normed = pass.scratch.take<float>(most * width);
  for (size_t first = 0, rows; first < tokens.size(); first += rows) {
    rows = std::min(most, tokens.size() - first);
    if (!pass.measuring) std::copy_n(&tokens[first], rows, places);
    gatherNormed(pass, places, placesThere, rows, normed);
    if (pass.measuring) break;
    pass.link->download(fetched, normed, rows * width * sizeof(float));
    pool(pass.batch, &tokens[first], rows, fetched, width);
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
  if (!pass.measuring) takeEmbeddings(pass.batch, width, result);
}

}  // namespace

std::unique_ptr<HeadResult> CudaPass::head() const {
  const CudaPass& pass = *this;
  const GlobalWeights& weights = pass.weights.global();
  const size_t width = spec.hiddenSize;
  auto result = std::make_unique<HeadResult>();
  const std::vector<WantedLogits> wanted =
      pass.measuring ? std::vector<WantedLogits>(pass.tokens()) : listWanted(pass.batch, *result, samplesThere);
  poolHidden(pass, *result);
  if (wanted.empty()) return result;

  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();
  const size_t most = std::min(headRowsAtATime(spec), wanted.size());
  uint32_t* places = pass.host.take<uint32_t>(most);
  uint32_t* placesThere = pass.scratch.take<uint32_t>(most);
  float* last = pass.scratch.take<float>(most * width);
  const bool project = present(weights.outputProjection);
  float* projected = project ? pass.scratch.take<float>(most * spec.embeddingSize) : nullptr;
  float* logits = pass.scratch.take<float>(most * spec.vocabularySize);
  const auto there = static_cast<size_t>(
      std::find_if(wanted.begin(), wanted.end(), [](const WantedLogits& entry) { return !entry.first; }) -
      wanted.begin());

  for (size_t first = 0, rows; first < wanted.size(); first += rows) {
    const bool sampledThere = first < there;
    rows = std::min(most, (sampledThere ? there : wanted.size()) - first);
    for (size_t r = 0; r < rows && !pass.measuring; r++) places[r] = wanted[first + r].token;
    gatherNormed(pass, places, placesThere, rows, last);
    if (project) pass.multiply(weights.outputProjection, nullptr, last, rows, projected, ProductOf::Others);
    pass.multiply(pass.weights.head(), weights.headBias, project ? projected : last, rows, logits, ProductOf::Others);
    if (spec.logitScale != 1)
      pass.run([&](cudaStream_t stream) { cuda::scale(stream, spec.logitScale, logits, rows * spec.vocabularySize); });
    if (spec.logitSoftCap != 0) {
      pass.run(
          [&](cudaStream_t stream) { cuda::softCap(stream, spec.logitSoftCap, logits, rows * spec.vocabularySize); });
    }
    if (sampledThere || pass.measuring) sample(pass, &wanted[first], rows, logits, *result);
    if (!sampledThere) fetchLogits(pass, &wanted[first], rows, logits, *result);
    if (pass.measuring) break;
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
  if (!pass.measuring) appendSampled(pass.batch, wanted, *result);
  return result;
}

}  // namespace spillway
