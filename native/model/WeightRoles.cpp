#include "WeightRoles.h"

namespace spillway {

namespace {

using Spec = DecoderSpec;
using Layer = LayerSpec;

Presence requiredIf(bool condition) { return condition ? Presence::Required : Presence::Unused; }
Presence optionalIf(bool condition) { return condition ? Presence::Optional : Presence::Unused; }

// Of a part of a model's layers, the first one embeds and the last one samples. A head may be the embedding itself:
// Weights sees to it that there is one.
Presence tokenEmbedding(const Spec& spec, const Layer&) {
  return spec.embeds() ? Presence::Required : optionalIf(spec.samples());
}
Presence ifHeaded(const Spec& spec, const Layer&) { return optionalIf(spec.samples() && spec.causal); }
Presence ifTyped(const Spec& spec, const Layer&) { return requiredIf(spec.tokenTypes != 0); }
Presence ifRelative(const Spec& spec, const Layer&) { return requiredIf(spec.relativeBuckets != 0); }
bool isDisentangled(const Spec& spec) { return spec.disentangled.span != 0; }
Presence ifDisentangled(const Spec& spec, const Layer&) { return requiredIf(isDisentangled(spec)); }
Presence ifDistanceNorm(const Spec& spec, const Layer&) { return optionalIf(isDisentangled(spec)); }
Presence ifQueriesOfDistances(const Spec& spec, const Layer&) {
  return requiredIf(isDisentangled(spec) && spec.disentangled.ownProducts && spec.disentangled.positionToContent);
}
Presence ifQueriesOfDistancesBias(const Spec& spec, const Layer&) {
  return optionalIf(isDisentangled(spec) && spec.disentangled.ownProducts && spec.disentangled.positionToContent);
}
Presence ifKeysOfDistances(const Spec& spec, const Layer&) {
  return requiredIf(isDisentangled(spec) && spec.disentangled.ownProducts && spec.disentangled.contentToPosition);
}
Presence ifKeysOfDistancesBias(const Spec& spec, const Layer&) {
  return optionalIf(isDisentangled(spec) && spec.disentangled.ownProducts && spec.disentangled.contentToPosition);
}
bool normsEmbeddings(const Spec& spec) { return spec.embeds() && spec.embeddingNorm && !spec.unweightedNorms; }
Presence ifEmbeddingNorm(const Spec& spec, const Layer&) { return requiredIf(normsEmbeddings(spec)); }
Presence ifEmbeddingNormBias(const Spec& spec, const Layer&) {
  return optionalIf(normsEmbeddings(spec) && spec.norm == NormKind::Layer);
}
Presence ifProjectedIn(const Spec& spec, const Layer&) {
  return requiredIf(spec.embeds() && (spec.embeddingFactorised || spec.embeddingSize != spec.hiddenSize));
}
Presence ifProjectedInBias(const Spec& spec, const Layer&) { return optionalIf(spec.embeddingFactorised); }
Presence ifProjectedOut(const Spec& spec, const Layer&) {
  return requiredIf(spec.samples() && spec.causal && spec.embeddingSize != spec.hiddenSize);
}
template <uint32_t kStream>
Presence ifStreamIn(const Spec& spec, const Layer&) {
  return requiredIf(spec.embeds() && spec.streams.count > kStream);
}
template <uint32_t kStream>
Presence ifStreamOut(const Spec& spec, const Layer&) {
  return requiredIf(spec.samples() && spec.streams.count > kStream);
}
Presence ifStreams(const Spec& spec, const Layer&) { return requiredIf(spec.streams.count > 1); }
Presence ifStreamScale(const Spec& spec, const Layer&) { return optionalIf(spec.streams.count > 1); }
Presence ifLearned(const Spec& spec, const Layer&) {
  return requiredIf(spec.embeds() && spec.position == PositionKind::Learned);
}
bool normsLast(const Spec& spec) { return spec.samples() && spec.finalNorm && !spec.unweightedNorms; }
Presence ifFinalNorm(const Spec& spec, const Layer&) { return requiredIf(normsLast(spec)); }
Presence ifFinalNormBias(const Spec& spec, const Layer&) {
  return optionalIf(normsLast(spec) && spec.norm == NormKind::Layer);
}
// By weights.
bool normsInputs(const Spec& spec, const Layer& layer) {
  return spec.residualOf(layer) != Residual::Branch && !spec.unweightedNorms;
}
Presence ifNormBias(const Spec& spec, const Layer& layer) {
  return optionalIf(spec.norm == NormKind::Layer && normsInputs(spec, layer));
}
Presence ifSecondNormBias(const Spec& spec, const Layer& layer) {
  return layer.mixerOnly ? Presence::Unused : ifNormBias(spec, layer);
}
bool normsBranches(const Spec& spec, const Layer& layer) {
  return spec.residual == Residual::Sandwich || spec.residualOf(layer) == Residual::Branch;
}
bool attends(const Layer& layer) { return layer.mixer == Mixer::Attention; }
bool hasBlock(const Spec& spec, const Layer& layer) { return spec.innerWidth(layer) != 0; }
bool hasGate(const Spec& spec, const Layer& layer) { return hasBlock(spec, layer) && spec.hasGates(); }
// A first layer that norms nothing goes on from the norm of the embeddings (ModernBERT).
Presence norm1(const Spec& spec, const Layer& layer) {
  if (spec.embeddingNorm && spec.residual == Residual::Pre) return Presence::Optional;
  return requiredIf(normsInputs(spec, layer));
}
Presence ifBranchNorms(const Spec& spec, const Layer& layer) { return requiredIf(normsBranches(spec, layer)); }
// Where norms stand before branches, experts' results may be normed as well.
Presence ifBlockNorm(const Spec& spec, const Layer& layer) {
  return normsBranches(spec, layer) ? Presence::Required
                                    : optionalIf(spec.residual == Residual::Pre && spec.hasExperts(layer));
}
bool normsHeads(const Spec& spec) { return spec.qkNorm != QueryKeyNorm::None && spec.qkNorm != QueryKeyNorm::Unit; }
Presence ifAttention(const Spec&, const Layer& layer) { return requiredIf(attends(layer)); }
Presence ifAttentionBias(const Spec&, const Layer& layer) { return optionalIf(attends(layer)); }
bool hasKeys(const Spec& spec, const Layer& layer) { return layer.ownKeys() && spec.latent.rank == 0; }
bool hasValues(const Spec& spec, const Layer& layer) { return hasKeys(spec, layer) && !layer.valuesAreKeys; }
Presence ifKeys(const Spec& spec, const Layer& layer) { return requiredIf(hasKeys(spec, layer)); }
Presence ifKeysBias(const Spec& spec, const Layer& layer) { return optionalIf(hasKeys(spec, layer)); }
Presence ifValues(const Spec& spec, const Layer& layer) { return requiredIf(hasValues(spec, layer)); }
Presence ifValuesBias(const Spec& spec, const Layer& layer) { return optionalIf(hasValues(spec, layer)); }
Presence ifQueryNorm(const Spec& spec, const Layer& layer) { return requiredIf(attends(layer) && normsHeads(spec)); }
Presence ifQueryNormBias(const Spec& spec, const Layer& layer) {
  return optionalIf(attends(layer) && spec.qkNorm == QueryKeyNorm::Layer);
}
Presence ifKeyNormBias(const Spec& spec, const Layer& layer) {
  return optionalIf(hasKeys(spec, layer) && spec.qkNorm == QueryKeyNorm::Layer);
}
Presence ifKeyNorm(const Spec& spec, const Layer& layer) {
  return requiredIf(hasKeys(spec, layer) && normsHeads(spec));
}
bool isLatent(const Spec& spec, const Layer& layer) { return attends(layer) && spec.latent.rank != 0; }
Presence ifLatent(const Spec& spec, const Layer& layer) { return requiredIf(isLatent(spec, layer)); }
Presence ifLatentBias(const Spec& spec, const Layer& layer) { return optionalIf(isLatent(spec, layer)); }
Presence ifQueryRank(const Spec& spec, const Layer& layer) {
  return requiredIf(isLatent(spec, layer) && spec.latent.queryRank != 0);
}
Presence ifQueryRankBias(const Spec& spec, const Layer& layer) {
  return optionalIf(isLatent(spec, layer) && spec.latent.queryRank != 0);
}
Presence ifLayerInput(const Spec& spec, const Layer&) { return requiredIf(spec.layerInputSize != 0); }
Presence ifLayerScale(const Spec& spec, const Layer&) { return requiredIf(spec.layerScale); }
Presence ifApart(const Spec& spec, const Layer& layer) {
  return requiredIf(spec.hasExperts(layer) && spec.router.apart);
}
Presence ifExpertScale(const Spec& spec, const Layer& layer) {
  return requiredIf(spec.hasExperts(layer) && spec.router.expertScale);
}
Presence ifAttentionGate(const Spec& spec, const Layer& layer) {
  return requiredIf(attends(layer) && spec.attentionGate);
}
// Layers without a window may have none (MiMo V2).
Presence ifSinks(const Spec& spec, const Layer& layer) { return optionalIf(attends(layer) && spec.attentionSinks); }
Presence ifConvolved(const Spec&, const Layer& layer) { return requiredIf(layer.mixer == Mixer::ShortConvolution); }
Presence ifConvolvedBias(const Spec&, const Layer& layer) { return optionalIf(layer.mixer == Mixer::ShortConvolution); }
Presence ifDelta(const Spec&, const Layer& layer) { return requiredIf(layer.mixer == Mixer::DeltaRule); }
Presence ifDeltaJoined(const Spec& spec, const Layer& layer) {
  return requiredIf(layer.mixer == Mixer::DeltaRule && !spec.recurrent.deltaApart);
}
Presence ifDeltaApart(const Spec& spec, const Layer& layer) {
  return requiredIf(layer.mixer == Mixer::DeltaRule && spec.recurrent.deltaApart);
}
Presence ifDeltaRank(const Spec& spec, const Layer& layer) {
  return requiredIf(layer.mixer == Mixer::DeltaRule && spec.recurrent.deltaRank != 0);
}
Presence ifStateSpace(const Spec&, const Layer& layer) { return requiredIf(layer.hasStateSpace()); }
Presence ifStateSpaceBias(const Spec&, const Layer& layer) { return optionalIf(layer.hasStateSpace()); }
Presence ifStateNorm(const Spec& spec, const Layer& layer) {
  return requiredIf(layer.hasStateSpace() && spec.recurrent.stateNorm != StateSpaceNorm::None);
}
Presence ifStateAlone(const Spec&, const Layer& layer) { return requiredIf(layer.mixer == Mixer::StateSpace); }
Presence ifStateAloneBias(const Spec&, const Layer& layer) { return optionalIf(layer.mixer == Mixer::StateSpace); }
Presence ifStateBeside(const Spec&, const Layer& layer) { return requiredIf(layer.stateBeside); }
Presence ifStateBesideBias(const Spec&, const Layer& layer) { return optionalIf(layer.stateBeside); }
bool scans(const Layer& layer) { return layer.mixer == Mixer::SelectiveScan; }
Presence ifScan(const Spec&, const Layer& layer) { return requiredIf(scans(layer)); }
Presence ifScanBias(const Spec&, const Layer& layer) { return optionalIf(scans(layer)); }
Presence ifScanNorm(const Spec& spec, const Layer& layer) {
  return requiredIf(scans(layer) && spec.recurrent.scanNorms == ScanNorms::Weighted);
}
Presence ifLightning(const Spec&, const Layer& layer) { return requiredIf(layer.mixer == Mixer::Lightning); }
bool decays(const Layer& layer) { return layer.mixer == Mixer::DeltaRule || layer.hasStateSpace() || scans(layer); }
Presence ifDecays(const Spec&, const Layer& layer) { return requiredIf(decays(layer)); }
Presence ifLogarithms(const Spec& spec, const Layer& layer) {
  return requiredIf(decays(layer) && !spec.recurrent.negatedRates);
}
Presence ifNegatedRates(const Spec& spec, const Layer& layer) {
  return requiredIf(decays(layer) && spec.recurrent.negatedRates);
}
Presence ifGated(const Spec& spec, const Layer& layer) { return requiredIf(hasGate(spec, layer)); }
Presence ifGatedBias(const Spec& spec, const Layer& layer) { return optionalIf(hasGate(spec, layer)); }
Presence ifOneBlock(const Spec& spec, const Layer& layer) { return requiredIf(hasBlock(spec, layer)); }
Presence ifOneBlockBias(const Spec& spec, const Layer& layer) { return optionalIf(hasBlock(spec, layer)); }
Presence ifExperts(const Spec& spec, const Layer& layer) { return requiredIf(spec.hasExperts(layer)); }
Presence ifExpertsBias(const Spec& spec, const Layer& layer) { return optionalIf(spec.hasExperts(layer)); }
Presence ifGatedExperts(const Spec& spec, const Layer& layer) {
  return requiredIf(spec.hasExperts(layer) && spec.hasGates());
}
Presence ifGatedExpertsBias(const Spec& spec, const Layer& layer) {
  return optionalIf(spec.hasExperts(layer) && spec.hasGates());
}
Presence ifChoiceBias(const Spec& spec, const Layer& layer) {
  return requiredIf(spec.hasExperts(layer) && spec.router.choiceBias);
}
Presence ifSharedGate(const Spec& spec, const Layer& layer) {
  return requiredIf(spec.hasExperts(layer) && spec.sharedGate && spec.sharedSize != 0);
}
// Without a second norm both branches of a parallel layer read the first one.
Presence norm2(const Spec& spec, const Layer& layer) {
  if (!normsInputs(spec, layer) || layer.mixerOnly) return Presence::Unused;
  return spec.residual == Residual::Parallel ? Presence::Optional : Presence::Required;
}

WeightShape hidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, 1}; }
bool normsHeadsAlike(const Spec& spec) {
  return spec.qkNorm == QueryKeyNorm::Head || spec.qkNorm == QueryKeyNorm::Rotated;
}
WeightShape queryNorms(const Spec& spec, const Layer& layer) {
  return {normsHeadsAlike(spec) ? spec.headDimOf(layer) : spec.queryWidth(layer), 1};
}
WeightShape keyNorms(const Spec& spec, const Layer& layer) {
  return {normsHeadsAlike(spec) ? spec.headDimOf(layer) : spec.keyWidth(layer), 1};
}
// Of heads' queries as they are projected.
uint32_t projectedQueries(const Spec& spec, const Layer& layer) {
  return spec.latent.rank == 0 ? spec.queryWidth(layer) : spec.heads * (spec.latent.plain + spec.latent.rotated);
}
// Of those that attend.
WeightShape heads(const Spec& spec, const Layer& layer) {
  return {spec.attendsByRows() ? spec.rowHeads : spec.headsOf(layer), 1};
}
WeightShape queries(const Spec& spec, const Layer& layer) { return {projectedQueries(spec, layer), 1}; }
WeightShape keys(const Spec& spec, const Layer& layer) { return {spec.keyWidth(layer), 1}; }
WeightShape values(const Spec& spec, const Layer& layer) { return {spec.valueWidth(layer), 1}; }
WeightShape one(const Spec&, const Layer&) { return {1, 1}; }
WeightShape queryRank(const Spec& spec, const Layer&) { return {spec.latent.queryRank, 1}; }
WeightShape latentRank(const Spec& spec, const Layer&) { return {spec.latent.rank, 1}; }
WeightShape latentRow(const Spec& spec, const Layer&) { return {spec.headDim, 1}; }
WeightShape hiddenToQueryRank(const Spec& spec, const Layer&) { return {spec.latent.queryRank, spec.hiddenSize}; }
WeightShape hiddenToLatent(const Spec& spec, const Layer&) { return {spec.headDim, spec.hiddenSize}; }
WeightShape plainToLatent(const Spec& spec, const Layer&) { return {spec.heads * spec.latent.rank, spec.latent.plain}; }
WeightShape latentToValues(const Spec& spec, const Layer&) {
  return {spec.heads * spec.latent.value, spec.latent.rank};
}
WeightShape layerInput(const Spec& spec, const Layer&) { return {spec.layerInputSize, 1}; }
WeightShape vocabularyToInput(const Spec& spec, const Layer&) { return {spec.inputTokens(), spec.layerInputSize}; }
WeightShape streamRouter(const Spec& spec, const Layer&) { return {spec.streams.count * spec.hiddenSize, 1}; }
WeightShape streamCorrections(const Spec& spec, const Layer&) { return {spec.streams.count * spec.streams.count, 1}; }
WeightShape streamPredictions(const Spec& spec, const Layer&) {
  return {spec.streams.count * spec.streams.count * spec.streams.count, 1};
}
WeightShape hiddenToBypass(const Spec& spec, const Layer&) { return {spec.streams.bypassRank, spec.hiddenSize}; }
WeightShape bypassToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.streams.bypassRank}; }
WeightShape hiddenToInput(const Spec& spec, const Layer&) { return {spec.layerInputSize, spec.hiddenSize}; }
WeightShape inputToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.layerInputSize}; }
WeightShape inner(const Spec& spec, const Layer& layer) { return {spec.innerWidth(layer), 1}; }
WeightShape expertInner(const Spec& spec, const Layer&) { return {spec.feedForwardSize, 1}; }
WeightShape hiddenToOne(const Spec& spec, const Layer&) { return {1, spec.hiddenSize}; }
WeightShape experts(const Spec& spec, const Layer&) { return {spec.routedExperts(), 1}; }
WeightShape vocabulary(const Spec& spec, const Layer&) { return {spec.vocabularySize, 1}; }
WeightShape embedding(const Spec& spec, const Layer&) { return {spec.vocabularySize, spec.embeddingSize}; }
WeightShape types(const Spec& spec, const Layer&) { return {spec.tokenTypes, spec.embeddedWidth()}; }
WeightShape embedded(const Spec& spec, const Layer&) { return {spec.embeddedWidth(), 1}; }
WeightShape distances(const Spec& spec, const Layer&) { return {2 * spec.disentangled.span, spec.hiddenSize}; }
WeightShape bucketsByHead(const Spec& spec, const Layer&) { return {spec.relativeBuckets, spec.heads}; }
WeightShape positions(const Spec& spec, const Layer&) {
  return {spec.learnedOffset + spec.contextTokens, spec.embeddedWidth()};
}
WeightShape embeddingToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.embeddingSize}; }
WeightShape hiddenToEmbedding(const Spec& spec, const Layer&) { return {spec.embeddingSize, spec.hiddenSize}; }
WeightShape hiddenToQueries(const Spec& spec, const Layer& layer) {
  return {projectedQueries(spec, layer), spec.latent.queryRank == 0 ? spec.hiddenSize : spec.latent.queryRank};
}
WeightShape hiddenToGates(const Spec& spec, const Layer& layer) { return {spec.gateWidth(layer), spec.hiddenSize}; }
WeightShape hiddenToKeys(const Spec& spec, const Layer& layer) { return {spec.keyWidth(layer), spec.hiddenSize}; }
WeightShape hiddenToValues(const Spec& spec, const Layer& layer) { return {spec.valueWidth(layer), spec.hiddenSize}; }
WeightShape attendedToHidden(const Spec& spec, const Layer& layer) {
  return {spec.hiddenSize, spec.attendedWidth(layer)};
}
WeightShape hiddenToInner(const Spec& spec, const Layer& layer) { return {spec.innerWidth(layer), spec.hiddenSize}; }
WeightShape innerToHidden(const Spec& spec, const Layer& layer) { return {spec.hiddenSize, spec.innerWidth(layer)}; }
WeightShape hiddenToExpert(const Spec& spec, const Layer&) { return {spec.feedForwardSize, spec.hiddenSize}; }
WeightShape expertToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.feedForwardSize}; }
WeightShape hiddenToExperts(const Spec& spec, const Layer&) { return {spec.routedExperts(), spec.hiddenSize}; }
WeightShape hiddenToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.hiddenSize}; }
WeightShape hiddenToConvolution(const Spec& spec, const Layer&) { return {3 * spec.hiddenSize, spec.hiddenSize}; }
WeightShape convolution(const Spec& spec, const Layer&) { return {spec.recurrent.taps * spec.hiddenSize, 1}; }
WeightShape deltaConvolution(const Spec& spec, const Layer&) {
  return {spec.recurrent.taps * spec.convolvedWidth(Mixer::DeltaRule), 1};
}
WeightShape decayingHeads(const Spec& spec, const Layer& layer) {
  if (layer.mixer == Mixer::SelectiveScan) return {spec.recurrent.scanChannels, 1};
  return {layer.hasStateSpace() ? spec.recurrent.stateHeads : spec.recurrent.valueHeads, 1};
}
WeightShape decayBiases(const Spec& spec, const Layer& layer) {
  return layer.mixer == Mixer::DeltaRule ? WeightShape{spec.deltaDecays(), 1} : decayingHeads(spec, layer);
}
WeightShape decayRates(const Spec& spec, const Layer& layer) {
  const uint32_t each = layer.mixer == Mixer::SelectiveScan ? spec.recurrent.scanState : 1;
  return {decayingHeads(spec, layer).rows * each, 1};
}
WeightShape scanConvolution(const Spec& spec, const Layer&) {
  return {spec.recurrent.taps * spec.recurrent.scanChannels, 1};
}
WeightShape scanChannels(const Spec& spec, const Layer&) { return {spec.recurrent.scanChannels, 1}; }
WeightShape scanProjections(const Spec& spec, const Layer&) { return {2 * spec.recurrent.scanChannels, 1}; }
WeightShape scanRank(const Spec& spec, const Layer&) { return {spec.recurrent.scanRank, 1}; }
WeightShape scanState(const Spec& spec, const Layer&) { return {spec.recurrent.scanState, 1}; }
WeightShape hiddenToScan(const Spec& spec, const Layer&) { return {2 * spec.recurrent.scanChannels, spec.hiddenSize}; }
WeightShape channelsToScan(const Spec& spec, const Layer&) {
  return {spec.recurrent.scanRank + 2 * spec.recurrent.scanState, spec.recurrent.scanChannels};
}
WeightShape rankToChannels(const Spec& spec, const Layer&) {
  return {spec.recurrent.scanChannels, spec.recurrent.scanRank};
}
WeightShape channelsToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.recurrent.scanChannels}; }
WeightShape valueElements(const Spec& spec, const Layer&) { return {spec.recurrent.valueDim, 1}; }
WeightShape hiddenToDelta(const Spec& spec, const Layer&) {
  return {spec.convolvedWidth(Mixer::DeltaRule), spec.hiddenSize};
}
WeightShape hiddenToDeltaKeys(const Spec& spec, const Layer&) { return {spec.deltaKeys(), spec.hiddenSize}; }
WeightShape hiddenToDeltaValues(const Spec& spec, const Layer&) { return {spec.deltaValues(), spec.hiddenSize}; }
WeightShape hiddenToDeltaRank(const Spec& spec, const Layer&) { return {spec.recurrent.deltaRank, spec.hiddenSize}; }
uint32_t deltaInputs(const Spec& spec) {
  return spec.recurrent.deltaRank == 0 ? spec.hiddenSize : spec.recurrent.deltaRank;
}
WeightShape deltaGates(const Spec& spec, const Layer&) { return {spec.deltaValues(), deltaInputs(spec)}; }
WeightShape deltaDecays(const Spec& spec, const Layer&) { return {spec.deltaDecays(), deltaInputs(spec)}; }
WeightShape hiddenToValueHeads(const Spec& spec, const Layer&) { return {spec.recurrent.valueHeads, spec.hiddenSize}; }
WeightShape valuesToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.deltaValues()}; }
WeightShape stateConvolution(const Spec& spec, const Layer&) {
  return {spec.recurrent.taps * spec.convolvedWidth(Mixer::StateSpace), 1};
}
WeightShape stateConvolved(const Spec& spec, const Layer&) { return {spec.convolvedWidth(Mixer::StateSpace), 1}; }
WeightShape stateHeads(const Spec& spec, const Layer&) { return {spec.recurrent.stateHeads, 1}; }
WeightShape stateElements(const Spec& spec, const Layer&) { return {spec.stateValues(), 1}; }
uint32_t stateProjected(const Spec& spec) {
  return spec.convolvedWidth(Mixer::StateSpace) + spec.stateValues() + spec.recurrent.stateHeads;
}
WeightShape stateProjections(const Spec& spec, const Layer&) { return {stateProjected(spec), 1}; }
WeightShape hiddenToState(const Spec& spec, const Layer&) { return {stateProjected(spec), spec.hiddenSize}; }
WeightShape stateToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.stateValues()}; }

WeightShape lightningElements(const Spec& spec, const Layer&) { return {spec.lightningValues(), 1}; }
WeightShape hiddenToLightning(const Spec& spec, const Layer&) { return {3 * spec.lightningValues(), spec.hiddenSize}; }
WeightShape lightningGates(const Spec& spec, const Layer&) { return {spec.lightningValues(), spec.hiddenSize}; }
WeightShape lightningToHidden(const Spec& spec, const Layer&) { return {spec.hiddenSize, spec.lightningValues()}; }

}  // namespace

const std::vector<WeightRole<GlobalWeights>>& globalRoles() {
  using G = GlobalWeights;
  static const std::vector<WeightRole<G>> roles = {
      {"token_embedding", &G::tokenEmbedding, nullptr, tokenEmbedding, embedding},
      {"position_embedding", &G::positionEmbedding, nullptr, ifLearned, positions, true},
      {"type_embedding", &G::typeEmbedding, nullptr, ifTyped, types},
      {"embedding_norm.weight", nullptr, &G::embeddingNorm, ifEmbeddingNorm, embedded},
      {"embedding_norm.bias", nullptr, &G::embeddingNormBias, ifEmbeddingNormBias, embedded},
      {"relative_bias", &G::relativeBias, nullptr, ifRelative, bucketsByHead},
      {"distance_embedding", &G::distanceEmbedding, nullptr, ifDisentangled, distances},
      {"distance_norm.weight", nullptr, &G::distanceNorm, ifDistanceNorm, hidden},
      {"distance_norm.bias", nullptr, &G::distanceNormBias, ifDistanceNorm, hidden},
      {"embedding_projection", &G::embeddingProjection, nullptr, ifProjectedIn, embeddingToHidden},
      {"embedding_projection.bias", nullptr, &G::embeddingProjectionBias, ifProjectedInBias, hidden},
      {"stream_in.1", &G::streamIn1, nullptr, ifStreamIn<1>, hiddenToHidden},
      {"stream_in.2", &G::streamIn2, nullptr, ifStreamIn<2>, hiddenToHidden},
      {"stream_in.3", &G::streamIn3, nullptr, ifStreamIn<3>, hiddenToHidden},
      {"stream_out.1", &G::streamOut1, nullptr, ifStreamOut<1>, hiddenToHidden},
      {"stream_out.2", &G::streamOut2, nullptr, ifStreamOut<2>, hiddenToHidden},
      {"stream_out.3", &G::streamOut3, nullptr, ifStreamOut<3>, hiddenToHidden},
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
      {"norm2.bias", nullptr, &L::norm2Bias, ifSecondNormBias, hidden},
      {"post_norm1.weight", nullptr, &L::postNorm1, ifBranchNorms, hidden},
      {"post_norm2.weight", nullptr, &L::postNorm2, ifBlockNorm, hidden},
      {"q_down.weight", &L::qDown, nullptr, ifQueryRank, hiddenToQueryRank},
      {"q_down.bias", nullptr, &L::qDownBias, ifQueryRankBias, queryRank},
      {"q_down_norm.weight", nullptr, &L::qDownNorm, ifQueryRank, queryRank},
      {"q.weight", &L::q, nullptr, ifAttention, hiddenToQueries},
      {"q.bias", nullptr, &L::qBias, ifAttentionBias, queries},
      {"k.weight", &L::k, nullptr, ifKeys, hiddenToKeys},
      {"k.bias", nullptr, &L::kBias, ifKeysBias, keys},
      {"v.weight", &L::v, nullptr, ifValues, hiddenToValues},
      {"v.bias", nullptr, &L::vBias, ifValuesBias, values},
      {"q_distance.weight", &L::qDistance, nullptr, ifQueriesOfDistances, hiddenToKeys},
      {"q_distance.bias", nullptr, &L::qDistanceBias, ifQueriesOfDistancesBias, keys},
      {"k_distance.weight", &L::kDistance, nullptr, ifKeysOfDistances, hiddenToKeys},
      {"k_distance.bias", nullptr, &L::kDistanceBias, ifKeysOfDistancesBias, keys},
      {"latent.weight", &L::latent, nullptr, ifLatent, hiddenToLatent},
      {"latent.bias", nullptr, &L::latentBias, ifLatentBias, latentRow},
      {"latent_norm.weight", nullptr, &L::latentNorm, ifLatent, latentRank},
      {"k_up.weight", &L::kUp, nullptr, ifLatent, plainToLatent},
      {"v_up.weight", &L::vUp, nullptr, ifLatent, latentToValues},
      {"o.weight", &L::o, nullptr, ifAttention, attendedToHidden},
      {"o.bias", nullptr, &L::oBias, ifAttentionBias, hidden},
      {"q_norm.weight", nullptr, &L::qNorm, ifQueryNorm, queryNorms},
      {"q_norm.bias", nullptr, &L::qNormBias, ifQueryNormBias, queryNorms},
      {"k_norm.weight", nullptr, &L::kNorm, ifKeyNorm, keyNorms},
      {"k_norm.bias", nullptr, &L::kNormBias, ifKeyNormBias, keyNorms},
      {"q_gate.weight", &L::qGate, nullptr, ifAttentionGate, hiddenToGates},
      {"sinks", nullptr, &L::sinks, ifSinks, heads},
      {"conv.weight", nullptr, &L::conv, ifConvolved, convolution},
      {"conv.bias", nullptr, &L::convBias, ifConvolvedBias, hidden},
      {"conv_in.weight", &L::mix, nullptr, ifConvolved, hiddenToConvolution},
      {"conv_out.weight", &L::o, nullptr, ifConvolved, hiddenToHidden},
      {"delta_conv.weight", nullptr, &L::conv, ifDelta, deltaConvolution},
      {"decay.log", nullptr, &L::decay, ifLogarithms, decayRates},
      {"decay.negated", nullptr, &L::decay, ifNegatedRates, decayRates},
      {"decay.bias", nullptr, &L::decayBias, ifDecays, decayBiases},
      {"delta_norm.weight", nullptr, &L::mixNorm, ifDelta, valueElements},
      {"delta_in.weight", &L::mix, nullptr, ifDeltaJoined, hiddenToDelta},
      {"delta_q.weight", &L::q, nullptr, ifDeltaApart, hiddenToDeltaKeys},
      {"delta_k.weight", &L::k, nullptr, ifDeltaApart, hiddenToDeltaKeys},
      {"delta_v.weight", &L::v, nullptr, ifDeltaApart, hiddenToDeltaValues},
      {"delta_gate_in.weight", &L::mixGateIn, nullptr, ifDeltaRank, hiddenToDeltaRank},
      {"delta_gate.weight", &L::mixGate, nullptr, ifDelta, deltaGates},
      {"delta_beta.weight", &L::beta, nullptr, ifDelta, hiddenToValueHeads},
      {"delta_decay_in.weight", &L::alphaIn, nullptr, ifDeltaRank, hiddenToDeltaRank},
      {"delta_decay.weight", &L::alpha, nullptr, ifDelta, deltaDecays},
      {"delta_out.weight", &L::o, nullptr, ifDelta, valuesToHidden},
      {"state_conv.weight", nullptr, &L::conv, ifStateSpace, stateConvolution},
      {"state_conv.bias", nullptr, &L::convBias, ifStateSpaceBias, stateConvolved},
      {"state_skip", nullptr, &L::skip, ifStateSpace, stateHeads},
      {"state_norm.weight", nullptr, &L::mixNorm, ifStateNorm, stateElements},
      {"state_in.weight", &L::mix, nullptr, ifStateSpace, hiddenToState},
      {"state_in.bias", nullptr, &L::mixBias, ifStateSpaceBias, stateProjections},
      {"state_out.weight", &L::o, nullptr, ifStateAlone, stateToHidden},
      {"state_out.bias", nullptr, &L::oBias, ifStateAloneBias, hidden},
      {"beside_out.weight", &L::besideOut, nullptr, ifStateBeside, stateToHidden},
      {"beside_out.bias", nullptr, &L::besideOutBias, ifStateBesideBias, hidden},
      {"scan_conv.weight", nullptr, &L::conv, ifScan, scanConvolution},
      {"scan_conv.bias", nullptr, &L::convBias, ifScanBias, scanChannels},
      {"scan_skip", nullptr, &L::skip, ifScan, scanChannels},
      {"scan_in.weight", &L::mix, nullptr, ifScan, hiddenToScan},
      {"scan_in.bias", nullptr, &L::mixBias, ifScanBias, scanProjections},
      {"scan_parts.weight", &L::scanIn, nullptr, ifScan, channelsToScan},
      {"scan_step_norm.weight", nullptr, &L::stepNorm, ifScanNorm, scanRank},
      {"scan_written_norm.weight", nullptr, &L::writtenNorm, ifScanNorm, scanState},
      {"scan_read_norm.weight", nullptr, &L::readNorm, ifScanNorm, scanState},
      {"scan_step.weight", &L::scanStep, nullptr, ifScan, rankToChannels},
      {"scan_out.weight", &L::o, nullptr, ifScan, channelsToHidden},
      {"scan_out.bias", nullptr, &L::oBias, ifScanBias, hidden},
      {"lightning_in.weight", &L::mix, nullptr, ifLightning, hiddenToLightning},
      {"lightning_gate.weight", &L::mixGate, nullptr, ifLightning, lightningGates},
      {"lightning_norm.weight", nullptr, &L::mixNorm, ifLightning, lightningElements},
      {"lightning_out.weight", &L::o, nullptr, ifLightning, lightningToHidden},
      {"stream_norm.weight", nullptr, &L::streamNorm, ifStreams, hidden},
      {"stream_router", nullptr, &L::streamRouter, ifStreams, streamRouter},
      {"stream_predict", nullptr, &L::streamPredict, ifStreams, streamPredictions},
      {"stream_correct", nullptr, &L::streamCorrect, ifStreams, streamCorrections},
      {"stream_scale", nullptr, &L::streamScale, ifStreamScale, hidden},
      {"bypass_in.weight", &L::bypassIn, nullptr, ifStreams, hiddenToBypass},
      {"bypass_out.weight", &L::bypassOut, nullptr, ifStreams, bypassToHidden},
      {"bypass_norm.weight", nullptr, &L::bypassNorm, ifStreams, hidden},
      {"gate.weight", &L::gate, nullptr, ifGated, hiddenToInner},
      {"gate.bias", nullptr, &L::gateBias, ifGatedBias, inner},
      {"up.weight", &L::up, nullptr, ifOneBlock, hiddenToInner},
      {"up.bias", nullptr, &L::upBias, ifOneBlockBias, inner},
      {"down.weight", &L::down, nullptr, ifOneBlock, innerToHidden},
      {"down.bias", nullptr, &L::downBias, ifOneBlockBias, hidden},
      {"router.weight", &L::router, nullptr, ifExperts, hiddenToExperts},
      {"router.bias", nullptr, &L::routerBias, ifExpertsBias, experts},
      {"router.choice_bias", nullptr, &L::routerChoiceBias, ifChoiceBias, experts},
      {"shared_gate.weight", &L::sharedGate, nullptr, ifSharedGate, hiddenToOne},
      {"router_norm.weight", nullptr, &L::routerNorm, ifApart, hidden},
      {"experts_norm.weight", nullptr, &L::expertsNorm, ifApart, hidden},
      {"post_experts_norm.weight", nullptr, &L::postExpertsNorm, ifApart, hidden},
      {"post_block_norm.weight", nullptr, &L::postBlockNorm, ifApart, hidden},
      {"expert_scale", nullptr, &L::expertScale, ifExpertScale, experts},
      {"input_embedding", &L::inputEmbedding, nullptr, ifLayerInput, vocabularyToInput},
      {"input_projection.weight", &L::inputProjection, nullptr, ifLayerInput, hiddenToInput},
      {"input_norm.weight", nullptr, &L::inputNorm, ifLayerInput, layerInput},
      {"input_gate.weight", &L::inputGate, nullptr, ifLayerInput, hiddenToInput},
      {"input_out.weight", &L::inputOut, nullptr, ifLayerInput, inputToHidden},
      {"input_post_norm.weight", nullptr, &L::inputPostNorm, ifLayerInput, hidden},
      {"layer_scale", nullptr, &L::scale, ifLayerScale, one},
  };
  return roles;
}

const std::vector<WeightRole<ExpertWeights>>& expertRoles() {
  using E = ExpertWeights;
  static const std::vector<WeightRole<E>> roles = {
      {"gate.weight", &E::gate, nullptr, ifGatedExperts, hiddenToExpert},
      {"gate.bias", nullptr, &E::gateBias, ifGatedExpertsBias, expertInner},
      {"up.weight", &E::up, nullptr, ifExperts, hiddenToExpert},
      {"up.bias", nullptr, &E::upBias, ifExpertsBias, expertInner},
      {"down.weight", &E::down, nullptr, ifExperts, expertToHidden},
      {"down.bias", nullptr, &E::downBias, ifExpertsBias, hidden},
  };
  return roles;
}

}  // namespace spillway
