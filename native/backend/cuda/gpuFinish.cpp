#include "GpuPass.h"

namespace spillway {

void finish(const GpuPass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  const LayerWeights& weights = pass.weights.layer(layer);
  const size_t tokens = pass.tokens(), elements = tokens * spec.hiddenSize;
  const size_t mark = pass.scratch.used();
  float* hidden = pass.activations.hidden;
  float* branch = pass.scratch.take<float>(elements);  // what a branch adds
  float* normed = pass.scratch.take<float>(elements);  // what the feed-forward block reads
  pass.multiply(weights.o, weights.oBias, pass.activations.queries, tokens, branch, ProductOf::Tokens);

  if (spec.residual == Residual::Parallel) {
    // Both branches read the layer's input, so that is left alone until both are there.
    float* second = pass.scratch.take<float>(elements);
    const bool own = weights.norm2 != nullptr;
    pass.norm(hidden, own ? weights.norm2 : weights.norm1, own ? weights.norm2Bias : weights.norm1Bias, tokens, normed);
    feedForward(pass, weights, normed, second);
    pass.add(branch, second, elements);
    pass.add(second, hidden, elements);
    pass.scratch.release(mark);
    return;
  }

  if (spec.residual == Residual::Sandwich) pass.norm(branch, weights.postNorm1, nullptr, tokens, branch);
  pass.add(branch, hidden, elements);
  if (spec.residual == Residual::Post)
    pass.norm(hidden, weights.norm1, weights.norm1Bias, tokens, hidden);
  else
    pass.norm(hidden, weights.norm2, weights.norm2Bias, tokens, normed);
  feedForward(pass, weights, spec.residual == Residual::Post ? hidden : normed, branch);
  if (spec.residual == Residual::Sandwich) pass.norm(branch, weights.postNorm2, nullptr, tokens, branch);
  pass.add(branch, hidden, elements);
  if (spec.residual == Residual::Post) pass.norm(hidden, weights.norm2, weights.norm2Bias, tokens, hidden);
  pass.scratch.release(mark);
}

void feedForward(const GpuPass& pass, const LayerWeights& weights, const float* input, float* output) {
  if (pass.spec.feedForward == FeedForwardKind::Experts) return feedForwardExperts(pass, weights, input, output);
  const size_t width = pass.spec.feedForwardSize, tokens = pass.tokens();
  const bool gated = pass.spec.feedForward == FeedForwardKind::Gated;
  const size_t mark = pass.scratch.used();
  // The activated branch comes first: gate(x), or up(x) where there is no gate.
  float* activated = pass.scratch.take<float>(tokens * width);
  float* factor = gated ? pass.scratch.take<float>(tokens * width) : nullptr;
  const ProductJob gatedJobs[] = {{&weights.gate, nullptr, activated, width},
                                  {&weights.up, weights.upBias, factor, width}};
  const ProductJob plainJob{&weights.up, weights.upBias, activated, width};
  pass.multiply(gated ? gatedJobs : &plainJob, gated ? 2 : 1, input, tokens, pass.spec.hiddenSize, ProductOf::Tokens);
  pass.run(
      [&](cudaStream_t stream) { cuda::activate(stream, pass.spec.activation, activated, factor, tokens * width); });
  pass.multiply(weights.down, weights.downBias, activated, tokens, output, ProductOf::Tokens);
  pass.scratch.release(mark);
}

}  // namespace spillway
