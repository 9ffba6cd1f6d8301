#include "parseDecoder.h"

#include "arguments.h"

namespace spillway {

namespace {

constexpr uint32_t kMostEntries = 1u << 16;
constexpr uint32_t kMostPooled = 64;

uint32_t count(const Napi::Object& object, const char* key, const std::string& path) {
  return static_cast<uint32_t>(readInteger(object.Get(key), path + key, 0, UINT32_MAX));
}

// A number that is `otherwise` where it is left out.
float floatOr(const Napi::Object& object, const char* key, const std::string& path, float otherwise) {
  const Napi::Value value = object.Get(key);
  return value.IsUndefined() ? otherwise : readFloat(value, path + key);
}

// Of a layer: which table, or none.
uint32_t parseRotaryTable(const Napi::Object& layer, const std::string& path) {
  const Napi::Value value = layer.Get("rotaryTable");
  if (value.IsString()) return readWord<uint32_t>(value, path + "rotaryTable", {{"none", LayerSpec::kNoRotation}});
  return count(layer, "rotaryTable", path);
}

bool optionalBoolean(const Napi::Object& object, const char* key, const std::string& path, bool fallback) {
  const Napi::Value value = object.Get(key);
  return value.IsUndefined() ? fallback : readBoolean(value, path + key);
}

void parsePooled(const Napi::Value& value, const std::string& path, DecoderSpec& spec) {
  if (value.IsUndefined()) return;
  const Napi::Array layers = readArray(value, path, kMostPooled);
  for (uint32_t l = 0, length = layers.Length(); l < length; l++) {
    const std::string name = path + "[" + std::to_string(l) + "].";
    const Napi::Object layer = readObject(layers.Get(l), name);
    PooledLayer one;
    one.norm = readWord<bool>(layer.Get("kind"), name + "kind", {{"dense", false}, {"norm", true}});
    one.outputs = count(layer, "outputs", name);
    if (one.norm)
      one.epsilon = readFloat(layer.Get("epsilon"), name + "epsilon");
    else
      one.activation = readWord<PooledActivation>(layer.Get("activation"), name + "activation",
                                                  {{"none", PooledActivation::None},
                                                   {"tanh", PooledActivation::Tanh},
                                                   {"relu", PooledActivation::Relu},
                                                   {"gelu", PooledActivation::Gelu},
                                                   {"gelu-tanh", PooledActivation::GeluTanh},
                                                   {"silu", PooledActivation::Silu}});
    spec.pooledLayers.push_back(one);
  }
}

void parsePosition(const Napi::Object& object, const std::string& path, DecoderSpec& spec) {
  spec.position = readWord<PositionKind>(object.Get("kind"), path + "kind",
                                         {{"rotary", PositionKind::Rotary},
                                          {"learned", PositionKind::Learned},
                                          {"alibi", PositionKind::Alibi},
                                          {"none", PositionKind::None}});
  switch (spec.position) {
    case PositionKind::None: return;
    case PositionKind::Learned: spec.learnedOffset = count(object, "offset", path); return;
    case PositionKind::Alibi:
      spec.alibiSlopes = readFloat32Array(object.Get("slopes"), path + "slopes");
      spec.alibiRoundToBfloat16 = readBoolean(object.Get("roundToBfloat16"), path + "roundToBfloat16");
      spec.alibiSymmetric = optionalBoolean(object, "symmetric", path, false);
      return;
    case PositionKind::Rotary: break;
  }
  spec.rotaryStyle = readWord<RotaryStyle>(object.Get("style"), path + "style",
                                           {{"pairs", RotaryStyle::Pairs}, {"halves", RotaryStyle::Halves}});
  spec.rotaryDims = count(object, "dims", path);
  const Napi::Array tables = readArray(object.Get("tables"), path + "tables", 64);
  for (uint32_t t = 0, length = tables.Length(); t < length; t++) {
    const std::string name = path + "tables[" + std::to_string(t) + "]";
    const Napi::Object table = readObject(tables.Get(t), name);
    spec.rotaryTables.push_back({readFloat32Array(table.Get("frequencies"), name + ".frequencies"),
                                 readFloat(table.Get("scale"), name + ".scale")});
  }
}

void parseRouter(const Napi::Object& object, const std::string& path, RouterSpec& router) {
  router.score = readWord<RouterScore>(object.Get("score"), path + "score",
                                       {{"softmax", RouterScore::Softmax},
                                        {"sigmoid", RouterScore::Sigmoid},
                                        {"sparse-mixer", RouterScore::SparseMixer}});
  router.jitter = floatOr(object, "jitter", path, 0);
  router.normalised = readBoolean(object.Get("normalised"), path + "normalised");
  router.scale = readFloat(object.Get("scale"), path + "scale");
  router.epsilon = floatOr(object, "epsilon", path, 0);
  router.choiceBias = readBoolean(object.Get("choiceBias"), path + "choiceBias");
  router.choosesByLogits = optionalBoolean(object, "choosesByLogits", path, false);
  router.logitScale = floatOr(object, "logitScale", path, 1);
  router.weighsInputs = optionalBoolean(object, "weighsInputs", path, false);
  router.expertScale = optionalBoolean(object, "expertScale", path, false);
  const Napi::Value value = object.Get("groups");
  if (value.IsUndefined()) return;
  const Napi::Object groups = readObject(value, path + "groups");
  router.groups = count(groups, "count", path + "groups.");
  router.groupsPerToken = count(groups, "perToken", path + "groups.");
  router.groupScore = readWord<GroupScore>(groups.Get("score"), path + "groups.score",
                                           {{"best", GroupScore::Best}, {"best-two", GroupScore::BestTwo}});
}

void parseFeedForward(const Napi::Object& object, const std::string& path, DecoderSpec& spec) {
  spec.gateScale = floatOr(object, "gateScale", path, 1);
  spec.innerScale = floatOr(object, "innerScale", path, 1);
  spec.feedForward = readWord<FeedForwardKind>(
      object.Get("kind"), path + "kind",
      {{"plain", FeedForwardKind::Plain}, {"gated", FeedForwardKind::Gated}, {"experts", FeedForwardKind::Experts}});
  spec.activation = readWord<Activation>(object.Get("activation"), path + "activation",
                                         {{"relu", Activation::Relu},
                                          {"relu-squared", Activation::ReluSquared},
                                          {"gelu", Activation::Gelu},
                                          {"gelu-tanh", Activation::GeluTanh},
                                          {"silu", Activation::Silu},
                                          {"clamped-swiglu", Activation::ClampedSwiglu},
                                          {"xielu", Activation::Xielu}});
  if (spec.feedForward != FeedForwardKind::Experts) return;
  const Napi::Object experts = readObject(object.Get("experts"), path + "experts");
  spec.experts = count(experts, "count", path + "experts.");
  spec.expertsPerToken = count(experts, "perToken", path + "experts.");
  spec.gatelessExperts = optionalBoolean(experts, "gateless", path + "experts.", false);
  const Napi::Value router = experts.Get("router");
  if (!router.IsUndefined())
    parseRouter(readObject(router, path + "experts.router"), path + "experts.router.", spec.router);
  const Napi::Value shared = experts.Get("shared");
  if (!shared.IsUndefined()) {
    const Napi::Object block = readObject(shared, path + "experts.shared");
    spec.sharedSize = count(block, "size", path + "experts.shared.");
    spec.sharedGate = readBoolean(block.Get("gate"), path + "experts.shared.gate");
    spec.sharedScale = floatOr(block, "scale", path + "experts.shared.", 1);
    spec.router.apart = optionalBoolean(block, "apart", path + "experts.shared.", false);
  }
  if (!experts.Get("identities").IsUndefined()) spec.identityExperts = count(experts, "identities", path + "experts.");
  spec.expertsAside = optionalBoolean(experts, "aside", path + "experts.", false);
  if (!experts.Get("denseSize").IsUndefined()) spec.denseSize = count(experts, "denseSize", path + "experts.");
}

void parseStateSpace(const Napi::Value& value, const std::string& path, RecurrentSpec& spec) {
  if (value.IsUndefined()) return;
  const Napi::Object sizes = readObject(value, path);
  spec.stateHeads = count(sizes, "heads", path + ".");
  spec.stateHeadDim = count(sizes, "headDim", path + ".");
  spec.stateDim = count(sizes, "stateDim", path + ".");
  spec.stateGroups = count(sizes, "groups", path + ".");
  spec.leastTimeStep = floatOr(sizes, "leastTimeStep", path + ".", spec.leastTimeStep);
  spec.mostTimeStep = floatOr(sizes, "mostTimeStep", path + ".", spec.mostTimeStep);
  const Napi::Value norm = sizes.Get("norm"), scales = sizes.Get("scales");
  if (!norm.IsUndefined())
    spec.stateNorm = readWord<StateSpaceNorm>(
        norm, path + ".norm",
        {{"gated", StateSpaceNorm::Gated}, {"first", StateSpaceNorm::First}, {"none", StateSpaceNorm::None}});
  if (scales.IsUndefined()) return;
  const Napi::Object each = readObject(scales, path + ".scales");
  const auto scale = [&](const char* name) { return floatOr(each, name, path + ".scales.", 1); };
  spec.stateScales = {scale("gate"), scale("values"), scale("written"), scale("read"), scale("step"), scale("output")};
}

void parseScan(const Napi::Value& value, const std::string& path, RecurrentSpec& spec) {
  if (value.IsUndefined()) return;
  const Napi::Object sizes = readObject(value, path);
  spec.scanChannels = count(sizes, "channels", path + ".");
  spec.scanState = count(sizes, "stateDim", path + ".");
  spec.scanRank = count(sizes, "rank", path + ".");
  const Napi::Value norms = sizes.Get("norms");
  if (norms.IsUndefined()) return;
  const Napi::Object each = readObject(norms, path + ".norms");
  spec.scanNorms =
      readBoolean(each.Get("weighted"), path + ".norms.weighted") ? ScanNorms::Weighted : ScanNorms::Unweighted;
  spec.scanEpsilon = readFloat(each.Get("epsilon"), path + ".norms.epsilon");
}

void parseLatent(const Napi::Value& value, const std::string& path, LatentSpec& latent) {
  if (value.IsUndefined()) return;
  const Napi::Object object = readObject(value, path);
  latent.rank = count(object, "rank", path + ".");
  latent.queryRank = count(object, "queryRank", path + ".");
  latent.rotated = count(object, "rotated", path + ".");
  latent.plain = count(object, "plain", path + ".");
  latent.value = count(object, "value", path + ".");
  latent.epsilon = readFloat(object.Get("epsilon"), path + ".epsilon");
  latent.scale = floatOr(object, "scale", path + ".", 1);
  if (latent.rank == 0) refuseArgument(path + ".rank", object.Get("rank"), "at least 1");
}

void parseDisentangled(const Napi::Value& value, const std::string& path, DisentangledSpec& disentangled) {
  if (value.IsUndefined()) return;
  const Napi::Object object = readObject(value, path);
  disentangled.span = count(object, "span", path + ".");
  disentangled.distance = object.Get("distance").IsUndefined() ? 0 : count(object, "distance", path + ".");
  disentangled.contentToPosition = readBoolean(object.Get("contentToPosition"), path + ".contentToPosition");
  disentangled.positionToContent = readBoolean(object.Get("positionToContent"), path + ".positionToContent");
  disentangled.ownProducts = optionalBoolean(object, "ownProducts", path + ".", false);
  if (disentangled.span == 0) refuseArgument(path + ".span", object.Get("span"), "at least 1");
}

void parseQueryScale(const Napi::Value& value, const std::string& path, QueryScale& scale) {
  if (value.IsUndefined()) return;
  const Napi::Object object = readObject(value, path);
  scale.factor = readFloat(object.Get("factor"), path + ".factor");
  scale.period = count(object, "period", path + ".");
  scale.first = count(object, "first", path + ".");
}

XieluSpec parseXielu(const Napi::Value& value, const std::string& path) {
  if (value.IsUndefined()) return {};
  const Napi::Object object = readObject(value, path);
  return {readFloat(object.Get("positive"), path + ".positive"), readFloat(object.Get("negative"), path + ".negative"),
          readFloat(object.Get("beta"), path + ".beta"), readFloat(object.Get("epsilon"), path + ".epsilon")};
}

void parseLightning(const Napi::Value& value, const std::string& path, RecurrentSpec& recurrent) {
  if (value.IsUndefined()) return;
  const Napi::Object object = readObject(value, path);
  recurrent.lightningHeads = count(object, "heads", path + ".");
  recurrent.lightningDim = count(object, "headDim", path + ".");
  recurrent.lightningEpsilon = readFloat(object.Get("epsilon"), path + ".epsilon");
}

BranchSum parseSum(const Napi::Value& value, const std::string& path) {
  const Napi::Object object = readObject(value, path);
  return {readFloat(object.Get("kept"), path + ".kept"), readFloat(object.Get("added"), path + ".added")};
}

void parseRecurrent(const Napi::Object& object, const std::string& path, DecoderSpec& spec) {
  spec.recurrent.taps = count(object, "taps", path);
  const Napi::Value decay = object.Get("decay");
  if (!decay.IsUndefined())
    spec.recurrent.negatedRates = readWord<bool>(decay, path + "decay", {{"log", false}, {"negated", true}});
  parseStateSpace(object.Get("stateSpace"), path + "stateSpace", spec.recurrent);
  parseScan(object.Get("scan"), path + "scan", spec.recurrent);
  parseLightning(object.Get("lightning"), path + "lightning", spec.recurrent);
  const Napi::Value delta = object.Get("delta");
  if (delta.IsUndefined()) return;
  const Napi::Object sizes = readObject(delta, path + "delta");
  spec.recurrent.keyHeads = count(sizes, "keyHeads", path + "delta.");
  spec.recurrent.valueHeads = count(sizes, "valueHeads", path + "delta.");
  spec.recurrent.keyDim = count(sizes, "keyDim", path + "delta.");
  spec.recurrent.valueDim = count(sizes, "valueDim", path + "delta.");
  spec.recurrent.tiledHeads = optionalBoolean(sizes, "tiled", path + "delta.", false);
  spec.recurrent.deltaApart = optionalBoolean(sizes, "apart", path + "delta.", false);
  spec.recurrent.betaScale = floatOr(sizes, "betaScale", path + "delta.", 1);
  spec.recurrent.deltaEpsilon = floatOr(sizes, "epsilon", path + "delta.", spec.normEpsilon);
  const Napi::Value byKey = sizes.Get("byKey");
  if (byKey.IsUndefined()) return;
  const Napi::Object decays = readObject(byKey, path + "delta.byKey");
  spec.recurrent.decaysByKey = spec.recurrent.deltaApart = true;
  spec.recurrent.deltaRank = count(decays, "rank", path + "delta.byKey.");
  spec.recurrent.leastDecay = readFloat(decays.Get("least"), path + "delta.byKey.least");
}

}  // namespace

DecoderSpec parseDecoder(const Napi::Value& value) {
  const std::string path = "decoder.";
  const Napi::Object object = readObject(value, "decoder");
  DecoderSpec spec;
  spec.family = readString(object.Get("family"), path + "family");
  spec.layers = count(object, "layers", path);
  const Napi::Value part = object.Get("part");
  if (!part.IsUndefined()) {
    const Napi::Object range = readObject(part, path + "part");
    spec.firstLayer = count(range, "firstLayer", path + "part.");
    spec.modelLayers = count(range, "modelLayers", path + "part.");
    if (spec.modelLayers == 0) refuseArgument(path + "part.modelLayers", range.Get("modelLayers"), "at least 1");
  }
  const Napi::Value share = object.Get("share");
  if (!share.IsUndefined()) {
    const Napi::Object one = readObject(share, path + "share");
    spec.share = count(one, "index", path + "share.");
    spec.shares = count(one, "of", path + "share.");
    if (const Napi::Value attention = one.Get("attention"); !attention.IsUndefined()) {
      const Napi::Object rows = readObject(attention, path + "share.attention");
      spec.rowHeads = count(rows, "heads", path + "share.attention.");
      spec.rowKvHeads = count(rows, "kvHeads", path + "share.attention.");
    }
  }
  spec.hiddenSize = count(object, "hiddenSize", path);
  spec.vocabularySize = count(object, "vocabularySize", path);
  spec.contextTokens = count(object, "contextTokens", path);
  spec.heads = count(object, "heads", path);
  spec.kvHeads = count(object, "kvHeads", path);
  spec.headDim = count(object, "headDim", path);
  spec.feedForwardSize = count(object, "feedForwardSize", path);

  const Napi::Object norm = readObject(object.Get("norm"), path + "norm");
  spec.norm =
      readWord<NormKind>(norm.Get("kind"), path + "norm.kind", {{"rms", NormKind::Rms}, {"layer", NormKind::Layer}});
  spec.normEpsilon = readFloat(norm.Get("epsilon"), path + "norm.epsilon");
  spec.unweightedNorms = optionalBoolean(norm, "unweighted", path + "norm.", false);
  spec.residual = readWord<Residual>(object.Get("residual"), path + "residual",
                                     {{"pre", Residual::Pre},
                                      {"post", Residual::Post},
                                      {"sandwich", Residual::Sandwich},
                                      {"branch", Residual::Branch},
                                      {"parallel", Residual::Parallel}});
  spec.finalNorm = readBoolean(object.Get("finalNorm"), path + "finalNorm");
  const Napi::Object embedding = readObject(object.Get("embedding"), path + "embedding");
  spec.embeddingSize = count(embedding, "size", path + "embedding.");
  spec.embeddingScale = readFloat(embedding.Get("scale"), path + "embedding.scale");
  spec.embeddingNorm = optionalBoolean(embedding, "norm", path + "embedding.", false);
  spec.embeddingFactorised = optionalBoolean(embedding, "factorised", path + "embedding.", false);
  if (!embedding.Get("tokenTypes").IsUndefined()) spec.tokenTypes = count(embedding, "tokenTypes", path + "embedding.");
  const Napi::Object attention = readObject(object.Get("attention"), path + "attention");
  spec.attentionScale = readFloat(attention.Get("scale"), path + "attention.scale");
  spec.attentionSoftCap = floatOr(attention, "softCap", path + "attention.", 0);
  spec.attentionClip = floatOr(attention, "clip", path + "attention.", 0);
  spec.attentionOutput = floatOr(attention, "outputScale", path + "attention.", 1);
  spec.qkNorm = readWord<QueryKeyNorm>(attention.Get("qkNorm"), path + "attention.qkNorm",
                                       {{"none", QueryKeyNorm::None},
                                        {"head", QueryKeyNorm::Head},
                                        {"rotated", QueryKeyNorm::Rotated},
                                        {"unit", QueryKeyNorm::Unit},
                                        {"row", QueryKeyNorm::Row},
                                        {"layer", QueryKeyNorm::Layer}});
  const Napi::Value sinks = attention.Get("sinks");
  spec.attentionSinks = !sinks.IsUndefined() && readBoolean(sinks, path + "attention.sinks");
  spec.causal = optionalBoolean(attention, "causal", path + "attention.", true);
  const Napi::Value relative = attention.Get("relativeBias");
  if (!relative.IsUndefined()) {
    const Napi::Object bias = readObject(relative, path + "attention.relativeBias");
    spec.relativeBuckets = count(bias, "buckets", path + "attention.relativeBias.");
    spec.relativeDistance = count(bias, "distance", path + "attention.relativeBias.");
  }
  parseDisentangled(attention.Get("disentangled"), path + "attention.disentangled", spec.disentangled);
  const Napi::Value eviction = attention.Get("eviction");
  if (!eviction.IsUndefined()) {
    const Napi::Object kept = readObject(eviction, path + "attention.eviction");
    spec.evictionSinks = count(kept, "sinks", path + "attention.eviction.");
    spec.evictionWindow = count(kept, "window", path + "attention.eviction.");
  }
  spec.valueNorm = optionalBoolean(attention, "valueNorm", path + "attention.", false);
  parseLatent(attention.Get("latent"), path + "attention.latent", spec.latent);
  parseQueryScale(attention.Get("queryScale"), path + "attention.queryScale", spec.queryScale);
  const Napi::Value gate = attention.Get("gate");
  spec.attentionGate = !gate.IsUndefined() && readBoolean(gate, path + "attention.gate");
  spec.gatesHeads = optionalBoolean(attention, "gatesHeads", path + "attention.", false);
  if (!attention.Get("gateActivation").IsUndefined())
    spec.gateActivation =
        readWord<GateActivation>(attention.Get("gateActivation"), path + "attention.gateActivation",
                                 {{"sigmoid", GateActivation::Sigmoid}, {"softplus", GateActivation::Softplus}});
  if (!attention.Get("valueDim").IsUndefined()) spec.valueDim = count(attention, "valueDim", path + "attention.");
  const Napi::Value recurrent = object.Get("recurrent");
  if (!recurrent.IsUndefined()) parseRecurrent(readObject(recurrent, path + "recurrent"), path + "recurrent.", spec);
  parsePosition(readObject(object.Get("position"), path + "position"), path + "position.", spec);
  parseFeedForward(readObject(object.Get("feedForward"), path + "feedForward"), path + "feedForward.", spec);

  parsePooled(object.Get("pooled"), path + "pooled", spec);
  if (!object.Get("layerInputs").IsUndefined()) spec.layerInputSize = count(object, "layerInputs", path);
  if (!object.Get("layerInputTokens").IsUndefined()) spec.layerInputTokens = count(object, "layerInputTokens", path);
  const Napi::Value streams = object.Get("streams");
  if (!streams.IsUndefined()) {
    const Napi::Object each = readObject(streams, path + "streams");
    spec.streams = {count(each, "count", path + "streams."), count(each, "bypassRank", path + "streams.")};
  }
  spec.layerScale = optionalBoolean(object, "layerScale", path, false);
  spec.residualScale = floatOr(object, "residualScale", path, 1);
  spec.logitScale = floatOr(object, "logitScale", path, 1);
  spec.logitSoftCap = floatOr(object, "logitSoftCap", path, 0);

  const Napi::Array layers = readArray(object.Get("layerSpecs"), path + "layerSpecs", kMostEntries);
  for (uint32_t l = 0, length = layers.Length(); l < length; l++) {
    const std::string name = path + "layerSpecs[" + std::to_string(l) + "]";
    const Napi::Object layer = readObject(layers.Get(l), name);
    const Napi::Value dense = layer.Get("dense"), mixer = layer.Get("mixer");
    LayerSpec one;
    one.window = count(layer, "window", name + ".");
    if (optionalBoolean(layer, "chunked", name + ".", false)) one.window |= kChunked;
    const auto optionalCount = [&](const char* key, uint32_t otherwise) {
      return layer.Get(key).IsUndefined() ? otherwise : count(layer, key, name + ".");
    };
    one.headDim = optionalCount("headDim", 0);
    one.kvHeads = optionalCount("kvHeads", 0);
    one.heads = optionalCount("heads", 0);
    one.innerSize = optionalCount("innerSize", 0);
    one.keysOf = optionalCount("keysOf", LayerSpec::kOwnKeys);
    one.valuesAreKeys = optionalBoolean(layer, "valuesAreKeys", name + ".", false);
    one.scalesQueries = optionalBoolean(layer, "scalesQueries", name + ".", false);
    one.rotaryTable = parseRotaryTable(layer, name + ".");
    one.mixerOnly = optionalBoolean(layer, "mixerOnly", name + ".", false);
    one.stateBeside = optionalBoolean(layer, "stateBeside", name + ".", false);
    one.branched = optionalBoolean(layer, "branched", name + ".", false);
    one.gateDeviations = floatOr(layer, "gateDeviations", name + ".", 0);
    one.xielu = parseXielu(layer.Get("xielu"), name + ".xielu");
    if (const Napi::Value sums = layer.Get("sums"); !sums.IsUndefined()) {
      const Napi::Object both = readObject(sums, name + ".sums");
      one.mixerSum = parseSum(both.Get("mixer"), name + ".sums.mixer");
      one.blockSum = parseSum(both.Get("block"), name + ".sums.block");
    }
    if (const Napi::Value decays = layer.Get("decays"); !decays.IsUndefined())
      one.decays = readFloat32Array(decays, name + ".decays");
    one.dense = !dense.IsUndefined() && readBoolean(dense, name + ".dense");
    if (!mixer.IsUndefined())
      one.mixer = readWord<Mixer>(mixer, name + ".mixer",
                                  {{"attention", Mixer::Attention},
                                   {"delta-rule", Mixer::DeltaRule},
                                   {"short-convolution", Mixer::ShortConvolution},
                                   {"state-space", Mixer::StateSpace},
                                   {"selective-scan", Mixer::SelectiveScan},
                                   {"lightning-attention", Mixer::Lightning}});
    spec.layerSpecs.push_back(one);
  }
  return spec;
}

}  // namespace spillway
