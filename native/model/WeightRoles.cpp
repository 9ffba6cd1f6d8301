#include "WeightRoles.h"

namespace spillway {

namespace {

constexpr Presence required = Presence::Required, optional = Presence::Optional;

Presence requiredIf(bool condition) { return condition ? required : Presence::Unused; }
Presence optionalIf(bool condition) { return condition ? optional : Presence::Unused; }

// Outputs of a matrix or elements of a vector.
struct Rows {
  Rows(uint32_t count, bool more = false) : count(count), more(more) {}
  uint32_t count;
  bool more;
};

Rows orMore(uint32_t count) { return {count, true}; }

template <typename Owner>
WeightRole<Owner> role(const char* name, StoredMatrix Owner::* matrix, Presence presence, Rows rows, uint32_t columns) {
  return {name, matrix, nullptr, presence, {rows.count, columns, rows.more}};
}
template <typename Owner>
WeightRole<Owner> role(const char* name, const float* Owner::* vector, Presence presence, uint32_t elements) {
  return {name, nullptr, vector, presence, {elements, 1}};
}

// What the table is written in: of a decoder and one of its layers.
struct Facts {
  Facts(const DecoderSpec& spec, const LayerSpec& layer) : spec(spec), layer(layer) {}

  std::vector<WeightRole<GlobalWeights>> globals() const {
    return {
#define SPILLWAY_GLOBAL_ROLE(name, member, ...) role(name, &GlobalWeights::member, __VA_ARGS__),
#include "WeightRoles.def"
    };
  }
  std::vector<WeightRole<LayerWeights>> ofLayer() const {
    return {
#define SPILLWAY_LAYER_ROLE(of, name, member, presence, ...) \
  role(name, &LayerWeights::member, (of) ? (presence) : Presence::Unused, __VA_ARGS__),
#include "WeightRoles.def"
    };
  }
  std::vector<WeightRole<ExpertWeights>> ofExpert() const {
    return {
#define SPILLWAY_EXPERT_ROLE(name, member, ...) role(name, &ExpertWeights::member, __VA_ARGS__),
#include "WeightRoles.def"
    };
  }

  bool mixes(Mixer mixer) const { return layer.mixer == mixer || (mixer == Mixer::StateSpace && layer.stateBeside); }

  const DecoderSpec& spec;
  const LayerSpec& layer;

  // --- Sizes, as src/model/architectures/roleSizes.ts has them.
  const RecurrentSpec& recurrent = spec.recurrent;
  const LatentSpec& latent = spec.latent;
  const StreamsSpec& streams = spec.streams;
  uint32_t hidden = spec.hiddenSize;
  uint32_t vocabulary = spec.vocabularySize;
  uint32_t embedding = spec.embeddingSize;
  uint32_t embedded = spec.embeddedWidth();
  uint32_t positions = spec.learnedOffset + spec.contextTokens;
  uint32_t tokenTypes = spec.tokenTypes;
  uint32_t buckets = spec.relativeBuckets;
  uint32_t span = spec.disentangled.span;
  uint32_t decoderHeads = spec.heads;
  uint32_t heads = spec.attendsByRows() ? spec.rowHeads : spec.headsOf(layer);  // those that attend
  uint32_t queries = latent.rank == 0 ? spec.queryWidth(layer) : spec.heads * (latent.plain + latent.rotated);
  uint32_t queryInputs = latent.queryRank == 0 ? hidden : latent.queryRank;
  uint32_t keys = spec.keyWidth(layer);
  uint32_t values = spec.valueWidth(layer);
  uint32_t attended = spec.attendedWidth(layer);
  bool alike = spec.qkNorm == QueryKeyNorm::Head || spec.qkNorm == QueryKeyNorm::Rotated;  // heads are normed
  uint32_t queryNorm = alike ? spec.headDimOf(layer) : spec.queryWidth(layer);
  uint32_t keyNorm = alike ? spec.headDimOf(layer) : keys;
  uint32_t gates = spec.gateWidth(layer);
  uint32_t deltaKeys = spec.deltaKeys();
  uint32_t deltaValues = spec.deltaValues();
  uint32_t deltaChannels = spec.convolvedWidth(Mixer::DeltaRule);
  uint32_t deltaDecays = spec.deltaDecays();
  uint32_t deltaInputs = recurrent.delta.byKey.rank == 0 ? hidden : recurrent.delta.byKey.rank;
  uint32_t stateValues = spec.stateValues();
  uint32_t stateConvolved = spec.convolvedWidth(Mixer::StateSpace);
  uint32_t stateProjected = stateConvolved + stateValues + recurrent.stateSpace.heads;
  uint32_t lightningValues = spec.lightningValues();
  uint32_t lruWidth = recurrent.lru.width();
  uint32_t rates = layer.mixer == Mixer::DeltaRule       ? recurrent.delta.valueHeads
                   : layer.mixer == Mixer::SelectiveScan ? recurrent.scan.channels * recurrent.scan.stateDim
                                                         : recurrent.stateSpace.heads;
  uint32_t decayBiases = layer.mixer == Mixer::DeltaRule       ? deltaDecays
                         : layer.mixer == Mixer::SelectiveScan ? recurrent.scan.channels
                                                               : recurrent.stateSpace.heads;
  uint32_t inner = spec.innerWidth(layer);
  uint32_t expertInner = spec.feedForwardSize;
  uint32_t routed = spec.routedExperts();
  uint32_t inputTokens = spec.inputTokens();
  uint32_t layerInputs = spec.layerInputSize;

  // --- Conditions.
  bool any = true;
  bool block = !layer.mixerOnly;
  bool forgets = mixes(Mixer::DeltaRule) || mixes(Mixer::StateSpace) || mixes(Mixer::SelectiveScan);
  bool embeds = spec.embeds();
  bool samples = spec.samples();
  bool headed = samples && spec.causal;
  bool layerNorms = spec.norm == NormKind::Layer;
  bool normsEmbeddings = embeds && spec.embeddingNorm && !spec.unweightedNorms;
  bool normsLast = samples && spec.finalNorm && !spec.unweightedNorms;
  bool normsInputs = spec.residualOf(layer) != Residual::Branch && !spec.unweightedNorms;  // by weights
  bool normsBranches = spec.residual == Residual::Sandwich || spec.residualOf(layer) == Residual::Branch;
  bool ownKeys = layer.ownKeys() && latent.rank == 0;
  bool ownValues = ownKeys && !layer.valuesAreKeys;
  bool normsHeads = spec.qkNorm != QueryKeyNorm::None && spec.qkNorm != QueryKeyNorm::Unit;
  bool centresHeads = spec.qkNorm == QueryKeyNorm::Layer;
  bool queryRanks = latent.rank != 0 && latent.queryRank != 0;
  bool distances = span != 0 && spec.disentangled.ownProducts;
  bool distanceQueries = distances && spec.disentangled.positionToContent;
  bool distanceKeys = distances && spec.disentangled.contentToPosition;
  bool gated = spec.hasGates();
  bool experts = spec.hasExperts(layer);
};

}  // namespace

std::vector<WeightRole<GlobalWeights>> globalRoles(const DecoderSpec& spec) {
  const LayerSpec none;
  return Facts(spec, none).globals();
}

std::vector<WeightRole<LayerWeights>> layerRoles(const DecoderSpec& spec, const LayerSpec& layer) {
  return Facts(spec, layer).ofLayer();
}

std::vector<WeightRole<ExpertWeights>> expertRoles(const DecoderSpec& spec, const LayerSpec& layer) {
  return Facts(spec, layer).ofExpert();
}

}  // namespace spillway
