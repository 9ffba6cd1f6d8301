#include "Pass.h"
#include "../../model/pooling.h"

namespace spillway {

namespace {

// Norms before both blocks, and sums that nothing else is done with: each block adds to the hidden states as it ends.
bool addsDirectly(const DecoderSpec& spec) {
  return spec.residual == Residual::Pre && spec.feedForward != FeedForwardKind::Experts;
}

void finishDirectly(const Pass& pass, const LayerWeights& weights) {
  float* hidden = pass.activations.hidden;
  const size_t mark = pass.scratch.used();
  const StoredMatrix* const attention[] = {&weights.o};
  pass.multiplyAdding(
      weights.o, weights.oBias,
      pass.prepared(attention, 1, pass.activations.queries, pass.tokens(), weights.o.inputs, pass.compute), hidden);
  pass.scratch.release(mark);
  // Where there is no gate, that is a matrix like up.
  const StoredMatrix* const feedForward[] = {&weights.up, present(weights.gate) ? &weights.gate : &weights.up};
  feedForwardDense(pass, weights, pass.normed(feedForward, weights.norm2, weights.norm2Bias), hidden, Epilogue::Add);
  pass.scratch.release(mark);
}

void finishAll(const Pass& pass, size_t layer) {
  if (addsDirectly(pass.spec)) return finishDirectly(pass, pass.weights.layer(layer));
  const DecoderSpec& spec = pass.spec;
  const LayerWeights& weights = pass.weights.layer(layer);
  const RowKernels& kernels = pass.compute.kernels.rows;
  const size_t width = spec.hiddenSize;
  const size_t mark = pass.scratch.used();
  float* hidden = pass.activations.hidden;
  float* branch = pass.scratch.take<float>(pass.tokens() * width);  // what a branch adds
  float* normed = pass.scratch.take<float>(pass.tokens() * width);  // what the feed-forward block reads
  pass.multiply(weights.o, weights.oBias, pass.activations.queries, pass.tokens(), branch);

  if (spec.residual == Residual::Parallel) {
    // Both branches read the layer's input, so that is left alone until both are there.
    float* second = pass.scratch.take<float>(pass.tokens() * width);
    const float* norm = weights.norm2 != nullptr ? weights.norm2 : weights.norm1;
    const float* bias = weights.norm2 != nullptr ? weights.norm2Bias : weights.norm1Bias;
    pass.forRows(pass.tokens(), width,
                 [&](size_t t, unsigned) { pass.norm(hidden + t * width, norm, bias, normed + t * width); });
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
    if (spec.residual == Residual::Sandwich)
      pass.norm(branch + t * width, weights.postNorm1, nullptr, branch + t * width);
    kernels.add(branch + t * width, h, width);
    if (spec.residual == Residual::Post)
      pass.norm(h, weights.norm1, weights.norm1Bias, h);
    else
      pass.norm(h, weights.norm2, weights.norm2Bias, normed + t * width);
  });
  feedForward(pass, weights, spec.residual == Residual::Post ? hidden : normed, branch);
  pass.forRows(pass.tokens(), width, [&](size_t t, unsigned) {
    float* h = hidden + t * width;
    if (spec.residual == Residual::Sandwich)
      pass.norm(branch + t * width, weights.postNorm2, nullptr, branch + t * width);
    kernels.add(branch + t * width, h, width);
    if (spec.residual == Residual::Post) pass.norm(h, weights.norm2, weights.norm2Bias, h);
  });
  pass.scratch.release(mark);
}

// Tokens of the batch whose logits or pooled states the head computes, in order. @returns how many
size_t listHeadTokens(const Batch& batch, uint32_t* tokens) {
  size_t count = 0;
  for (const BatchRange& range : batch.ranges) {
    const bool embeds = range.sequence->pooling != Pooling::None;
    if (!embeds && range.mode != HeadMode::Score && !samples(range)) continue;
    for (uint32_t t = range.mode == HeadMode::Sample && !embeds ? range.tokens - 1 : 0; t < range.tokens; t++) {
      if (!embeds || isPooled(*range.sequence, range.firstPosition + t)) tokens[count++] = range.firstToken + t;
    }
  }
  return count;
}

// Remembers for each sequence that will be sampled from as of which layer its hidden states are not finite.
void lookForOdd(const Pass& pass, size_t layer) {
  if (pass.measuring) return;
  const size_t width = pass.spec.hiddenSize;
  for (const BatchRange& range : pass.batch.ranges) {
    Sequence& sequence = *range.sequence;
    if (!samples(range) || sequence.oddLayer >= 0) continue;
    const float* last = pass.activations.hidden + (size_t(range.firstToken) + range.tokens - 1) * width;
    if (!pass.compute.kernels.rows.allFinite(last, width)) sequence.oddLayer = static_cast<int32_t>(layer);
  }
}

// As finishAll(), of what is still wanted. After the last layer nobody asks for a prompt's other tokens: sequences that
// the head takes are moved to the front, finished there, and moved back.
void finishWanted(const Pass& pass, size_t layer) {
  if (!pass.spec.samples() || layer + 1 != pass.spec.layers) return finishAll(pass, layer);
  const size_t mark = pass.scratch.used();
  uint32_t* taken = pass.scratch.take<uint32_t>(pass.tokens());
  if (pass.measuring) {
    finishAll(pass, layer);
  } else if (const size_t count = listHeadTokens(pass.batch, taken); count > 0) {
    const auto move = [](float* rows, size_t width, size_t from, size_t to) {
      if (from != to) std::copy_n(rows + from * width, width, rows + to * width);
    };
    const size_t width = pass.spec.hiddenSize;
    for (size_t i = 0; i < count; i++) {
      move(pass.activations.hidden, width, taken[i], i);
      move(pass.activations.queries, pass.spec.queryWidth(), taken[i], i);
    }
    Pass some = pass;
    some.leading = count;
    finishAll(some, layer);
    for (size_t i = count; i-- > 0;) move(pass.activations.hidden, width, i, taken[i]);
  }
  pass.scratch.release(mark);
}

}  // namespace

void finish(const Pass& pass, size_t layer) {
  finishWanted(pass, layer);
  lookForOdd(pass, layer);
}

void feedForward(const Pass& pass, const LayerWeights& weights, const float* input, float* output) {
  if (pass.spec.feedForward == FeedForwardKind::Experts) return feedForwardExperts(pass, weights, input, output);
  const StoredMatrix* const matrices[] = {&weights.up, present(weights.gate) ? &weights.gate : &weights.up};
  const size_t mark = pass.scratch.used();
  feedForwardDense(pass, weights, pass.prepared(matrices, 2, input, pass.tokens(), pass.spec.hiddenSize, pass.compute),
                   output, Epilogue::Store);
  pass.scratch.release(mark);
}

void feedForwardDense(const Pass& pass, const LayerWeights& weights, const MatrixInput& input, float* output,
                      Epilogue epilogue) {
  const size_t width = pass.spec.feedForwardSize;
  const bool gated = pass.spec.feedForward == FeedForwardKind::Gated;
  const size_t mark = pass.scratch.used();
  const StoredMatrix* const down[] = {&weights.down};
  // The activated branch comes first: gate(x), or up(x) where there is no gate.
  const StoredMatrix& first = gated ? weights.gate : weights.up;
  const float* firstBias = gated ? nullptr : weights.upBias;
  const ProductJob last{&weights.down, weights.downBias, output, weights.down.outputs};
  const bool rounds = pass.takeRoundedParts(down, 1);
  const bool whole =
      !(streams(first) && first.residentOutputs != 0) && !(streams(weights.up) && weights.up.residentOutputs != 0);
  if (whole && usesRoundedInput(pass.compute, first.type) == usesRoundedInput(pass.compute, weights.up.type)) {
    const MatrixInput activated =
        rounds ? takeRounded(pass.compute, pass.tokens(), width, pass.scratch)
               : MatrixInput{pass.scratch.take<float>(pass.tokens() * width), pass.tokens(), width, width, nullptr};
    // Both are whole, wherever they are: one part each.
    SplitProduct parts, factor;
    parts.cut({&first, firstBias, const_cast<float*>(activated.values), width}, pass.streamed);
    if (gated) factor.cut({&weights.up, weights.upBias, nullptr, width}, pass.streamed);
    MatmulJob& job = parts.jobs[0];
    job.epilogue = Epilogue::Activate;
    job.activation = pass.spec.activation;
    if (gated) job.factor = &factor.matrices[0], job.factorBias = weights.upBias;
    job.rounded = const_cast<uint8_t*>(activated.rounded);
    matmul(pass.compute, &job, 1, input, pass.scratch);
    pass.multiply(&last, 1,
                  rounds ? activated : pass.prepared(down, 1, activated.values, pass.tokens(), width, pass.compute),
                  pass.compute, epilogue);
    pass.scratch.release(mark);
    return;
  }
  float* activated = pass.scratch.take<float>(pass.tokens() * width);
  float* factor = gated ? pass.scratch.take<float>(pass.tokens() * width) : nullptr;
  const ProductJob jobs[] = {{&first, firstBias, activated, width}, {&weights.up, weights.upBias, factor, width}};
  pass.multiply(jobs, gated ? 2 : 1, input, pass.compute);
  pass.forRows(pass.tokens(), width, [&](size_t t, unsigned) {
    pass.compute.kernels.rows.activate(pass.spec.activation, activated + t * width,
                                       gated ? factor + t * width : nullptr, width);
  });
  pass.multiply(&last, 1, pass.prepared(down, 1, activated, pass.tokens(), width, pass.compute), pass.compute,
                epilogue);
  pass.scratch.release(mark);
}

}  // namespace spillway
