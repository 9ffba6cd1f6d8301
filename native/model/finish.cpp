#include "Pass.h"

namespace spillway {

void finish(const Pass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  const LayerWeights& weights = pass.weights.layer(layer);
  const RowKernels& kernels = pass.compute.kernels.rows;
  const size_t width = spec.hiddenSize;
  const size_t mark = pass.scratch.used();
  float* hidden = pass.activations.hidden;
  float* branch = pass.scratch.take<float>(pass.tokens() * width);    // what a branch adds
  float* normed = pass.scratch.take<float>(pass.tokens() * width);    // what the feed-forward block reads
  pass.multiply(weights.o, weights.oBias, pass.activations.queries, pass.tokens(), branch);

  if (spec.residual == Residual::Parallel) {
    // Both branches read the layer's input, so that is left alone until both are there.
    float* second = pass.scratch.take<float>(pass.tokens() * width);
    const float* norm = weights.norm2 != nullptr ? weights.norm2 : weights.norm1;
    const float* bias = weights.norm2 != nullptr ? weights.norm2Bias : weights.norm1Bias;
    pass.forRows(pass.tokens(), width, [&](size_t t, unsigned) { pass.norm(hidden + t * width, norm, bias, normed + t * width); });
    feedForward(pass, weights, normed, second);
    pass.forRows(pass.tokens(), width, [&](size_t t, unsigned) {
      kernels.add(branch + t * width, second + t * width, width);
      kernels.add(second + t * width, hidden + t * width, width);
    });
    pass.scratch.release(mark);
    return;
  }

  pass.forRows(pass.tokens(), width, [&](size_t t, unsigned) {
    float* h = hidden + t * width;
    if (spec.residual == Residual::Sandwich) pass.norm(branch + t * width, weights.postNorm1, nullptr, branch + t * width);
    kernels.add(branch + t * width, h, width);
    if (spec.residual == Residual::Post) pass.norm(h, weights.norm1, weights.norm1Bias, h);
    else pass.norm(h, weights.norm2, weights.norm2Bias, normed + t * width);
  });
  feedForward(pass, weights, spec.residual == Residual::Post ? hidden : normed, branch);
  pass.forRows(pass.tokens(), width, [&](size_t t, unsigned) {
    float* h = hidden + t * width;
    if (spec.residual == Residual::Sandwich) pass.norm(branch + t * width, weights.postNorm2, nullptr, branch + t * width);
    kernels.add(branch + t * width, h, width);
    if (spec.residual == Residual::Post) pass.norm(h, weights.norm2, weights.norm2Bias, h);
  });
  pass.scratch.release(mark);
}

void feedForward(const Pass& pass, const LayerWeights& weights, const float* input, float* output) {
  if (pass.spec.feedForward == FeedForwardKind::Experts) return feedForwardExperts(pass, weights, input, output);
  const size_t width = pass.spec.feedForwardSize;
  const bool gated = pass.spec.feedForward == FeedForwardKind::Gated;
  const size_t mark = pass.scratch.used();
  // The activated branch comes first: gate(x), or up(x) where there is no gate.
  float* activated = pass.scratch.take<float>(pass.tokens() * width);
  float* factor = gated ? pass.scratch.take<float>(pass.tokens() * width) : nullptr;
  const ProductJob gatedJobs[] = {{&weights.gate, nullptr, activated, width}, {&weights.up, weights.upBias, factor, width}};
  const ProductJob plainJob{&weights.up, weights.upBias, activated, width};
  pass.multiply(gated ? gatedJobs : &plainJob, gated ? 2 : 1, input, pass.tokens(), pass.spec.hiddenSize);
  pass.forRows(pass.tokens(), width, [&](size_t t, unsigned) {
    pass.compute.kernels.rows.activate(pass.spec.activation, activated + t * width, gated ? factor + t * width : nullptr, width);
  });
  pass.multiply(weights.down, weights.downBias, activated, pass.tokens(), output);
  pass.scratch.release(mark);
}

}  // namespace spillway
