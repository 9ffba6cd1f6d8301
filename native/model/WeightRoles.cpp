#include "WeightRoles.h"

namespace spillway {

namespace {

using Spec = DecoderSpec;

Presence required(const Spec&) { return Presence::Required; }
Presence optional(const Spec&) { return Presence::Optional; }
Presence requiredIf(bool condition) { return condition ? Presence::Required : Presence::Unused; }
Presence optionalIf(bool condition) { return condition ? Presence::Optional : Presence::Unused; }

// Of a part of a model's layers, the first one embeds and the last one samples. A head may be the embedding itself:
// Weights sees to it that there is one.
Presence tokenEmbedding(const Spec& spec) { return spec.embeds() ? Presence::Required : optionalIf(spec.samples()); }
Presence ifSamples(const Spec& spec) { return optionalIf(spec.samples()); }
Presence ifProjectedIn(const Spec& spec) { return requiredIf(spec.embeds() && spec.embeddingSize != spec.hiddenSize); }
Presence ifProjectedOut(const Spec& spec) {
  return requiredIf(spec.samples() && spec.embeddingSize != spec.hiddenSize);
}
Presence ifLearned(const Spec& spec) { return requiredIf(spec.embeds() && spec.position == PositionKind::Learned); }
Presence ifFinalNorm(const Spec& spec) { return requiredIf(spec.samples() && spec.finalNorm); }
Presence ifFinalNormBias(const Spec& spec) {
  return optionalIf(spec.samples() && spec.finalNorm && spec.norm == NormKind::Layer);
}
Presence ifNormBias(const Spec& spec) { return optionalIf(spec.norm == NormKind::Layer); }
Presence ifSandwich(const Spec& spec) { return requiredIf(spec.residual == Residual::Sandwich); }
Presence ifQkNorm(const Spec& spec) { return requiredIf(spec.qkNorm); }
Presence ifAttentionGate(const Spec& spec) { return requiredIf(spec.attentionGate); }
Presence ifSinks(const Spec& spec) { return requiredIf(spec.attentionSinks); }
Presence ifGated(const Spec& spec) { return requiredIf(spec.feedForward == FeedForwardKind::Gated); }
Presence ifGatedBias(const Spec& spec) { return optionalIf(spec.feedForward == FeedForwardKind::Gated); }
Presence ifOneBlock(const Spec& spec) { return requiredIf(spec.feedForward != FeedForwardKind::Experts); }
Presence ifOneBlockBias(const Spec& spec) { return optionalIf(spec.feedForward != FeedForwardKind::Experts); }
Presence ifExperts(const Spec& spec) { return requiredIf(spec.feedForward == FeedForwardKind::Experts); }
Presence ifExpertsBias(const Spec& spec) { return optionalIf(spec.feedForward == FeedForwardKind::Experts); }
// Without a second norm both branches of a parallel layer read the first one.
Presence norm2(const Spec& spec) {
  return spec.residual == Residual::Parallel ? Presence::Optional : Presence::Required;
}

WeightShape hidden(const Spec& spec) { return {spec.hiddenSize, 1}; }
WeightShape headElements(const Spec& spec) { return {spec.headDim, 1}; }
WeightShape heads(const Spec& spec) { return {spec.heads, 1}; }
WeightShape queries(const Spec& spec) { return {spec.queryWidth(), 1}; }
WeightShape keys(const Spec& spec) { return {spec.keyWidth(), 1}; }
WeightShape inner(const Spec& spec) { return {spec.feedForwardSize, 1}; }
WeightShape experts(const Spec& spec) { return {spec.experts, 1}; }
WeightShape vocabulary(const Spec& spec) { return {spec.vocabularySize, 1}; }
WeightShape embedding(const Spec& spec) { return {spec.vocabularySize, spec.embeddingSize}; }
WeightShape positions(const Spec& spec) { return {spec.learnedOffset + spec.contextTokens, spec.hiddenSize}; }
WeightShape embeddingToHidden(const Spec& spec) { return {spec.hiddenSize, spec.embeddingSize}; }
WeightShape hiddenToEmbedding(const Spec& spec) { return {spec.embeddingSize, spec.hiddenSize}; }
WeightShape hiddenToQueries(const Spec& spec) { return {spec.queryWidth(), spec.hiddenSize}; }
WeightShape hiddenToKeys(const Spec& spec) { return {spec.keyWidth(), spec.hiddenSize}; }
WeightShape queriesToHidden(const Spec& spec) { return {spec.hiddenSize, spec.queryWidth()}; }
WeightShape hiddenToInner(const Spec& spec) { return {spec.feedForwardSize, spec.hiddenSize}; }
WeightShape innerToHidden(const Spec& spec) { return {spec.hiddenSize, spec.feedForwardSize}; }
WeightShape hiddenToExperts(const Spec& spec) { return {spec.experts, spec.hiddenSize}; }
WeightShape hiddenToHidden(const Spec& spec) { return {spec.hiddenSize, spec.hiddenSize}; }
WeightShape hiddenToConvolution(const Spec& spec) { return {3 * spec.hiddenSize, spec.hiddenSize}; }
WeightShape convolution(const Spec& spec) { return {spec.recurrent.taps * spec.hiddenSize, 1}; }
WeightShape deltaConvolution(const Spec& spec) {
  return {spec.recurrent.taps * spec.convolvedWidth(Mixer::DeltaRule), 1};
}
WeightShape valueHeads(const Spec& spec) { return {spec.recurrent.valueHeads, 1}; }
WeightShape valueElements(const Spec& spec) { return {spec.recurrent.valueDim, 1}; }
WeightShape hiddenToDelta(const Spec& spec) { return {spec.convolvedWidth(Mixer::DeltaRule), spec.hiddenSize}; }
WeightShape hiddenToValues(const Spec& spec) { return {spec.deltaValues(), spec.hiddenSize}; }
WeightShape hiddenToValueHeads(const Spec& spec) { return {spec.recurrent.valueHeads, spec.hiddenSize}; }
WeightShape valuesToHidden(const Spec& spec) { return {spec.hiddenSize, spec.deltaValues()}; }

constexpr uint8_t kAttention = onlyOf(Mixer::Attention), kDelta = onlyOf(Mixer::DeltaRule),
                  kConvolution = onlyOf(Mixer::ShortConvolution);

}  // namespace

const std::vector<WeightRole<GlobalWeights>>& globalRoles() {
  using G = GlobalWeights;
  static const std::vector<WeightRole<G>> roles = {
      {"token_embedding", &G::tokenEmbedding, nullptr, tokenEmbedding, embedding},
      {"position_embedding", &G::positionEmbedding, nullptr, ifLearned, positions, true},
      {"embedding_projection", &G::embeddingProjection, nullptr, ifProjectedIn, embeddingToHidden},
      {"output_projection", &G::outputProjection, nullptr, ifProjectedOut, hiddenToEmbedding},
      {"final_norm.weight", nullptr, &G::finalNorm, ifFinalNorm, hidden},
      {"final_norm.bias", nullptr, &G::finalNormBias, ifFinalNormBias, hidden},
      {"head.weight", &G::head, nullptr, ifSamples, embedding},
      {"head.bias", nullptr, &G::headBias, ifSamples, vocabulary},
  };
  return roles;
}

const std::vector<WeightRole<LayerWeights>>& layerRoles() {
  using L = LayerWeights;
  static const std::vector<WeightRole<L>> roles = {
      {"norm1.weight", nullptr, &L::norm1, required, hidden},
      {"norm1.bias", nullptr, &L::norm1Bias, ifNormBias, hidden},
      {"norm2.weight", nullptr, &L::norm2, norm2, hidden},
      {"norm2.bias", nullptr, &L::norm2Bias, ifNormBias, hidden},
      {"post_norm1.weight", nullptr, &L::postNorm1, ifSandwich, hidden},
      {"post_norm2.weight", nullptr, &L::postNorm2, ifSandwich, hidden},
      {"q.weight", &L::q, nullptr, required, hiddenToQueries, false, kAttention},
      {"q.bias", nullptr, &L::qBias, optional, queries, false, kAttention},
      {"k.weight", &L::k, nullptr, required, hiddenToKeys, false, kAttention},
      {"k.bias", nullptr, &L::kBias, optional, keys, false, kAttention},
      {"v.weight", &L::v, nullptr, required, hiddenToKeys, false, kAttention},
      {"v.bias", nullptr, &L::vBias, optional, keys, false, kAttention},
      {"o.weight", &L::o, nullptr, required, queriesToHidden, false, kAttention},
      {"o.bias", nullptr, &L::oBias, optional, hidden, false, kAttention},
      {"q_norm.weight", nullptr, &L::qNorm, ifQkNorm, headElements, false, kAttention},
      {"k_norm.weight", nullptr, &L::kNorm, ifQkNorm, headElements, false, kAttention},
      {"q_gate.weight", &L::qGate, nullptr, ifAttentionGate, hiddenToQueries, false, kAttention},
      {"sinks", nullptr, &L::sinks, ifSinks, heads, false, kAttention},
      {"conv.weight", nullptr, &L::conv, required, convolution, false, kConvolution},
      {"conv.bias", nullptr, &L::convBias, optional, hidden, false, kConvolution},
      {"conv_in.weight", &L::mix, nullptr, required, hiddenToConvolution, false, kConvolution},
      {"conv_out.weight", &L::o, nullptr, required, hiddenToHidden, false, kConvolution},
      {"delta_conv.weight", nullptr, &L::conv, required, deltaConvolution, false, kDelta},
      {"decay.log", nullptr, &L::decay, required, valueHeads, false, kDelta},
      {"decay.bias", nullptr, &L::decayBias, required, valueHeads, false, kDelta},
      {"delta_norm.weight", nullptr, &L::mixNorm, required, valueElements, false, kDelta},
      {"delta_in.weight", &L::mix, nullptr, required, hiddenToDelta, false, kDelta},
      {"delta_gate.weight", &L::mixGate, nullptr, required, hiddenToValues, false, kDelta},
      {"delta_beta.weight", &L::beta, nullptr, required, hiddenToValueHeads, false, kDelta},
      {"delta_decay.weight", &L::alpha, nullptr, required, hiddenToValueHeads, false, kDelta},
      {"delta_out.weight", &L::o, nullptr, required, valuesToHidden, false, kDelta},
      {"gate.weight", &L::gate, nullptr, ifGated, hiddenToInner},
      {"gate.bias", nullptr, &L::gateBias, ifGatedBias, inner},
      {"up.weight", &L::up, nullptr, ifOneBlock, hiddenToInner},
      {"up.bias", nullptr, &L::upBias, ifOneBlockBias, inner},
      {"down.weight", &L::down, nullptr, ifOneBlock, innerToHidden},
      {"down.bias", nullptr, &L::downBias, ifOneBlockBias, hidden},
      {"router.weight", &L::router, nullptr, ifExperts, hiddenToExperts},
      {"router.bias", nullptr, &L::routerBias, ifExpertsBias, experts},
  };
  return roles;
}

const std::vector<WeightRole<ExpertWeights>>& expertRoles() {
  using E = ExpertWeights;
  static const std::vector<WeightRole<E>> roles = {
      {"gate.weight", &E::gate, nullptr, ifExperts, hiddenToInner},
      {"gate.bias", nullptr, &E::gateBias, ifExpertsBias, inner},
      {"up.weight", &E::up, nullptr, ifExperts, hiddenToInner},
      {"up.bias", nullptr, &E::upBias, ifExpertsBias, inner},
      {"down.weight", &E::down, nullptr, ifExperts, innerToHidden},
      {"down.bias", nullptr, &E::downBias, ifExpertsBias, hidden},
  };
  return roles;
}

}  // namespace spillway
