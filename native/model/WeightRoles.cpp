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
Presence ifProjectedIn(const Spec& spec) { return requiredIf(spec.embeds() && spec.embeddingSize != spec.hiddenSize); }
Presence ifProjectedOut(const Spec& spec) {
  return requiredIf(spec.samples() && spec.embeddingSize != spec.hiddenSize);
}
Presence ifHeaded(const Spec& spec) { return optionalIf(spec.samples() && spec.causal); }
Presence ifTyped(const Spec& spec) { return requiredIf(spec.tokenTypes != 0); }
Presence ifRelative(const Spec& spec) { return requiredIf(spec.relativeBuckets != 0); }
Presence ifEmbeddingNorm(const Spec& spec) { return requiredIf(spec.embeddingNorm); }
Presence ifEmbeddingNormBias(const Spec& spec) {
  return optionalIf(spec.embeddingNorm && spec.norm == NormKind::Layer);
}
// A first layer that norms nothing goes on from the norm of the embeddings (ModernBERT).
Presence norm1(const Spec& spec) {
  return spec.embeddingNorm && spec.residual == Residual::Pre ? Presence::Optional : Presence::Required;
}
Presence ifLearned(const Spec& spec) { return requiredIf(spec.embeds() && spec.position == PositionKind::Learned); }
Presence ifFinalNorm(const Spec& spec) { return requiredIf(spec.samples() && spec.finalNorm); }
Presence ifFinalNormBias(const Spec& spec) {
  return optionalIf(spec.samples() && spec.finalNorm && spec.norm == NormKind::Layer);
}
Presence ifNormBias(const Spec& spec) { return optionalIf(spec.norm == NormKind::Layer); }
Presence ifSandwich(const Spec& spec) { return requiredIf(spec.residual == Residual::Sandwich); }
Presence ifQkNorm(const Spec& spec) { return requiredIf(spec.qkNorm); }
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
WeightShape types(const Spec& spec) { return {spec.tokenTypes, spec.hiddenSize}; }
WeightShape bucketsByHead(const Spec& spec) { return {spec.relativeBuckets, spec.heads}; }
WeightShape positions(const Spec& spec) { return {spec.learnedOffset + spec.contextTokens, spec.hiddenSize}; }
WeightShape embeddingToHidden(const Spec& spec) { return {spec.hiddenSize, spec.embeddingSize}; }
WeightShape hiddenToEmbedding(const Spec& spec) { return {spec.embeddingSize, spec.hiddenSize}; }
WeightShape hiddenToQueries(const Spec& spec) { return {spec.queryWidth(), spec.hiddenSize}; }
WeightShape hiddenToKeys(const Spec& spec) { return {spec.keyWidth(), spec.hiddenSize}; }
WeightShape queriesToHidden(const Spec& spec) { return {spec.hiddenSize, spec.queryWidth()}; }
WeightShape hiddenToInner(const Spec& spec) { return {spec.feedForwardSize, spec.hiddenSize}; }
WeightShape innerToHidden(const Spec& spec) { return {spec.hiddenSize, spec.feedForwardSize}; }
WeightShape hiddenToExperts(const Spec& spec) { return {spec.experts, spec.hiddenSize}; }

}  // namespace

const std::vector<WeightRole<GlobalWeights>>& globalRoles() {
  using G = GlobalWeights;
  static const std::vector<WeightRole<G>> roles = {
      {"token_embedding", &G::tokenEmbedding, nullptr, tokenEmbedding, embedding},
      {"position_embedding", &G::positionEmbedding, nullptr, ifLearned, positions, true},
      {"type_embedding", &G::typeEmbedding, nullptr, ifTyped, types},
      {"embedding_norm.weight", nullptr, &G::embeddingNorm, ifEmbeddingNorm, hidden},
      {"embedding_norm.bias", nullptr, &G::embeddingNormBias, ifEmbeddingNormBias, hidden},
      {"relative_bias", &G::relativeBias, nullptr, ifRelative, bucketsByHead},
      {"embedding_projection", &G::embeddingProjection, nullptr, ifProjectedIn, embeddingToHidden},
      {"output_projection", &G::outputProjection, nullptr, ifProjectedOut, hiddenToEmbedding},
      {"final_norm.weight", nullptr, &G::finalNorm, ifFinalNorm, hidden},
      {"final_norm.bias", nullptr, &G::finalNormBias, ifFinalNormBias, hidden},
      {"head.weight", &G::head, nullptr, ifHeaded, embedding},
      {"head.bias", nullptr, &G::headBias, ifHeaded, vocabulary},
  };
  return roles;
}

const std::vector<WeightRole<LayerWeights>>& layerRoles() {
  using L = LayerWeights;
  static const std::vector<WeightRole<L>> roles = {
      {"norm1.weight", nullptr, &L::norm1, norm1, hidden},
      {"norm1.bias", nullptr, &L::norm1Bias, ifNormBias, hidden},
      {"norm2.weight", nullptr, &L::norm2, norm2, hidden},
      {"norm2.bias", nullptr, &L::norm2Bias, ifNormBias, hidden},
      {"post_norm1.weight", nullptr, &L::postNorm1, ifSandwich, hidden},
      {"post_norm2.weight", nullptr, &L::postNorm2, ifSandwich, hidden},
      {"q.weight", &L::q, nullptr, required, hiddenToQueries},
      {"q.bias", nullptr, &L::qBias, optional, queries},
      {"k.weight", &L::k, nullptr, required, hiddenToKeys},
      {"k.bias", nullptr, &L::kBias, optional, keys},
      {"v.weight", &L::v, nullptr, required, hiddenToKeys},
      {"v.bias", nullptr, &L::vBias, optional, keys},
      {"o.weight", &L::o, nullptr, required, queriesToHidden},
      {"o.bias", nullptr, &L::oBias, optional, hidden},
      {"q_norm.weight", nullptr, &L::qNorm, ifQkNorm, headElements},
      {"k_norm.weight", nullptr, &L::kNorm, ifQkNorm, headElements},
      {"sinks", nullptr, &L::sinks, ifSinks, heads},
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
