#include "layer.h"

#include <algorithm>
#include <string>
#include <vector>

#include "../system/Error.h"

namespace spillway {

namespace {

// Throws Error(InvalidArgument) for a range past a sequence's known tokens.
void checkKnown(const Batch& batch) {
  for (const BatchRange& range : batch.ranges) {
    const size_t known = range.sequence->tokens.size();
    if (size_t(range.firstPosition) + range.tokens <= known) continue;
    throw Error(ErrorCode::InvalidArgument, "row " + std::to_string(range.sequence->handle) +
                                                ": found positions up to " +
                                                std::to_string(range.firstPosition + range.tokens - 1) +
                                                ", expected some of its " + std::to_string(known) + " known tokens");
  }
}

// Token (and learned position) embeddings into the activations.
void embed(const Pass& pass) {
  const DecoderSpec& spec = pass.spec;
  const GlobalWeights& weights = pass.weights.global();
  if (!pass.measuring) checkKnown(pass.batch);
  const ScratchScope scope(pass);
  const bool projected = present(weights.embeddingProjection);
  float* hidden = pass.activations.hidden;
  float* embedded = projected ? pass.scratch.take<float>(pass.tokens() * spec.embeddingSize) : hidden;
  pass.lookUpTokens(weights.tokenEmbedding, spec.embeddingScale, embedded);
  if (spec.embeddingFactorised) pass.finishFactorised(embedded);
  if (projected)
    pass.multiply(weights.embeddingProjection, weights.embeddingProjectionBias, embedded, pass.tokens(), hidden,
                  ProductOf::Others);
  if (spec.embeddingFactorised) return;
  if (spec.position == PositionKind::Learned) pass.addPositions(weights.positionEmbedding);
  if (spec.tokenTypes != 0) pass.addTypes(weights.typeEmbedding);
  if (spec.embeddingNorm) pass.norm(hidden, weights.embeddingNorm, weights.embeddingNormBias, hidden);
  if (spec.streams.count > 1) pass.beginStreams();
}

// What a layer's first products read: the hidden states, normed unless norms stand after its branches.
MatrixInput layerInput(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights,
                       const StoredMatrix* const* matrices, size_t count) {
  const DecoderSpec& spec = pass.spec;
  // Which vectors there are is known once they have been loaded; a norm takes the more scratch.
  const Residual residual = spec.residualOf(layer);
  const bool normless =
      residual == Residual::Post || residual == Residual::Branch || (weights.norm1 == nullptr && !pass.measuring);
  if (!normless) return pass.normed(matrices, count, weights.norm1, weights.norm1Bias);
  return pass.prepared(matrices, count, pass.activations.hidden, pass.tokens(), spec.hiddenSize, ProductOf::Tokens);
}

// Norm and projections of the delta rule: queries, keys and values, which go through its convolution, then a gate, how
// much of a value is written, and how much of the state is forgotten.
void projectDelta(const Pass& pass, const LayerSpec& layer, const LayerWeights& weights) {
  const DecoderSpec& spec = pass.spec;
  const DeltaSpec& delta = spec.recurrent.delta;
  const size_t stride = spec.mixedWidth(), tokens = pass.tokens(), rank = delta.byKey.rank;
  const bool reduced = rank != 0;
  float* mixed = pass.activations.mixed;
  float* gate = mixed + spec.convolvedWidth(Mixer::DeltaRule);
  float *beta = gate + spec.deltaValues(), *decay = beta + delta.valueHeads;
  float* gateIn = reduced ? pass.scratch.take<float>(tokens * rank) : gate;
  float* decayIn = reduced ? pass.scratch.take<float>(tokens * rank) : decay;
  const size_t width = reduced ? rank : stride;
  const StoredMatrix &first = reduced ? weights.mixGateIn : weights.mixGate,
                     &second = reduced ? weights.alphaIn : weights.alpha;
  const ProductJob apart[] = {{&weights.q, nullptr, mixed, stride},
                              {&weights.k, nullptr, mixed + spec.deltaKeys(), stride},
                              {&weights.v, nullptr, mixed + 2 * spec.deltaKeys(), stride}};
  const ProductJob joined{&weights.mix, nullptr, mixed, stride};
  const ProductJob others[] = {
      {&first, nullptr, gateIn, width}, {&weights.beta, nullptr, beta, stride}, {&second, nullptr, decayIn, width}};
  {
    const ScratchScope scope(pass);
    const StoredMatrix* matrices[6];
    size_t count = 0;
    if (delta.apart)
      for (const ProductJob& job : apart) matrices[count++] = job.weights;
    else
      matrices[count++] = &weights.mix;
    for (const ProductJob& job : others) matrices[count++] = job.weights;
    const MatrixInput input = layerInput(pass, layer, weights, matrices, count);
    pass.multiply(delta.apart ? apart : &joined, delta.apart ? 3 : 1, input, ProductOf::Tokens);
    pass.multiply(others, 3, input, ProductOf::Tokens);
  }
  if (!reduced) return;
  const auto widen = [&](const StoredMatrix& matrix, const float* input, float* output) {
    const ScratchScope scope(pass);
    const StoredMatrix* const matrices[] = {&matrix};
    const ProductJob job{&matrix, nullptr, output, stride};
    pass.multiply(&job, 1, pass.prepared(matrices, 1, input, tokens, rank, ProductOf::Tokens), ProductOf::Tokens);
  };
  widen(weights.mixGate, gateIn, gate);
  widen(weights.alpha, decayIn, decay);
}

// Norm and projections of a layer that remembers a state: of the delta rule, see above; else what goes through its
// convolution, then, of a state space, a gate and the time steps, in the same product; of a selective scan, a gate; of
// lightning attention queries, keys and values of each head. Gates may be a product of their own.
void projectMixed(const Pass& pass, size_t layer) {
  const LayerWeights& weights = pass.weights.layer(layer);
  const ScratchScope scope(pass);
  pass.activations.keysSerial = 0;
  const LayerSpec& layerSpec = pass.spec.layerSpecs[layer];
  if (layerSpec.mixer == Mixer::DeltaRule) return projectDelta(pass, layerSpec, weights);
  const size_t count = present(weights.mixGate) ? 2 : 1, stride = pass.spec.mixedWidth();
  float* mixed = pass.activations.mixed;
  const StoredMatrix* const matrices[] = {&weights.mix, &weights.mixGate};
  const ProductJob jobs[] = {{&weights.mix, weights.mixBias, mixed, stride},
                             {&weights.mixGate, weights.mixGateBias, mixed + weights.mix.outputs, stride}};
  pass.multiply(jobs, count, layerInput(pass, layerSpec, weights, matrices, count), ProductOf::Tokens);
  if (layerSpec.mixer == Mixer::SelectiveScan) pass.prepareScan(layer);
}

// Norm, q k v, q/k norms, rotation. Queries go into the activations; keys and values, too, where attention stores them.
void project(const Pass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  if (spec.layerSpecs[layer].mixer != Mixer::Attention) return projectMixed(pass, layer);
  const LayerWeights& weights = pass.weights.layer(layer);
  Activations& activations = pass.activations;
  const ScratchScope scope(pass);
  if (spec.streams.count > 1) pass.predictStreams(layer);
  if (spec.position == PositionKind::Rotary) pass.fillRotary();
  activations.keysSerial = 0;
  const LayerSpec& layerSpec = spec.layerSpecs[layer];
  const auto place = [&](float* kept) {
    return activations.keepsKeys ? kept : pass.scratch.take<float>(pass.tokens() * spec.keyWidth(layerSpec));
  };
  if (spec.latent.rank != 0) {
    float* keys = place(activations.keys);
    pass.projectLatent(layer, keys);
    pass.finishHeads(layer, keys, keys);
    activations.keysSerial = pass.batch.serial;
    activations.keysLayer = layer;
    return;
  }
  const size_t width = spec.keyWidth(layerSpec);
  const bool ownKeys = layerSpec.ownKeys(), ownValues = ownKeys && !layerSpec.valuesAreKeys;
  const StoredMatrix* matrices[Pass::kMostProducts + 2] = {&weights.q};
  size_t count = 1;
  if (ownKeys) matrices[count++] = &weights.k;
  if (ownValues) matrices[count++] = &weights.v;
  const size_t products = count;
  if (spec.attentionGate) matrices[count++] = &weights.qGate;
  if (layerSpec.stateBeside) matrices[count++] = &weights.mix;
  const MatrixInput input = layerInput(pass, layerSpec, weights, matrices, count);
  float *keys = place(activations.keys), *values = place(activations.values);
  const ProductJob jobs[] = {
      {&weights.q, weights.qBias, activations.queries, spec.queryWidth(layerSpec)},
      {&weights.k, weights.kBias, keys, width},
      {&weights.v, weights.vBias, values, width},
  };
  pass.multiply(jobs, products, input, ProductOf::Tokens);
  if (layerSpec.valuesAreKeys && !pass.measuring) std::copy_n(keys, pass.tokens() * width, values);
  if (spec.attentionGate) {
    const ProductJob gate{&weights.qGate, nullptr, activations.mixed, spec.mixedWidth()};
    pass.multiply(&gate, 1, input, ProductOf::Tokens);
  }
  if (layerSpec.stateBeside) {
    const ProductJob mix{&weights.mix, weights.mixBias, activations.mixed, spec.mixedWidth()};
    pass.multiply(&mix, 1, input, ProductOf::Tokens);
  }
  pass.finishHeads(layer, keys, values);
  if (spec.disentangled.span != 0) pass.projectDistances(layer);
  activations.keysSerial = pass.batch.serial;
  activations.keysLayer = layer;
}

bool hasExperts(const LayerWeights& layer) { return present(layer.router); }

// A mixture of experts: a router picks a few gated blocks for each token.
//
// A token's sum runs over its experts in order of their index, starting from zero, whatever its company: experts are
// computed one after another, each for all tokens that chose it.
//
// Where there is a block beside the experts that all tokens go through, it is added last.
//
// routed: what the router reads, which is the input but where a mixture is apart.
void feedForwardExperts(const Pass& pass, const LayerWeights& weights, const float* routed, const float* input,
                        float* output) {
  const size_t width = pass.spec.hiddenSize, inner = pass.spec.feedForwardSize, tokens = pass.tokens();
  const ScratchScope scope(pass);
  const ExpertRouting routing = pass.route(weights, routed, output);
  float* gathered = pass.scratch.take<float>(tokens * width);
  float* gate = pass.scratch.take<float>(tokens * inner);
  float* up = pass.scratch.take<float>(tokens * inner);
  float* result = pass.scratch.take<float>(tokens * width);
  for (uint32_t e = 0; e < weights.experts.size(); e++) {
    const ExpertTokens chosen = pass.tokensOf(routing, e);
    if (chosen.count == 0) continue;
    const ExpertWeights& expert = weights.experts[e];
    pass.gatherRows(input, chosen, width, gathered);
    if (pass.spec.router.weighsInputs) pass.weighRows(gathered, routing, chosen, width);
    // As `gate` where there is none.
    const bool gated = present(expert.gate);
    const ProductJob jobs[] = {{&expert.up, expert.upBias, gated ? up : gate, inner},
                               {&expert.gate, expert.gateBias, gate, inner}};
    pass.multiply(jobs, gated ? 2 : 1, gathered, chosen.count, width, ProductOf::Others);
    pass.activate(gate, gated ? up : nullptr, chosen.count, inner);
    pass.multiply(expert.down, expert.downBias, gate, chosen.count, result, ProductOf::Others);
    pass.scatterRows(result, chosen, width, output);
  }
  for (uint32_t e = pass.spec.experts; e < pass.spec.routedExperts(); e++) {
    const ExpertTokens chosen = pass.tokensOf(routing, e);
    if (chosen.count == 0) continue;
    pass.gatherRows(input, chosen, width, gathered);
    pass.scatterRows(gathered, chosen, width, output);
  }
}

// output = the feed-forward block of rows that were prepared for it; or, with Epilogue::Add, added to the output.
void feedForwardDense(const Pass& pass, const LayerWeights& weights, const MatrixInput& input, float* output,
                      Epilogue epilogue) {
  const ScratchScope scope(pass);
  const ProductJob down{&weights.down, weights.downBias, output, weights.down.outputs};
  pass.multiply(&down, 1, pass.activated(weights, input), ProductOf::Tokens, epilogue);
}

// What a dense block's input is prepared for. Where there is no gate, that is a matrix like up.
struct InnerMatrices {
  explicit InnerMatrices(const LayerWeights& weights)
      : each{&weights.up, present(weights.gate) ? &weights.gate : &weights.up} {}
  const StoredMatrix* each[2];
};

// output += the block beside the experts, which may have a gate for each token.
void feedForwardShared(const Pass& pass, const LayerWeights& weights, const float* input, float* output) {
  const size_t tokens = pass.tokens(), width = pass.spec.hiddenSize;
  const ScratchScope scope(pass);
  const InnerMatrices inner(weights);
  const MatrixInput rows = pass.prepared(inner.each, 2, input, tokens, width, ProductOf::Tokens);
  if (!present(weights.sharedGate)) return feedForwardDense(pass, weights, rows, output, Epilogue::Add);
  const ExpertTokens all = pass.gated(weights.sharedGate, input);
  float* result = pass.scratch.take<float>(tokens * width);
  feedForwardDense(pass, weights, rows, result, Epilogue::Store);
  pass.scatterRows(result, all, width, output);
}

// output = the block that all tokens go through.
void feedForwardBlock(const Pass& pass, const LayerWeights& weights, const float* input, float* output) {
  const ScratchScope scope(pass);
  const InnerMatrices inner(weights);
  feedForwardDense(pass, weights,
                   pass.prepared(inner.each, 2, input, pass.tokens(), pass.spec.hiddenSize, ProductOf::Tokens), output,
                   Epilogue::Store);
}

// output = a block, and a mixture apart from it, which read the hidden states with norms of their own and are normed
// before they are added.
void feedForwardApart(const Pass& pass, const LayerWeights& weights, const float* input, float* output) {
  const ScratchScope scope(pass);
  const size_t elements = pass.tokens() * pass.spec.hiddenSize;
  float* routed = pass.scratch.take<float>(elements);
  float* read = pass.scratch.take<float>(elements);
  pass.norm(pass.activations.hidden, weights.routerNorm, nullptr, routed);
  pass.norm(pass.activations.hidden, weights.expertsNorm, nullptr, read);
  feedForwardExperts(pass, weights, routed, read, output);
  pass.norm(output, weights.postExpertsNorm, nullptr, output);
  feedForwardBlock(pass, weights, input, read);
  pass.norm(read, weights.postBlockNorm, nullptr, read);
  pass.addRows(read, output);
}

// output = the feed-forward block of `input`; both [tokens, hiddenSize], not overlapping.
void feedForward(const Pass& pass, const LayerWeights& weights, const float* input, float* output) {
  if (hasExperts(weights)) {
    if (pass.spec.router.apart) return feedForwardApart(pass, weights, input, output);
    const bool aside = pass.spec.expertsAside;
    feedForwardExperts(pass, weights, input, input, aside ? pass.aside() : output);
    if (aside) return feedForwardBlock(pass, weights, input, output);
    if (present(weights.down)) feedForwardShared(pass, weights, input, output);
    return;
  }
  feedForwardBlock(pass, weights, input, output);
}

// hidden += a product of what a mixer gives.
void addProduct(const Pass& pass, const StoredMatrix& matrix, const float* bias, const float* input) {
  const ScratchScope scope(pass);
  const StoredMatrix* const matrices[] = {&matrix};
  const ProductJob job{&matrix, bias, pass.activations.hidden, matrix.outputs};
  pass.multiply(&job, 1, pass.prepared(matrices, 1, input, pass.tokens(), matrix.inputs, ProductOf::Tokens),
                ProductOf::Tokens, Epilogue::Add);
}

// Norms before both blocks, and sums that nothing else is done with: each block adds to the hidden states as it ends.
void finishDirectly(const Pass& pass, const LayerWeights& weights) {
  float* hidden = pass.activations.hidden;
  addProduct(pass, weights.o, weights.oBias, pass.activations.queries);
  if (present(weights.besideOut)) addProduct(pass, weights.besideOut, weights.besideOutBias, pass.besideOutputs());
  if (!present(weights.down)) return;
  const ScratchScope scope(pass);
  const InnerMatrices inner(weights);
  feedForwardDense(pass, weights, pass.normed(inner.each, 2, weights.norm2, weights.norm2Bias), hidden, Epilogue::Add);
}

// --- What finishLayer() does, of a share of a layer. A branch's sums go round the engines where it ends, so it is
// never added to the hidden states as it is computed. What is bias of a whole branch only the first share's weights
// have.

// branch = the output projection. Where both branches read the layer's input, plus the feed-forward block: one sum goes
// round then.
void shareOutput(const Pass& pass, const LayerWeights& weights) {
  const DecoderSpec& spec = pass.spec;
  Activations& activations = pass.activations;
  Epilogue epilogue = Epilogue::Store;
  if (spec.residual == Residual::Parallel) {
    const ScratchScope scope(pass);
    float* normed = pass.scratch.take<float>(pass.tokens() * spec.hiddenSize);
    const bool own = weights.norm2 != nullptr;
    pass.norm(activations.hidden, own ? weights.norm2 : weights.norm1, own ? weights.norm2Bias : weights.norm1Bias,
              normed);
    feedForward(pass, weights, normed, activations.branch);
    epilogue = Epilogue::Add;
  }
  const ScratchScope scope(pass);
  const StoredMatrix* const matrices[] = {&weights.o};
  const ProductJob o{&weights.o, weights.oBias, activations.branch, weights.o.outputs};
  pass.multiply(&o, 1,
                pass.prepared(matrices, 1, activations.queries, pass.tokens(), weights.o.inputs, ProductOf::Tokens),
                ProductOf::Tokens, epilogue);
}

// Adds the first branch; branch = the feed-forward block.
void shareFeedForward(const Pass& pass, const LayerWeights& weights) {
  const DecoderSpec& spec = pass.spec;
  Activations& activations = pass.activations;
  if (spec.residual == Residual::Parallel)
    throw Error(ErrorCode::InvalidArgument, "part: found feedForward, expected none where branches are parallel");
  const bool post = spec.residual == Residual::Post;
  const bool asItIs = post || spec.residual == Residual::Branch;
  const ScratchScope scope(pass);
  float* input = asItIs ? activations.hidden : pass.scratch.take<float>(pass.tokens() * spec.hiddenSize);
  pass.addBranch(activations.branch, weights.postNorm1, post ? weights.norm1 : weights.norm2,
                 post ? weights.norm1Bias : weights.norm2Bias, spec.residual == Residual::Branch ? nullptr : input);
  feedForward(pass, weights, input, activations.branch);
}

// Adds the last branch.
void shareAdd(const Pass& pass, const LayerWeights& weights) {
  Activations& activations = pass.activations;
  const bool post = pass.spec.residual == Residual::Post;
  pass.addBranch(activations.branch, weights.postNorm2, post ? weights.norm2 : nullptr,
                 post ? weights.norm2Bias : nullptr, post ? activations.hidden : nullptr);
}

void checkShared(const DecoderSpec& spec, bool wanted) {
  if ((spec.shares > 1) == wanted) return;
  throw Error(ErrorCode::InvalidArgument, wanted ? "part: found one of a share of a layer, expected finish"
                                                 : "part: found finish, expected output, feedForward and add: these "
                                                   "are a share of each layer");
}

}  // namespace

void Pass::multiply(const ProductJob* products, size_t count, const float* input, size_t rows, size_t columns,
                    ProductOf of) const {
  const ScratchScope scope(*this);
  const StoredMatrix* each[kMostProducts];
  for (size_t p = 0; p < count; p++) each[p] = products[p].weights;
  multiply(products, count, prepared(each, count, input, rows, columns, of), of);
}

namespace {

[[noreturn]] void refuseElsewhere() {
  throw Error(ErrorCode::InvalidArgument, "layer: found parts that the processor alone computes, expected it to");
}

}  // namespace

void Pass::projectLatent(size_t, float*) const { refuseElsewhere(); }
void Pass::prepareScan(size_t) const { refuseElsewhere(); }
void Pass::beginStreams() const { refuseElsewhere(); }
void Pass::predictStreams(size_t) const { refuseElsewhere(); }
void Pass::bypassAttention(size_t, float*, float*) const { refuseElsewhere(); }
void Pass::addBypass(const float*) const { refuseElsewhere(); }
void Pass::correctStreams(size_t, const float*) const { refuseElsewhere(); }
void Pass::projectDistances(size_t) const { refuseElsewhere(); }
void Pass::finishFactorised(float*) const { refuseElsewhere(); }
void Pass::weighRows(float*, const ExpertRouting&, const ExpertTokens&, size_t) const { refuseElsewhere(); }
void Pass::addRows(const float*, float*) const { refuseElsewhere(); }
void Pass::weighBranch(const BranchSum&, float*) const { refuseElsewhere(); }
void Pass::addLayerInput(size_t) const { refuseElsewhere(); }
void Pass::scaleLayer(size_t) const { refuseElsewhere(); }

void takeKeys(const Batch& batch, Activations& activations, size_t layer) {
  if (activations.keysSerial != batch.serial || activations.keysLayer != layer) {
    throw Error(ErrorCode::InvalidArgument,
                "activations: found keys and values of something else, expected those that layer " +
                    std::to_string(layer) + " of this batch projected last");
  }
  activations.keysSerial = 0;  // attention overwrites the queries, so it cannot be done twice
}

static void addBranches(const Pass& pass, size_t layer);

// A layer computes with the first of several streams of hidden states (Gemma 3n).
static void finishStreams(const Pass& pass, size_t layer) {
  const LayerWeights& weights = pass.weights.layer(layer);
  const ScratchScope scope(pass);
  const size_t elements = pass.tokens() * pass.spec.hiddenSize;
  float* predicted = pass.scratch.take<float>(elements);
  float* bypass = pass.scratch.take<float>(elements);  // then what the feed-forward block reads
  float* branch = pass.scratch.take<float>(elements);
  pass.bypassAttention(layer, bypass, predicted);
  pass.multiply(weights.o, weights.oBias, pass.activations.queries, pass.tokens(), branch, ProductOf::Tokens);
  pass.addBranch(branch, weights.postNorm1, nullptr, nullptr, nullptr);
  pass.addBypass(bypass);
  pass.norm(pass.activations.hidden, weights.norm2, nullptr, bypass);
  feedForward(pass, weights, bypass, branch);
  pass.addBranch(branch, weights.postNorm2, nullptr, nullptr, nullptr);
  pass.correctStreams(layer, predicted);
}

void finishLayer(const Pass& pass, size_t layer) {
  if (pass.spec.streams.count > 1) return finishStreams(pass, layer);
  addBranches(pass, layer);
  if (pass.spec.expertsAside && !hasExperts(pass.weights.layer(layer)))
    pass.addRows(pass.aside(), pass.activations.hidden);
  if (pass.spec.layerInputSize != 0) pass.addLayerInput(layer);
  if (pass.spec.layerScale) pass.scaleLayer(layer);
}

// Both branches, added to the hidden states.
static void addBranches(const Pass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  const LayerWeights& weights = pass.weights.layer(layer);
  const LayerSpec& layerSpec = spec.layerSpecs[layer];
  const Residual residual = spec.residualOf(layerSpec);
  if (residual == Residual::Pre && spec.residualScale == 1 && !hasExperts(weights))
    return finishDirectly(pass, weights);
  const ScratchScope scope(pass);
  const size_t elements = pass.tokens() * spec.hiddenSize;
  float* hidden = pass.activations.hidden;
  float* branch = pass.scratch.take<float>(elements);  // what a branch adds
  float* normed = pass.scratch.take<float>(elements);  // what the feed-forward block reads
  pass.multiply(weights.o, weights.oBias, pass.activations.queries, pass.tokens(), branch, ProductOf::Tokens);
  if (layerSpec.mixerOnly) return pass.addBranch(branch, nullptr, nullptr, nullptr, nullptr);
  switch (residual) {
    case Residual::Pre:
      pass.addBranch(branch, nullptr, weights.norm2, weights.norm2Bias, normed);
      feedForward(pass, weights, normed, branch);
      return pass.addBranch(branch, weights.postNorm2, nullptr, nullptr, nullptr);
    case Residual::Sandwich:
      pass.addBranch(branch, weights.postNorm1, weights.norm2, weights.norm2Bias, normed);
      feedForward(pass, weights, normed, branch);
      return pass.addBranch(branch, weights.postNorm2, nullptr, nullptr, nullptr);
    case Residual::Branch:
      pass.addBranch(branch, weights.postNorm1, nullptr, nullptr, nullptr);
      feedForward(pass, weights, hidden, branch);
      return pass.addBranch(branch, weights.postNorm2, nullptr, nullptr, nullptr);
    case Residual::Post:
      if (!layerSpec.mixerSum.plain()) pass.weighBranch(layerSpec.mixerSum, branch);
      pass.addBranch(branch, nullptr, weights.norm1, weights.norm1Bias, hidden);
      feedForward(pass, weights, hidden, branch);
      if (!layerSpec.blockSum.plain()) pass.weighBranch(layerSpec.blockSum, branch);
      return pass.addBranch(branch, nullptr, weights.norm2, weights.norm2Bias, hidden);
    case Residual::Parallel: {
      // Both branches read the layer's input, so that is left alone until both are there.
      float* second = pass.scratch.take<float>(elements);
      const bool own = weights.norm2 != nullptr;
      pass.norm(hidden, own ? weights.norm2 : weights.norm1, own ? weights.norm2Bias : weights.norm1Bias, normed);
      feedForward(pass, weights, normed, second);
      return pass.addBranches(branch, second);
    }
  }
}

std::unique_ptr<TaskResult> computePart(const Pass& pass, ComputePart part, size_t layer) {
  switch (part) {
    case ComputePart::Embed: embed(pass); break;
    case ComputePart::Project: project(pass, layer); break;
    case ComputePart::Attend: pass.attend(layer); break;
    case ComputePart::Finish:
      checkShared(pass.spec, false);
      pass.finish(layer);
      break;
    case ComputePart::Layer:
      for (const ComputePart each : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish})
        computePart(pass, each, layer);
      break;
    case ComputePart::Head: return pass.head();
    case ComputePart::Output:
    case ComputePart::FeedForward:
    case ComputePart::Add: {
      checkShared(pass.spec, true);
      const LayerWeights& weights = pass.weights.layer(layer);
      if (part == ComputePart::Output) shareOutput(pass, weights);
      if (part == ComputePart::FeedForward) shareFeedForward(pass, weights);
      if (part == ComputePart::Add) {
        shareAdd(pass, weights);
        pass.finished(layer);
      }
      break;
    }
  }
  return nullptr;
}

void computeAll(const Pass& pass, const Pass& attending) {
  if (pass.spec.embeds()) embed(pass);
  std::vector<ComputePart> parts = {ComputePart::Project, ComputePart::Attend};
  if (pass.spec.shares == 1) parts.push_back(ComputePart::Finish);
  if (pass.spec.shares > 1) parts.push_back(ComputePart::Output);
  if (pass.spec.shares > 1 && pass.spec.residual != Residual::Parallel) parts.push_back(ComputePart::FeedForward);
  if (pass.spec.shares > 1) parts.push_back(ComputePart::Add);
  for (size_t layer = 0; layer < pass.spec.layers; layer++) {
    for (const ComputePart part : parts) computePart(part == ComputePart::Attend ? attending : pass, part, layer);
  }
  if (pass.spec.samples()) pass.head();
}

}  // namespace spillway
