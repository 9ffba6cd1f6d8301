#include "DecoderSpec.h"

#include <cmath>
#include <string>

#include "../kernels/cpu/CacheLayout.h"
#include "../system/Error.h"

namespace spillway {

namespace {

// Far above any model known, far below what overflows: a matrix has at most 2^24 x 2^22 elements.
constexpr uint32_t kMostLayers = 1u << 12;
constexpr uint32_t kMostTaps = 64;
constexpr uint32_t kMostStateDim = 1u << 12;
constexpr uint32_t kMostWidth = 1u << 22;
constexpr uint64_t kMostElements = uint64_t(1) << 28;  // of a state, or of a vector that is blocks of a matrix
constexpr uint32_t kMostHeads = 1u << 14;
constexpr uint32_t kMostVocabulary = 1u << 24;
constexpr uint32_t kMostContext = 1u << 24;  // positions are compared as floats
constexpr uint32_t kMostExperts = 1u << 12;
constexpr uint32_t kMostRotaryTables = 16;
constexpr uint32_t kMostShares = 64;
constexpr uint32_t kMostTokenTypes = 1u << 10;
constexpr uint32_t kMostBuckets = 1u << 12;
constexpr uint32_t kMostPooledLayers = 16;
constexpr uint32_t kMostSpan = 1u << 14;
constexpr uint32_t kMostDisentangledContext = 1u << 12;
// Tables of biases by distance hold twice as many numbers a head.
constexpr uint32_t kMostBiasedContext = 1u << 16;

[[noreturn]] void refuse(const std::string& field, const std::string& found, const std::string& expected) {
  throw Error(ErrorCode::InvalidArgument, "decoder." + field + ": found " + found + ", expected " + expected);
}

void checkCount(const char* field, uint32_t value, uint32_t most) {
  if (value < 1 || value > most) refuse(field, std::to_string(value), "1 to " + std::to_string(most));
}

void checkFinite(const std::string& field, float value) {
  if (!std::isfinite(value)) refuse(field, std::to_string(value), "a finite number");
}

void checkEpsilon(const std::string& field, float epsilon) {
  if (!(epsilon >= 0) || !std::isfinite(epsilon))
    refuse(field, std::to_string(epsilon), "a finite number of at least 0");
}

void checkCap(const char* field, float cap) {
  if (!(cap >= 0) || !std::isfinite(cap)) refuse(field, std::to_string(cap), "a finite number of at least 0");
}

void checkPosition(const DecoderSpec& spec) {
  switch (spec.position) {
    case PositionKind::Rotary:
      if (spec.rotaryDims < 2 || spec.rotaryDims % 2 != 0 || spec.rotaryDims > spec.headDim) {
        refuse("position.dims", std::to_string(spec.rotaryDims),
               "an even number from 2 to headDim " + std::to_string(spec.headDim));
      }
      if (spec.rotaryTables.empty() || spec.rotaryTables.size() > kMostRotaryTables) {
        refuse("position.tables", std::to_string(spec.rotaryTables.size()) + " tables",
               "1 to " + std::to_string(kMostRotaryTables));
      }
      for (size_t t = 0; t < spec.rotaryTables.size(); t++) {
        const std::string field = "position.tables[" + std::to_string(t) + "]";
        const RotaryTable& table = spec.rotaryTables[t];
        const bool several = spec.rotaryTables.size() > 1;  // layers may rotate several shares of their heads
        if (several ? table.frequencies.empty() || table.frequencies.size() > spec.rotaryDims / 2
                    : table.frequencies.size() != spec.rotaryDims / 2) {
          refuse(field + ".frequencies", std::to_string(table.frequencies.size()) + " numbers",
                 std::to_string(spec.rotaryDims / 2) + ", half of dims");
        }
        for (float frequency : table.frequencies) checkFinite(field + ".frequencies", frequency);
        checkFinite(field + ".scale", table.scale);
      }
      return;
    case PositionKind::Learned:
      if (spec.learnedOffset > kMostContext)
        refuse("position.offset", std::to_string(spec.learnedOffset), "at most " + std::to_string(kMostContext));
      return;
    case PositionKind::None: return;
    case PositionKind::Alibi:
      if (const uint32_t heads = spec.attendsByRows() ? spec.rowHeads : spec.heads; spec.alibiSlopes.size() != heads) {
        refuse("position.slopes", std::to_string(spec.alibiSlopes.size()) + " numbers",
               std::to_string(heads) + ", one a head");
      }
      for (float slope : spec.alibiSlopes) checkFinite("position.slopes", slope);
      return;
  }
}

void checkRows(const DecoderSpec& spec) {
  if (!spec.attendsByRows() && spec.rowKvHeads == 0) return;
  if (spec.shares == 1) refuse("share.attention", "one of a whole layer", "none but of a share");
  checkCount("share.attention.heads", spec.rowHeads, kMostHeads);
  checkCount("share.attention.kvHeads", spec.rowKvHeads, spec.rowHeads);
  if (spec.rowHeads % spec.rowKvHeads != 0)
    refuse("share.attention.heads", std::to_string(spec.rowHeads),
           "a multiple of kvHeads " + std::to_string(spec.rowKvHeads));
  if (spec.heads > spec.rowHeads || spec.kvHeads > spec.rowKvHeads)
    refuse("share.attention.heads", std::to_string(spec.rowHeads),
           "at least the share's " + std::to_string(spec.heads));
  if (uint64_t(spec.rowHeads) * spec.headDim > kMostWidth)
    refuse("share.attention.heads x headDim", std::to_string(uint64_t(spec.rowHeads) * spec.headDim),
           "at most " + std::to_string(kMostWidth));
  const bool plain = std::all_of(spec.layerSpecs.begin(), spec.layerSpecs.end(), [](const LayerSpec& layer) {
    return layer.mixer == Mixer::Attention && layer.ownKeys() && !layer.stateBeside && layer.headDim == 0 &&
           layer.kvHeads == 0 && layer.heads == 0;
  });
  if (!plain || !spec.causal || spec.valueDim != 0 || spec.attentionGate || spec.latent.rank != 0 ||
      spec.attentionOutput != 1)
    refuse("share.attention", "one by rows", "none beside gates, encoders, and layers of other mixers or heads");
}

void checkDisentangled(const DecoderSpec& spec) {
  const DisentangledSpec& each = spec.disentangled;
  if (each.span == 0) return;
  if (each.span > kMostSpan)
    refuse("attention.disentangled.span", std::to_string(each.span), "at most " + std::to_string(kMostSpan));
  if (each.distance != 0 && (each.span < 4 || each.distance <= each.span / 2 + 1 || each.distance > kMostContext))
    refuse("attention.disentangled.distance", std::to_string(each.distance),
           "more than half of the span, at most " + std::to_string(kMostContext));
  if (spec.causal || spec.attentionSoftCap != 0 || spec.relativeBuckets != 0 || spec.alibiSymmetric ||
      spec.position == PositionKind::Rotary || spec.kvHeads != spec.heads)
    refuse("attention.disentangled", "one", "none of a decoder, beside other positions of scores, caps or shared keys");
  // The biases of a row stand in memory while its layer is computed.
  if (spec.contextTokens > kMostDisentangledContext)
    refuse("contextTokens", std::to_string(spec.contextTokens),
           "at most " + std::to_string(kMostDisentangledContext) + " where attention is disentangled");
}

// What encoders alone have, and what they cannot have.
void checkEncoder(const DecoderSpec& spec) {
  if (spec.causal) {
    if (spec.relativeBuckets != 0 || spec.alibiSymmetric || spec.tokenTypes != 0 || spec.embeddingFactorised)
      refuse("attention.causal", "true beside what encoders alone have", "false");
  } else {
    if (spec.hasPeers()) refuse("attention.causal", "false beside part or share", "an encoder as a whole");
    if (spec.remembers() || spec.attentionGate)
      refuse("attention.causal", "false beside layers that remember a state or gate attention", "true");
    if (spec.attentionSinks) refuse("attention.sinks", "some", "none of an encoder");
    if (spec.alibiRoundToBfloat16) refuse("position.roundToBfloat16", "true", "false of an encoder");
  }
  if (spec.tokenTypes > kMostTokenTypes)
    refuse("embedding.tokenTypes", std::to_string(spec.tokenTypes), "at most " + std::to_string(kMostTokenTypes));
  if (spec.relativeBuckets != 0) {
    if (spec.relativeBuckets % 4 != 0 || spec.relativeBuckets > kMostBuckets)
      refuse("attention.relativeBias.buckets", std::to_string(spec.relativeBuckets),
             "a multiple of 4 up to " + std::to_string(kMostBuckets));
    if (spec.relativeDistance <= spec.relativeBuckets / 4 || spec.relativeDistance > kMostContext)
      refuse("attention.relativeBias.distance", std::to_string(spec.relativeDistance),
             "more than a quarter of the buckets, at most " + std::to_string(kMostContext));
    if (spec.position == PositionKind::Alibi)
      refuse("attention.relativeBias", "one", "none beside the slopes of ALiBi");
  }
  checkDisentangled(spec);
  const bool biased = spec.relativeBuckets != 0 || spec.alibiSymmetric;
  if (biased && spec.attentionSoftCap != 0)
    refuse("attention.softCap", std::to_string(spec.attentionSoftCap), "none beside biases by distance");
  if (biased && uint64_t(spec.contextTokens) * spec.heads > uint64_t(kMostBiasedContext) * 64)
    refuse("contextTokens", std::to_string(spec.contextTokens), "fewer, where scores have biases by distance");
  if (!spec.pooledLayers.empty() && spec.hasPeers())
    refuse("pooled", "some beside part or share", "none: these belong to a model as a whole");
  if (spec.pooledLayers.size() > kMostPooledLayers)
    refuse("pooled", std::to_string(spec.pooledLayers.size()) + " layers",
           "at most " + std::to_string(kMostPooledLayers));
  uint32_t width = spec.hiddenSize;
  for (size_t l = 0; l < spec.pooledLayers.size(); l++) {
    const PooledLayer& layer = spec.pooledLayers[l];
    const std::string field = "pooled[" + std::to_string(l) + "]";
    checkCount((field + ".outputs").c_str(), layer.outputs, kMostWidth);
    if (layer.norm && layer.outputs != width)
      refuse(field + ".outputs", std::to_string(layer.outputs), std::to_string(width) + ", what it norms");
    if (layer.norm) checkEpsilon(field + ".epsilon", layer.epsilon);
    width = layer.outputs;
  }
}

void checkEviction(const DecoderSpec& spec) {
  if (spec.evictionWindow == 0) return;
  if (spec.evictionWindow > kMostContext || spec.evictionSinks > kMostContext)
    refuse("attention.eviction", "more than any context has", "at most " + std::to_string(kMostContext) + " each");
  if (!spec.causal || spec.position == PositionKind::Alibi)
    refuse("attention.eviction", "one", "none of an encoder, and none beside the slopes of ALiBi");
}

void checkRouter(const DecoderSpec& spec) {
  const RouterSpec& router = spec.router;
  const std::string field = "feedForward.experts.router.";
  checkFinite(field + "scale", router.scale);
  checkEpsilon(field + "epsilon", router.epsilon);
  if (router.groups < 1 || router.groups > RouterSpec::kMostGroups || router.groups > spec.experts ||
      spec.experts % router.groups != 0 || (router.groups > 1 && spec.identityExperts != 0))
    refuse(field + "groups.count", std::to_string(router.groups),
           "a divisor of the " + std::to_string(spec.experts) + " experts, at most " +
               std::to_string(RouterSpec::kMostGroups));
  if (router.groupsPerToken < 1 || router.groupsPerToken > router.groups ||
      spec.routedExperts() / router.groups * router.groupsPerToken < spec.expertsPerToken)
    refuse(field + "groups.perToken", std::to_string(router.groupsPerToken),
           "1 to " + std::to_string(router.groups) + ", with experts enough for a token");
}

// Experts in every second layer, of which the next one adds what they gave.
void checkAside(const DecoderSpec& spec) {
  bool inTurn = spec.layerSpecs.size() % 2 == 0;
  for (size_t layer = 0; layer < spec.layerSpecs.size(); layer++)
    inTurn = inTurn && spec.hasExperts(spec.layerSpecs[layer]) == (layer % 2 == 0);
  if (!inTurn || spec.residual != Residual::Pre || spec.residualScale != 1 || spec.streams.count > 1 ||
      spec.router.apart || spec.sharedSize == 0 || spec.hasPeers())
    refuse("feedForward.experts.aside", "true",
           "false, or a decoder as a whole, norms before both branches, a block beside experts, and experts in every "
           "second layer");
}

void checkStateSpace(const DecoderSpec& spec) {
  if (!spec.has(Mixer::StateSpace)) return;
  const StateSpaceSpec& space = spec.recurrent.stateSpace;
  checkCount("recurrent.stateSpace.heads", space.heads, kMostHeads);
  checkCount("recurrent.stateSpace.headDim", space.headDim, kMostStateDim);
  checkCount("recurrent.stateSpace.stateDim", space.stateDim, kMostStateDim);
  checkCount("recurrent.stateSpace.groups", space.groups, space.heads);
  if (space.heads % space.groups != 0)
    refuse("recurrent.stateSpace.groups", std::to_string(space.groups),
           "a divisor of the " + std::to_string(space.heads) + " heads");
  for (const uint64_t width : {uint64_t(space.heads) * space.headDim, uint64_t(space.groups) * space.stateDim})
    if (width > kMostWidth)
      refuse("recurrent.stateSpace", std::to_string(width) + " elements", "at most " + std::to_string(kMostWidth));
  if (!(space.leastTimeStep >= 0) || !(space.mostTimeStep >= space.leastTimeStep))
    refuse("recurrent.stateSpace.timeStep",
           std::to_string(space.leastTimeStep) + " to " + std::to_string(space.mostTimeStep),
           "a range of numbers of at least 0");
}

void checkSelectiveScan(const DecoderSpec& spec) {
  if (!spec.has(Mixer::SelectiveScan)) return;
  const ScanSpec& scan = spec.recurrent.scan;
  checkCount("recurrent.scan.channels", scan.channels, kMostWidth);
  checkCount("recurrent.scan.stateDim", scan.stateDim, kMostStateDim);
  checkCount("recurrent.scan.rank", scan.rank, kMostWidth);
  if (uint64_t(scan.channels) * scan.stateDim > kMostElements)
    refuse("recurrent.scan", std::to_string(uint64_t(scan.channels) * scan.stateDim) + " elements",
           "at most " + std::to_string(kMostElements));
  checkEpsilon("recurrent.scan.norms.epsilon", scan.norms.epsilon);
}

void checkLightning(const DecoderSpec& spec) {
  if (!spec.has(Mixer::LightningAttention)) return;
  const LightningSpec& lightning = spec.recurrent.lightning;
  checkCount("recurrent.lightning.heads", lightning.heads, kMostHeads);
  checkCount("recurrent.lightning.headDim", lightning.headDim, kMaxHeadDim);
  if (uint64_t(lightning.heads) * lightning.headDim > kMostWidth)
    refuse("recurrent.lightning", std::to_string(spec.lightningValues()) + " elements",
           "at most " + std::to_string(kMostWidth));
  checkEpsilon("recurrent.lightning.epsilon", lightning.epsilon);
}

void checkRgLru(const DecoderSpec& spec) {
  if (!spec.has(Mixer::RgLru)) return;
  const LruSpec& lru = spec.recurrent.lru;
  checkCount("recurrent.lru.blocks", lru.blocks, kMostHeads);
  checkCount("recurrent.lru.blockDim", lru.blockDim, kMostWidth);
  const uint64_t width = uint64_t(lru.blocks) * lru.blockDim;
  if (width > kMostWidth || width * lru.blockDim > kMostElements)
    refuse("recurrent.lru", std::to_string(lru.blocks) + " blocks of " + std::to_string(lru.blockDim) + " channels",
           "at most " + std::to_string(kMostWidth) + " together, and " + std::to_string(kMostElements) +
               " weights of a gate");
  if (spec.activation == Activation::ClampedSwiglu || spec.activation == Activation::Xielu)
    refuse("feedForward.activation", "one of blocks alone", "another one beside an RG-LRU");
}

// How a layer forgets, and how it adds its branches.
void checkSums(const DecoderSpec& spec, const LayerSpec& layer, const std::string& field) {
  const uint32_t heads = spec.recurrent.lightning.heads;
  if (layer.mixer == Mixer::LightningAttention && layer.decays.size() != heads)
    refuse(field + ".decays", std::to_string(layer.decays.size()) + " numbers", std::to_string(heads) + ", one a head");
  for (const float decay : layer.decays)
    if (!(decay >= 0 && decay <= 1)) refuse(field + ".decays", std::to_string(decay), "numbers from 0 to 1");
  for (const BranchSum& sum : {layer.mixerSum, layer.blockSum}) {
    checkFinite(field + ".sums", sum.kept);
    checkFinite(field + ".sums", sum.added);
    if (!sum.plain() && (spec.residual != Residual::Post || spec.shares > 1))
      refuse(field + ".sums", "some", "none but of norms after branches, which are whole");
  }
}

void checkStateBeside(const DecoderSpec& spec) {
  const StateSpaceScales& scales = spec.recurrent.stateSpace.scales;
  for (const float scale : {spec.attentionOutput, spec.gateScale, spec.innerScale, spec.sharedScale, scales.gate,
                            scales.values, scales.written, scales.read, scales.step, scales.output})
    checkFinite("scales", scale);
  if (spec.gateScale != 1 && (spec.feedForward != FeedForwardKind::Gated))
    refuse("feedForward.gateScale", std::to_string(spec.gateScale), "1 where there are experts or no gates");
  if (spec.innerScale != 1 && spec.feedForward == FeedForwardKind::Experts)
    refuse("feedForward.innerScale", std::to_string(spec.innerScale), "1 where there are experts");
  if (!spec.hasStateBeside()) return;
  if (spec.residual != Residual::Pre || spec.residualScale != 1 || spec.feedForward == FeedForwardKind::Experts ||
      spec.attentionGate || spec.latent.rank != 0 || !spec.causal ||
      std::any_of(spec.layerSpecs.begin(), spec.layerSpecs.end(), [](const LayerSpec& layer) {
        return layer.stateBeside && (layer.mixer != Mixer::Attention || layer.mixerOnly || !layer.ownKeys());
      }))
    refuse("layerSpecs", "a state space beside attention",
           "none beside other mixers, gates, latent rows, experts, norms after branches and encoders");
}

// Streams are predicted and corrected round a layer of which the parts are as Gemma 3n has them.
void checkStreams(const DecoderSpec& spec) {
  const StreamsSpec& streams = spec.streams;
  checkCount("streams.count", streams.count, StreamsSpec::kMost);
  if (streams.count == 1) return;
  checkCount("streams.bypassRank", streams.bypassRank, kMostWidth);
  if (spec.residual != Residual::Sandwich || spec.norm != NormKind::Rms || spec.layerInputSize == 0 ||
      spec.layerScale || spec.remembers() || spec.router.apart || spec.residualScale != 1)
    refuse("streams", std::to_string(streams.count), "1, or norms round both branches and inputs of layers");
}

void checkLatent(const DecoderSpec& spec) {
  const LatentSpec& latent = spec.latent;
  if (latent.rank == 0) return;
  checkCount("attention.latent.rank", latent.rank, kMaxLatentDim);
  checkCount("attention.latent.rotated", latent.rotated, kMaxLatentDim);
  checkCount("attention.latent.plain", latent.plain, kMaxHeadDim);
  checkCount("attention.latent.value", latent.value, kMaxHeadDim);
  if (latent.queryRank > kMostWidth)
    refuse("attention.latent.queryRank", std::to_string(latent.queryRank), "at most " + std::to_string(kMostWidth));
  checkEpsilon("attention.latent.epsilon", latent.epsilon);
  checkFinite("attention.latent.scale", latent.scale);
  if (latent.rank % 16 != 0 || latent.value % 16 != 0)
    refuse("attention.latent", "rank " + std::to_string(latent.rank) + ", value " + std::to_string(latent.value),
           "multiples of 16");
  if (spec.headDim != latent.rank + latent.rotated || spec.kvHeads != 1 || spec.rotaryDims != latent.rotated ||
      spec.position != PositionKind::Rotary)
    refuse("attention.latent", "heads of " + std::to_string(spec.headDim), "one head of rank and rotated elements");
  if (spec.shares > 1 || !spec.causal || (spec.attentionGate && !spec.gatesHeads) ||
      spec.qkNorm != QueryKeyNorm::None || spec.valueNorm)
    refuse("attention.latent", "one beside shares, gates of elements or norms of heads", "none of these");
  const bool plainLayers = std::all_of(spec.layerSpecs.begin(), spec.layerSpecs.end(), [](const LayerSpec& layer) {
    return layer.mixer != Mixer::Attention || (layer.ownKeys() && layer.headDim == 0 && layer.heads == 0 &&
                                               layer.kvHeads == 0 && !layer.valuesAreKeys && !layer.branched);
  });
  if (!plainLayers) refuse("attention.latent", "layers of other attention", "none beside latent ones");
}

// Values that are shorter than keys stand at the beginning of rows of the cache.
void checkValueDim(const DecoderSpec& spec) {
  if (spec.valueDim == 0) return;
  const bool plainValues = std::all_of(spec.layerSpecs.begin(), spec.layerSpecs.end(), [](const LayerSpec& layer) {
    return !layer.valuesAreKeys && !layer.stateBeside;
  });
  if (spec.shares > 1 || !spec.causal || spec.attentionGate || spec.valueNorm || spec.latent.rank != 0 || !plainValues)
    refuse("attention.valueDim", std::to_string(spec.valueDim),
           "none beside shares, gates, norms of values, latent rows, values that are keys and encoders");
}

void checkLayerAttention(const DecoderSpec& spec, size_t index, const std::string& field) {
  const LayerSpec& layer = spec.layerSpecs[index];
  if (layer.headDim > spec.headDim)
    refuse(field + ".headDim", std::to_string(layer.headDim), "at most the decoder's " + std::to_string(spec.headDim));
  if (layer.heads > spec.heads)
    refuse(field + ".heads", std::to_string(layer.heads), "at most the decoder's " + std::to_string(spec.heads));
  if (layer.kvHeads > spec.headsOf(layer) || spec.headsOf(layer) % spec.kvHeadsOf(layer) != 0)
    refuse(field + ".kvHeads", std::to_string(layer.kvHeads),
           "a divisor of the " + std::to_string(spec.headsOf(layer)) + " heads");
  if (spec.valueDim > spec.headDimOf(layer))
    refuse("attention.valueDim", std::to_string(spec.valueDim),
           "at most a head's " + std::to_string(spec.headDimOf(layer)) + " elements");
  if (layer.innerSize > kMostWidth)
    refuse(field + ".innerSize", std::to_string(layer.innerSize), "at most " + std::to_string(kMostWidth));
  if (layer.scalesQueries && spec.queryScale.period == 0)
    refuse(field + ".scalesQueries", "true", "false, or attention.queryScale");
  if (layer.keysOf != LayerSpec::kOwnKeys) {
    const bool there = layer.keysOf < index && spec.layerSpecs[layer.keysOf].ownKeys();
    if (!there || layer.mixer != Mixer::Attention || spec.hasPeers())
      refuse(field + ".keysOf", std::to_string(layer.keysOf), "a layer before it that has keys, all of them here");
    const LayerSpec& other = spec.layerSpecs[layer.keysOf];
    if (spec.headDimOf(other) != spec.headDimOf(layer) || spec.kvHeadsOf(other) != spec.kvHeadsOf(layer) ||
        other.window != layer.window)
      refuse(field + ".keysOf", std::to_string(layer.keysOf), "a layer with heads and a window like its own");
  }
  const bool special = layer.mixerOnly || layer.headDim != 0 || layer.kvHeads != 0 || layer.heads != 0 ||
                       layer.keysOf != LayerSpec::kOwnKeys || layer.valuesAreKeys || layer.innerSize != 0;
  if (special && (spec.shares > 1 || !spec.causal))
    refuse(field, "heads of its own", "none beside shares and encoders");
  if (spec.position == PositionKind::Rotary && layer.rotaryTable < spec.rotaryTables.size() && spec.latent.rank == 0 &&
      2 * spec.rotaryTables[layer.rotaryTable].frequencies.size() > spec.headDimOf(layer))
    refuse(field + ".rotaryTable", std::to_string(layer.rotaryTable), "a table for heads of its size");
}

}  // namespace

uint32_t DecoderSpec::convolvedWidth(Mixer mixer) const {
  switch (mixer) {
    case Mixer::DeltaRule: return 2 * deltaKeys() + deltaValues();
    case Mixer::StateSpace: return stateValues() + 2 * recurrent.stateSpace.groups * recurrent.stateSpace.stateDim;
    case Mixer::SelectiveScan: return recurrent.scan.channels;
    case Mixer::RgLru: return recurrent.lru.width();
    default: return hiddenSize;
  }
}

bool DecoderSpec::needsProcessor() const {
  return remembers() || streams.count > 1 || attentionOutput != 1 || gateScale != 1 || innerScale != 1 ||
         attentionGate || latent.rank != 0 || valueNorm || valueDim != 0 || queryScale.period != 0 ||
         qkNorm == QueryKeyNorm::Unit || layerInputSize != 0 || layerScale || router.apart || router.weighsInputs ||
         router.expertScale || router.choosesByLogits || sharedScale != 1 || router.score == RouterScore::SparseMixer ||
         gatelessExperts || identityExperts != 0 || expertsAside || unweightedNorms || attentionClip != 0 ||
         activation == Activation::Xielu || disentangled.span != 0 || embeddingFactorised ||
         std::any_of(layerSpecs.begin(), layerSpecs.end(), [](const LayerSpec& layer) {
           return layer.headDim != 0 || layer.kvHeads != 0 || layer.heads != 0 || layer.keysOf != LayerSpec::kOwnKeys ||
                  layer.valuesAreKeys || layer.innerSize != 0 || layer.mixerOnly || layer.gateDeviations != 0 ||
                  isChunked(layer.window) || !layer.mixerSum.plain() || !layer.blockSum.plain();
         });
}

DecoderSpec DecoderSpec::attending() const {
  DecoderSpec spec = *this;
  spec.heads = rowHeads;
  spec.kvHeads = rowKvHeads;
  spec.rowHeads = spec.rowKvHeads = 0;
  spec.share = 0;
  spec.shares = 1;
  spec.hiddenSize = 0;
  spec.rotaryTables.clear();
  return spec;
}

uint32_t DecoderSpec::mixedWidth() const {
  uint32_t width = attentionGate ? gatesHeads ? heads : queryWidth() : 0;
  if (has(Mixer::ShortConvolution)) width = std::max(width, 3 * hiddenSize);
  if (has(Mixer::DeltaRule))
    width =
        std::max(width, convolvedWidth(Mixer::DeltaRule) + deltaValues() + recurrent.delta.valueHeads + deltaDecays());
  if (has(Mixer::StateSpace))
    width = std::max(width, convolvedWidth(Mixer::StateSpace) + stateValues() + recurrent.stateSpace.heads);
  if (has(Mixer::SelectiveScan))
    width = std::max(width, 3 * recurrent.scan.channels + recurrent.scan.rank + 2 * recurrent.scan.stateDim);
  if (has(Mixer::LightningAttention)) width = std::max(width, 4 * lightningValues());
  if (has(Mixer::RgLru)) width = std::max(width, 4 * recurrent.lru.width());
  return width;
}

uint32_t DecoderSpec::outputWidth() const {
  uint32_t width = queryWidth();
  if (has(Mixer::ShortConvolution)) width = std::max(width, hiddenSize);
  if (has(Mixer::DeltaRule)) width = std::max(width, deltaValues());
  if (has(Mixer::StateSpace)) width = std::max(width, stateValues());
  if (has(Mixer::SelectiveScan)) width = std::max(width, recurrent.scan.channels);
  if (has(Mixer::LightningAttention)) width = std::max(width, lightningValues());
  if (has(Mixer::RgLru)) width = std::max(width, recurrent.lru.width());
  return hasStateBeside() ? queryWidth() + std::max(width, stateValues()) : width;
}

size_t DecoderSpec::stateFloats(const LayerSpec& layer) const {
  const Mixer mixer = layer.stateBeside ? Mixer::StateSpace : layer.mixer;
  if (mixer == Mixer::Attention) return 0;
  const size_t last = size_t(recurrent.taps - 1) * convolvedWidth(mixer);
  switch (mixer) {
    case Mixer::DeltaRule: return last + size_t(deltaValues()) * recurrent.delta.keyDim;
    case Mixer::StateSpace: return last + size_t(stateValues()) * recurrent.stateSpace.stateDim;
    case Mixer::SelectiveScan: return last + size_t(recurrent.scan.channels) * recurrent.scan.stateDim;
    case Mixer::LightningAttention: return size_t(lightningValues()) * recurrent.lightning.headDim;
    case Mixer::RgLru: return last + recurrent.lru.width();
    default: return last;
  }
}

void validate(const DecoderSpec& spec) {
  checkCount("layers", spec.layers, kMostLayers);
  if (spec.modelLayers != 0) checkCount("part.modelLayers", spec.modelLayers, kMostLayers);
  const uint32_t modelLayers = spec.modelLayers == 0 ? spec.layers : spec.modelLayers;
  if (spec.layers > modelLayers || spec.firstLayer > modelLayers - spec.layers) {
    refuse(
        "part.firstLayer", std::to_string(spec.firstLayer),
        "one of which on the model's " + std::to_string(modelLayers) + " layers hold " + std::to_string(spec.layers));
  }
  checkCount("share.of", spec.shares, kMostShares);
  if (spec.share >= spec.shares)
    refuse("share.index", std::to_string(spec.share), "an index under " + std::to_string(spec.shares));
  if (spec.shares > 1 && spec.modelLayers != 0) refuse("share", "one beside part", "one of them");
  checkRows(spec);
  checkCount("hiddenSize", spec.hiddenSize, kMostWidth);
  checkCount("vocabularySize", spec.vocabularySize, kMostVocabulary);
  checkCount("contextTokens", spec.contextTokens, kMostContext);
  checkCount("heads", spec.heads, kMostHeads);
  checkCount("kvHeads", spec.kvHeads, spec.heads);
  checkCount("headDim", spec.headDim, spec.latent.rank == 0 ? kMaxHeadDim : kMaxLatentDim);
  checkCount("feedForwardSize", spec.feedForwardSize, kMostWidth);
  checkCount("embedding.size", spec.embeddingSize, kMostWidth);
  if (spec.heads % spec.kvHeads != 0)
    refuse("heads", std::to_string(spec.heads), "a multiple of kvHeads " + std::to_string(spec.kvHeads));
  if (uint64_t(spec.heads) * spec.headDim > kMostWidth) {
    refuse("heads x headDim", std::to_string(uint64_t(spec.heads) * spec.headDim),
           "at most " + std::to_string(kMostWidth));
  }
  checkEpsilon("norm.epsilon", spec.normEpsilon);
  checkFinite("embedding.scale", spec.embeddingScale);
  checkFinite("attention.scale", spec.attentionScale);
  checkFinite("residualScale", spec.residualScale);
  checkFinite("logitScale", spec.logitScale);
  checkCap("attention.softCap", spec.attentionSoftCap);
  if (spec.attentionSoftCap != 0 && spec.position == PositionKind::Alibi)
    refuse("attention.softCap", std::to_string(spec.attentionSoftCap), "none beside the slopes of ALiBi");
  checkCap("logitSoftCap", spec.logitSoftCap);
  checkCap("attention.clip", spec.attentionClip);
  checkPosition(spec);
  checkEncoder(spec);
  checkEviction(spec);
  checkLatent(spec);
  checkValueDim(spec);
  checkFinite("attention.queryScale.factor", spec.queryScale.factor);
  if (spec.queryScale.period > kMostContext || spec.queryScale.first > 1)
    refuse("attention.queryScale", std::to_string(spec.queryScale.period),
           "a period of at most " + std::to_string(kMostContext) + ", counted from 0 or 1");
  if (spec.layerInputSize != 0 || spec.layerScale) {
    if (spec.layerInputSize > kMostWidth)
      refuse("layerInputs", std::to_string(spec.layerInputSize), "at most " + std::to_string(kMostWidth));
    if (spec.hasPeers() || !spec.causal || spec.norm != NormKind::Rms || spec.embeddingSize != spec.hiddenSize)
      refuse("layerInputs", "some beside part or share", "a decoder as a whole, with RMS norms");
  }

  if (spec.activation == Activation::ClampedSwiglu && spec.feedForward == FeedForwardKind::Plain)
    refuse("feedForward.activation", "clamped-swiglu", "another one where there is no gate");
  if (spec.activation == Activation::Xielu && spec.feedForward != FeedForwardKind::Plain)
    refuse("feedForward.activation", "xielu", "another one where there is a gate");
  if (spec.feedForward == FeedForwardKind::Experts) {
    checkCount("feedForward.experts.count", spec.experts, kMostExperts);
    if (spec.identityExperts > kMostExperts || (spec.identityExperts != 0 && spec.router.apart))
      refuse("feedForward.experts.identities", std::to_string(spec.identityExperts),
             "at most " + std::to_string(kMostExperts) + ", and none apart from a block");
    if (spec.expertsAside) checkAside(spec);
    checkCount("feedForward.experts.perToken", spec.expertsPerToken, spec.routedExperts());
    checkRouter(spec);
    checkFinite("feedForward.experts.router.jitter", spec.router.jitter);
    if (spec.gatelessExperts && spec.activation == Activation::ClampedSwiglu)
      refuse("feedForward.experts.gateless", "true", "false with clamped-swiglu");
    checkFinite("feedForward.experts.router.logitScale", spec.router.logitScale);
    if (spec.router.apart && (spec.residual != Residual::Sandwich || spec.sharedSize == 0 || spec.shares > 1))
      refuse("feedForward.experts.apart", "true", "false, or norms round both branches and a shared block");
    if (spec.sharedSize > kMostWidth)
      refuse("feedForward.experts.shared.size", std::to_string(spec.sharedSize),
             "at most " + std::to_string(kMostWidth));
    if (spec.denseSize > kMostWidth)
      refuse("feedForward.experts.denseSize", std::to_string(spec.denseSize), "at most " + std::to_string(kMostWidth));
  }
  if (spec.layerSpecs.size() != spec.layers) {
    refuse("layerSpecs", std::to_string(spec.layerSpecs.size()) + " entries",
           std::to_string(spec.layers) + ", one a layer");
  }
  const bool mixes =
      spec.residual == Residual::Pre || spec.residual == Residual::Sandwich || spec.residual == Residual::Post;
  if (spec.remembers() && (spec.shares > 1 || !mixes))
    refuse("layerSpecs", "layers that remember a state",
           "none of a share of a layer, and norms before both branches, after or round them");
  if (spec.remembers()) checkCount("recurrent.taps", spec.recurrent.taps, kMostTaps);
  checkStateSpace(spec);
  checkSelectiveScan(spec);
  checkLightning(spec);
  checkRgLru(spec);
  checkStateBeside(spec);
  checkStreams(spec);
  if (spec.layerInputTokens > spec.vocabularySize)
    refuse("layerInputTokens", std::to_string(spec.layerInputTokens),
           "at most the vocabulary's " + std::to_string(spec.vocabularySize));
  if (spec.has(Mixer::DeltaRule)) {
    const DeltaSpec& delta = spec.recurrent.delta;
    checkCount("recurrent.delta.keyHeads", delta.keyHeads, kMostHeads);
    checkCount("recurrent.delta.valueHeads", delta.valueHeads, kMostHeads);
    checkCount("recurrent.delta.keyDim", delta.keyDim, kMaxHeadDim);
    checkCount("recurrent.delta.valueDim", delta.valueDim, kMaxHeadDim);
    if (delta.valueHeads % delta.keyHeads != 0)
      refuse("recurrent.delta.valueHeads", std::to_string(delta.valueHeads),
             "a multiple of the " + std::to_string(delta.keyHeads) + " key heads");
    checkFinite("recurrent.delta.betaScale", delta.betaScale);
    checkEpsilon("recurrent.delta.epsilon", delta.epsilon);
    const auto [rank, least] = delta.byKey;
    if (rank > kMostWidth)
      refuse("recurrent.delta.byKey.rank", std::to_string(rank), "at most " + std::to_string(kMostWidth));
    if (!(least <= 0) || !std::isfinite(least))
      refuse("recurrent.delta.byKey.least", std::to_string(least), "a finite number of at most 0");
    for (const uint64_t width : {uint64_t(delta.keyHeads) * delta.keyDim, uint64_t(delta.valueHeads) * delta.valueDim,
                                 uint64_t(delta.valueHeads) * delta.keyDim})
      if (width > kMostWidth)
        refuse("recurrent.delta", std::to_string(width) + " elements", "at most " + std::to_string(kMostWidth));
  }
  const size_t tables = spec.position == PositionKind::Rotary ? spec.rotaryTables.size() : 1;
  for (size_t layer = 0; layer < spec.layerSpecs.size(); layer++) {
    const LayerSpec& layerSpec = spec.layerSpecs[layer];
    const std::string field = "layerSpecs[" + std::to_string(layer) + "]";
    if (windowTokens(layerSpec.window) > kMostContext)
      refuse(field + ".window", std::to_string(windowTokens(layerSpec.window)),
             "at most " + std::to_string(kMostContext));
    if (isChunked(layerSpec.window) && (!spec.causal || windowTokens(layerSpec.window) == 0))
      refuse(field + ".chunked", "true", "false of an encoder, and without a window");
    checkLayerAttention(spec, layer, field);
    if (layerSpec.branched && (spec.residual != Residual::Pre || spec.shares > 1 || spec.embeddingNorm ||
                               layerSpec.mixerOnly || layerSpec.stateBeside))
      refuse(field + ".branched", "true", "false, or norms before the other layers' branches, which are whole");
    if (layerSpec.mixerOnly && spec.residual != Residual::Pre)
      refuse(field + ".mixerOnly", "true", "false, or norms before both branches");
    for (const float number :
         {layerSpec.xielu.positive, layerSpec.xielu.negative, layerSpec.xielu.beta, layerSpec.xielu.epsilon})
      checkFinite(field + ".xielu", number);
    if (size_t(layerSpec.mixer) >= kMixers.size())
      refuse(field + ".mixer", "an unknown one", "one of " + std::to_string(kMixers.size()));
    checkSums(spec, layerSpec, field);
    checkFinite(field + ".gateDeviations", layerSpec.gateDeviations);
    if (layerSpec.gateDeviations != 0 && spec.feedForward != FeedForwardKind::Gated)
      refuse(field + ".gateDeviations", std::to_string(layerSpec.gateDeviations), "none where blocks have no gates");
    if (layerSpec.dense && (spec.feedForward != FeedForwardKind::Experts || spec.denseSize == 0))
      refuse(field + ".dense", "true", "false, or experts in other layers and feedForward.experts.denseSize");
    if (layerSpec.rotaryTable == LayerSpec::kNoRotation && spec.position == PositionKind::Rotary) continue;
    if (layerSpec.rotaryTable >= tables)
      refuse(field + ".rotaryTable", std::to_string(layerSpec.rotaryTable), "an index under " + std::to_string(tables));
  }
}

}  // namespace spillway
