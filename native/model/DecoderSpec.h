// A transformer, decoder or encoder, as data: the native twin of src/model/DecoderSpec.ts, where the fields are
// explained. Each struct's fields() says what the library calls them, to what reads an object of JavaScript into it
// (addon/parseDecoder.cpp), which knows none by name: field(name, member) must be there, field.some() be at least 1,
// field.optional() may be left out, and says whether it is there; words of an enum come last; field.list() is an array,
// of at most so many; field.in() an object whose members stand in the same struct.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../kernels/cpu/RowKernels.h"
#include "../kernels/cpu/window.h"

namespace spillway {

enum class NormKind : uint8_t { Rms, Layer };
enum class Residual : uint8_t { Pre, Post, Sandwich, Branch, Parallel };
enum class QueryKeyNorm : uint8_t { None, Head, Rotated, Unit, Row, Layer };
enum class PositionKind : uint8_t { Rotary, Learned, Alibi, None };
enum class RotaryStyle : uint8_t { Pairs, Halves };
enum class FeedForwardKind : uint8_t { Plain, Gated, Experts };
enum class RouterScore : uint8_t { Softmax, Sigmoid, SparseMixer };
enum class GroupScore : uint8_t { Best, BestTwo };
enum class GateActivation : uint8_t { Sigmoid, Softplus };  // of attention's outputs

struct RotaryTable {
  std::vector<float> frequencies;  // dims / 2; fewer where layers have heads of several sizes
  float scale = 1;
  template <typename Fields>
  void fields(Fields& field) {
    field("frequencies", frequencies);
    field("scale", scale);
  }
};

// What mixes a layer's tokens.
enum class Mixer : uint8_t {
  Attention,
  DeltaRule,
  ShortConvolution,
  StateSpace,
  SelectiveScan,
  LightningAttention,
  RgLru
};
constexpr std::initializer_list<std::pair<const char*, Mixer>> kMixers = {
    {"attention", Mixer::Attention},
    {"delta-rule", Mixer::DeltaRule},
    {"short-convolution", Mixer::ShortConvolution},
    {"state-space", Mixer::StateSpace},
    {"selective-scan", Mixer::SelectiveScan},
    {"lightning-attention", Mixer::LightningAttention},
    {"rg-lru", Mixer::RgLru}};

// What a layer makes of the inner elements of its block with Activation::Xielu.
struct XieluSpec {
  float positive = 0, negative = 0;  // factors above zero, and of zero and below
  float beta = 0, epsilon = 0;
  template <typename Fields>
  void fields(Fields& field) {
    field("positive", positive);
    field("negative", negative);
    field("beta", beta);
    field("epsilon", epsilon);
  }
};

// How a branch is added where its norm comes after it: hidden = kept * hidden + added * branch (MiniMax-Text-01).
struct BranchSum {
  float kept = 1, added = 1;
  bool plain() const { return kept == 1 && added == 1; }
  template <typename Fields>
  void fields(Fields& field) {
    field("kept", kept);
    field("added", added);
  }
};

struct LayerSpec {
  uint32_t window = 0;       // as window.h has it
  uint32_t rotaryTable = 0;  // kNoRotation: heads are not rotated
  bool dense = false;        // among layers of experts, one without
  Mixer mixer = Mixer::Attention;
  uint32_t headDim = 0, kvHeads = 0, heads = 0;  // 0: the decoder's
  uint32_t keysOf = kOwnKeys;                    // the layer whose keys and values it reads, having none of its own
  bool valuesAreKeys = false;                    // as they are before norm and rotation
  bool scalesQueries = false;                    // by their position (QueryScale)
  uint32_t innerSize = 0;                        // of a block that all tokens go through; 0: the decoder's
  bool mixerOnly = false;                        // there is no feed-forward block
  bool stateBeside = false;                      // attention has a state space beside it, which reads what it reads
  bool branched = false;     // its norms stand after its branches (Residual::Branch), others' before them
  float gateDeviations = 0;  // a gate's elements count above their mean by so many deviations; 0: all do
  XieluSpec xielu;
  BranchSum mixerSum, blockSum;
  std::vector<float> decays;  // of lightning attention: what a token leaves of each head's state

  static constexpr uint32_t kNoRotation = UINT32_MAX;
  static constexpr uint32_t kOwnKeys = UINT32_MAX;
  bool ownKeys() const { return mixer == Mixer::Attention && keysOf == kOwnKeys; }
  bool hasStateSpace() const { return mixer == Mixer::StateSpace || stateBeside; }
  bool remembers() const { return mixer != Mixer::Attention || stateBeside; }
  template <typename Fields>
  void fields(Fields& field) {
    bool chunked = false;
    field("window", window);
    field.optional("chunked", chunked);
    if (chunked) window |= kChunked;
    field.optional("headDim", headDim);
    field.optional("kvHeads", kvHeads);
    field.optional("heads", heads);
    field.optional("innerSize", innerSize);
    field.optional("keysOf", keysOf);
    field.optional("valuesAreKeys", valuesAreKeys);
    field.optional("scalesQueries", scalesQueries);
    if (field.isWord("rotaryTable"))
      field("rotaryTable", rotaryTable, {{"none", kNoRotation}});
    else
      field("rotaryTable", rotaryTable);
    field.optional("mixerOnly", mixerOnly);
    field.optional("stateBeside", stateBeside);
    field.optional("branched", branched);
    field.optional("gateDeviations", gateDeviations);
    field.optional("xielu", xielu);
    if (field.has("sums")) {
      const auto sums = field.in("sums");
      sums("mixer", mixerSum);
      sums("block", blockSum);
    }
    field.optional("decays", decays);
    field.optional("dense", dense);
    field.optional("mixer", mixer, kMixers);
  }
};

// How a token's experts are chosen and weighed.
struct RouterSpec {
  RouterScore score = RouterScore::Softmax;
  bool normalised = true;
  float scale = 1;
  float epsilon = 0;  // added to the sum that divides
  bool choiceBias = false;
  uint32_t groups = 1, groupsPerToken = 1;
  GroupScore groupScore = GroupScore::Best;
  float jitter = 0;              // of SparseMixer: an expert counts beside a better one that is so near
  float logitScale = 1;          // of logits, before scores are made of them
  bool weighsInputs = false;     // experts' inputs are multiplied by their weights, and not what comes out
  bool expertScale = false;      // weights are multiplied by a number of each expert, last
  bool apart = false;            // a mixture with norms of its own beside the block (ExpertsSpec of DecoderSpec.ts)
  bool choosesByLogits = false;  // and not by scores

  static constexpr uint32_t kMostGroups = 64;

  // The best of a softmax, divided by their sum, which most mixtures have.
  bool plain() const {
    return score == RouterScore::Softmax && normalised && scale == 1 && epsilon == 0 && !choiceBias &&
           groups == groupsPerToken;
  }
  template <typename Fields>
  void fields(Fields& field) {
    field("score", score,
          {{"softmax", RouterScore::Softmax},
           {"sigmoid", RouterScore::Sigmoid},
           {"sparse-mixer", RouterScore::SparseMixer}});
    field.optional("jitter", jitter);
    field("normalised", normalised);
    field("scale", scale);
    field.optional("epsilon", epsilon);
    field("choiceBias", choiceBias);
    field.optional("choosesByLogits", choosesByLogits);
    field.optional("logitScale", logitScale);
    field.optional("weighsInputs", weighsInputs);
    field.optional("expertScale", expertScale);
    if (!field.has("groups")) return;
    const auto own = field.in("groups");
    own("count", groups);
    own("perToken", groupsPerToken);
    own("score", groupScore, {{"best", GroupScore::Best}, {"best-two", GroupScore::BestTwo}});
  }
};

enum class PooledActivation : uint8_t { None, Tanh, Relu, Gelu, GeluTanh, Silu };

// A layer over a row's pooled hidden states: a product, or a norm.
struct PooledLayer {
  bool norm = false;
  uint32_t outputs = 0;
  PooledActivation activation = PooledActivation::None;  // after a product
  float epsilon = 0;                                     // of a norm, which is a layer norm
  template <typename Fields>
  void fields(Fields& field) {
    field("kind", norm, {{"dense", false}, {"norm", true}});
    field("outputs", outputs);
    if (norm) return field("epsilon", epsilon);
    field("activation", activation,
          {{"none", PooledActivation::None},
           {"tanh", PooledActivation::Tanh},
           {"relu", PooledActivation::Relu},
           {"gelu", PooledActivation::Gelu},
           {"gelu-tanh", PooledActivation::GeluTanh},
           {"silu", PooledActivation::Silu}});
  }
};

// Several streams of hidden states beside each other (AltUp; Gemma 3n): a layer computes with the first one, predicts
// all of them before it and corrects them after it.
struct StreamsSpec {
  uint32_t count = 1;
  uint32_t bypassRank = 0;  // of the products beside attention (LAuReL)

  static constexpr uint32_t kMost = 4;
  template <typename Fields>
  void fields(Fields& field) {
    field("count", count);
    field("bypassRank", bypassRank);
  }
};

// Of the gated delta rule.
struct DeltaSpec {
  uint32_t keyHeads = 0, valueHeads = 0, keyDim = 0, valueDim = 0;
  bool tiled = false;   // value head v reads key head v % keyHeads, not the one of its neighbours
  bool apart = false;   // queries, keys and values are products apart
  float betaScale = 1;  // of how much of a value is written
  float epsilon = 0;    // of the norm of outputs
  // Each element of a key is forgotten at a rate of its own, and outputs are gated by the logistic function (Kimi's
  // delta attention).
  bool decaysByKey = false;
  struct ByKey {
    uint32_t rank = 0;  // of two products each that the gates and the decays are then; 0: of one
    float least = 0;    // a rate's share of it by the logistic function is a decay's logarithm then; 0: none
    template <typename Fields>
    void fields(Fields& field) {
      field("rank", rank);
      field("least", least);
    }
  } byKey;
  template <typename Fields>
  void fields(Fields& field) {
    field("keyHeads", keyHeads);
    field("valueHeads", valueHeads);
    field("keyDim", keyDim);
    field("valueDim", valueDim);
    field.optional("tiled", tiled);
    field.optional("apart", apart);
    field.optional("betaScale", betaScale);
    field.optional("epsilon", epsilon);
    decaysByKey = field.optional("byKey", byKey);
    apart = apart || decaysByKey;
  }
};

// What a state space's outputs go through: a gate and a norm after it, the other way round, or the gate alone.
enum class StateSpaceNorm : uint8_t { Gated, First, None };

// Factors of what a state space projects, by its parts, and of what it gives (Falcon-H1).
struct StateSpaceScales {
  float gate = 1, values = 1, written = 1, read = 1, step = 1, output = 1;
  bool projected() const { return gate != 1 || values != 1 || written != 1 || read != 1 || step != 1; }
  template <typename Fields>
  void fields(Fields& field) {
    field("gate", gate);
    field("values", values);
    field("written", written);
    field("read", read);
    field("step", step);
    field("output", output);
  }
};

// Of a state space (Mamba-2).
struct StateSpaceSpec {
  uint32_t heads = 0, headDim = 0, stateDim = 0, groups = 0;
  float leastTimeStep = 0, mostTimeStep = std::numeric_limits<float>::infinity();
  StateSpaceNorm norm = StateSpaceNorm::Gated;
  StateSpaceScales scales;
  template <typename Fields>
  void fields(Fields& field) {
    field("heads", heads);
    field("headDim", headDim);
    field("stateDim", stateDim);
    field("groups", groups);
    field.optional("leastTimeStep", leastTimeStep);
    field.optional("mostTimeStep", mostTimeStep);
    field.optional(
        "norm", norm,
        {{"gated", StateSpaceNorm::Gated}, {"first", StateSpaceNorm::First}, {"none", StateSpaceNorm::None}});
    field.optional("scales", scales);
  }
};

// Of a selective scan (Mamba).
struct ScanSpec {
  uint32_t channels = 0, stateDim = 0;  // elements of state of each channel
  uint32_t rank = 0;                    // of what time steps are made of
  // Of what steps are made of, and of what states are written and read by.
  bool normed = false;
  struct Norms {
    float epsilon = 0;
    bool weighted = false;
    template <typename Fields>
    void fields(Fields& field) {
      field("epsilon", epsilon);
      field("weighted", weighted);
    }
  } norms;
  template <typename Fields>
  void fields(Fields& field) {
    field("channels", channels);
    field("stateDim", stateDim);
    field("rank", rank);
    normed = field.optional("norms", norms);
  }
};

struct LightningSpec {
  uint32_t heads = 0, headDim = 0;
  float epsilon = 0;  // of the norm of outputs
  template <typename Fields>
  void fields(Fields& field) {
    field("heads", heads);
    field("headDim", headDim);
    field("epsilon", epsilon);
  }
};

// Of an RG-LRU (Griffin): blocks of channels, whose gates are made of their own channels.
struct LruSpec {
  uint32_t blocks = 0, blockDim = 0;
  uint32_t width() const { return blocks * blockDim; }
  template <typename Fields>
  void fields(Fields& field) {
    field("blocks", blocks);
    field("blockDim", blockDim);
  }
};

// Of layers that remember a state of constant size instead of keys and values.
struct RecurrentSpec {
  uint32_t taps = 0;          // of the convolution over a channel's last tokens
  bool negatedRates = false;  // decays are stored as the negatives of their rates instead of these rates' logarithms
  DeltaSpec delta;
  StateSpaceSpec stateSpace;
  ScanSpec scan;
  LightningSpec lightning;
  LruSpec lru;
  template <typename Fields>
  void fields(Fields& field) {
    field("taps", taps);
    field.optional("decay", negatedRates, {{"log", false}, {"negated", true}});
    field.optional("delta", delta);
    field.optional("stateSpace", stateSpace);
    field.optional("scan", scan);
    field.optional("lightning", lightning);
    field.optional("lru", lru);
  }
};

// Of attention whose keys and values are one latent row of a token (DeepSeek V2): what queries and outputs are made of.
// The decoder's headDim is `rank` + `rotated` then, and it has one key and value head.
struct LatentSpec {
  uint32_t rank = 0;                           // 0: there is none
  uint32_t queryRank = 0;                      // 0: queries are one product
  uint32_t rotated = 0, plain = 0, value = 0;  // elements of a head
  float epsilon = 0;                           // of the norms of latent rows
  float scale = 1;                             // of what keys and values are made of, after its norm
  template <typename Fields>
  void fields(Fields& field) {
    field.some("rank", rank);
    field("queryRank", queryRank);
    field("rotated", rotated);
    field("plain", plain);
    field("value", value);
    field("epsilon", epsilon);
    field.optional("scale", scale);
  }
};

// Disentangled attention (DeBERTa): a score is also of a query's content and of how far its key is away, and of a key's
// content and of how far its query is, each distance having an embedding, which the layers' own products, or others,
// make queries and keys of.
struct DisentangledSpec {
  uint32_t span = 0;      // half of the embedding's rows; 0: attention is not disentangled
  uint32_t distance = 0;  // half of the span's distances have a row each, those up to this one share the other half; 0:
                          // all have one each
  bool contentToPosition = false, positionToContent = false;
  bool ownProducts = false;  // for the distances
  template <typename Fields>
  void fields(Fields& field) {
    field.some("span", span);
    field.optional("distance", distance);
    field("contentToPosition", contentToPosition);
    field("positionToContent", positionToContent);
    field.optional("ownProducts", ownProducts);
  }
};

// Queries are multiplied by 1 + factor * log(1 + floor((position + first) / period)).
struct QueryScale {
  float factor = 0;
  uint32_t period = 0, first = 0;
  template <typename Fields>
  void fields(Fields& field) {
    field("factor", factor);
    field("period", period);
    field("first", first);
  }
};

struct DecoderSpec {
  std::string family;
  uint32_t layers = 0;
  // Where these are a part of a model's layers: which one of them the first is, and how many the model has (0: these
  // are all of them).
  uint32_t firstLayer = 0;
  uint32_t modelLayers = 0;
  // Where these are a share of every layer: which one of how many. Heads, kvHeads and feedForwardSize are the share's;
  // the first share embeds and samples.
  uint32_t share = 0;
  uint32_t shares = 1;
  // Heads of the whole model, where each share attends to some rows with all of them, and keeps the keys and values of
  // these alone; 0: each attends to all rows with its own heads.
  uint32_t rowHeads = 0;
  uint32_t rowKvHeads = 0;
  uint32_t hiddenSize = 0;
  uint32_t vocabularySize = 0;
  uint32_t contextTokens = 0;
  uint32_t heads = 0;
  uint32_t kvHeads = 0;
  uint32_t headDim = 0;
  uint32_t feedForwardSize = 0;

  NormKind norm = NormKind::Rms;
  float normEpsilon = 0;
  bool unweightedNorms = false;  // those of hidden states have neither weights nor biases
  Residual residual = Residual::Pre;
  bool finalNorm = true;
  uint32_t embeddingSize = 0;
  float embeddingScale = 1;
  bool embeddingNorm = false;
  // Positions, types and norm are of rows of embeddingSize, and the projection comes last (ALBERT, ELECTRA).
  bool embeddingFactorised = false;
  uint32_t tokenTypes = 0;  // 0: tokens have none
  float attentionScale = 1;
  float residualScale = 1;     // of a branch, before it is added
  float attentionSoftCap = 0;  // 0: none; so below
  float attentionClip = 0;     // the largest element of queries, keys and values as they are projected
  float attentionOutput = 1;   // a factor of what attention gives
  QueryKeyNorm qkNorm = QueryKeyNorm::None;
  bool attentionGate = false;
  bool gatesHeads = false;  // with one number a head, and not one an element
  GateActivation gateActivation = GateActivation::Sigmoid;
  bool attentionSinks = false;
  // Where layers without a window let keys go: a token sees the pages of the first `evictionSinks` positions, and those
  // of the last `evictionWindow` that end with its own; 0: all.
  uint32_t evictionSinks = 0, evictionWindow = 0;
  bool valueNorm = false;  // an RMS norm of each value head, without weights
  uint32_t valueDim = 0;   // elements of a head's value, if fewer than its key's: cached rows end with zeros then
  LatentSpec latent;
  QueryScale queryScale;
  // False: an encoder, in which every token of a row sees all others; it has no head, and rows are computed whole.
  bool causal = true;
  uint32_t relativeBuckets = 0;  // of the weights that scores get by distance (MPNet); 0: they do not
  uint32_t relativeDistance = 0;
  bool alibiSymmetric = false;
  DisentangledSpec disentangled;

  PositionKind position = PositionKind::Rotary;
  RotaryStyle rotaryStyle = RotaryStyle::Pairs;
  uint32_t rotaryDims = 0;
  std::vector<RotaryTable> rotaryTables;
  uint32_t learnedOffset = 0;
  std::vector<float> alibiSlopes;
  bool alibiRoundToBfloat16 = false;

  FeedForwardKind feedForward = FeedForwardKind::Gated;
  Activation activation = Activation::Silu;
  uint32_t experts = 0;
  uint32_t identityExperts = 0;  // more of them, after the others, that give what they get (LongCat-Flash)
  bool expertsAside = false;     // what experts give is added at the end of the next layer, which has none
  uint32_t expertsPerToken = 0;
  bool gatelessExperts = false;  // experts and the block beside them: down(act(up x))
  float gateScale = 1;           // of a gate before its activation
  float innerScale = 1;          // of a block's inner elements
  RouterSpec router;
  uint32_t sharedSize = 0;  // inner width of the block beside the experts, 0: none
  bool sharedGate = false;
  float sharedScale = 1;   // of its inner elements
  uint32_t denseSize = 0;  // inner width of layers without experts, where others have them
  float logitScale = 1;
  float logitSoftCap = 0;

  RecurrentSpec recurrent;

  uint32_t layerInputSize = 0;    // of what each layer gets of a token's embedding (Gemma 4); 0: nothing
  uint32_t layerInputTokens = 0;  // tokens that have such embeddings: others have the first one's; 0: all
  StreamsSpec streams;
  bool layerScale = false;  // a layer's outputs are multiplied by a number of its own

  std::vector<PooledLayer> pooledLayers;  // what becomes of pooled hidden states, in order

  std::vector<LayerSpec> layerSpecs;

  bool embeds() const { return firstLayer == 0 && share == 0; }
  bool samples() const { return (modelLayers == 0 || firstLayer + layers == modelLayers) && share == 0; }
  bool attendsByRows() const { return rowHeads != 0; }
  // What attends to rows then: all heads, and nothing else of a layer.
  DecoderSpec attending() const;
  // Of keys and values in the cache.
  uint32_t cachedHeads(const LayerSpec& layer) const { return attendsByRows() ? rowKvHeads : kvHeadsOf(layer); }
  // Of what a projection leaves of a token: queries, keys and values.
  uint32_t projectedWidth() const { return queryWidth() + 2 * keyWidth(); }
  // Other engines hold the rest: what these compute goes to them, and theirs comes here.
  bool hasPeers() const { return shares > 1 || !embeds() || !samples(); }
  bool hasExperts(const LayerSpec& layer) const {
    return feedForward == FeedForwardKind::Experts && !layer.dense && !layer.mixerOnly;
  }
  Residual residualOf(const LayerSpec& layer) const { return layer.branched ? Residual::Branch : residual; }
  bool hasGates() const { return feedForward != FeedForwardKind::Plain && !gatelessExperts; }
  // Inner width of the block that all of a layer's tokens go through; 0 where there are only experts.
  uint32_t innerWidth(const LayerSpec& layer) const {
    if (layer.mixerOnly) return 0;
    if (feedForward != FeedForwardKind::Experts) return layer.innerSize == 0 ? feedForwardSize : layer.innerSize;
    return layer.dense ? denseSize : sharedSize;
  }
  // Of one layer, and of the widest.
  uint32_t headDimOf(const LayerSpec& layer) const { return layer.headDim == 0 ? headDim : layer.headDim; }
  uint32_t kvHeadsOf(const LayerSpec& layer) const { return layer.kvHeads == 0 ? kvHeads : layer.kvHeads; }
  uint32_t headsOf(const LayerSpec& layer) const { return layer.heads == 0 ? heads : layer.heads; }
  uint32_t valueDimOf(const LayerSpec& layer) const { return valueDim == 0 ? headDimOf(layer) : valueDim; }
  uint32_t queryWidth(const LayerSpec& layer) const { return headsOf(layer) * headDimOf(layer); }
  uint32_t keyWidth(const LayerSpec& layer) const { return kvHeadsOf(layer) * headDimOf(layer); }
  uint32_t valueWidth(const LayerSpec& layer) const { return kvHeadsOf(layer) * valueDimOf(layer); }
  uint32_t queryWidth() const { return heads * headDim; }
  uint32_t gateWidth(const LayerSpec& layer) const { return gatesHeads ? headsOf(layer) : queryWidth(layer); }
  uint32_t keyWidth() const {
    uint32_t width = 0;
    for (const LayerSpec& layer : layerSpecs) width = std::max(width, keyWidth(layer));
    return layerSpecs.empty() ? kvHeads * headDim : width;
  }
  // Of what the output projection takes.
  uint32_t attendedWidth(const LayerSpec& layer) const {
    return latent.rank == 0 ? headsOf(layer) * valueDimOf(layer) : heads * latent.value;
  }
  // Of the embeddings of positions and types, and of their norm.
  uint32_t embeddedWidth() const { return embeddingFactorised ? embeddingSize : hiddenSize; }
  // Something that the processor alone computes.
  bool needsProcessor() const;
  // Of what a row's pooled hidden states become.
  uint32_t pooledWidth() const { return pooledLayers.empty() ? hiddenSize : pooledLayers.back().outputs; }
  bool has(Mixer mixer) const {
    return std::any_of(layerSpecs.begin(), layerSpecs.end(), [mixer](const LayerSpec& layer) {
      return layer.mixer == mixer || (mixer == Mixer::StateSpace && layer.stateBeside);
    });
  }
  bool remembers() const {
    return std::any_of(layerSpecs.begin(), layerSpecs.end(), [](const LayerSpec& layer) { return layer.remembers(); });
  }
  bool hasStateBeside() const {
    return std::any_of(layerSpecs.begin(), layerSpecs.end(), [](const LayerSpec& layer) { return layer.stateBeside; });
  }
  // Of all streams of hidden states, or of these and what experts gave.
  uint32_t hiddenWidth() const { return hiddenSize * (expertsAside ? 2 : streams.count); }
  // Those that a router chooses from.
  uint32_t routedExperts() const { return experts + identityExperts; }
  uint32_t inputTokens() const { return layerInputTokens == 0 ? vocabularySize : layerInputTokens; }
  // Of the delta rule: queries, keys and values, which go through the convolution, and what comes out.
  uint32_t deltaKeys() const { return recurrent.delta.keyHeads * recurrent.delta.keyDim; }
  uint32_t deltaValues() const { return recurrent.delta.valueHeads * recurrent.delta.valueDim; }
  uint32_t deltaDecays() const {
    return recurrent.delta.valueHeads * (recurrent.delta.decaysByKey ? recurrent.delta.keyDim : 1);
  }
  // Of lightning attention: what comes out of its heads.
  uint32_t lightningValues() const { return recurrent.lightning.heads * recurrent.lightning.headDim; }
  // Of a state space: what comes out of its heads.
  uint32_t stateValues() const { return recurrent.stateSpace.heads * recurrent.stateSpace.headDim; }
  uint32_t convolvedWidth(Mixer mixer) const;
  // What a layer projects of a token beside queries, keys and values of attention, and what attention or another mixer
  // makes of it.
  uint32_t mixedWidth() const;
  uint32_t outputWidth() const;
  // Floats that a layer remembers of a sequence.
  size_t stateFloats(const LayerSpec& layer) const;

  template <typename Fields>
  void fields(Fields& field) {
    field("family", family);
    field("layers", layers);
    if (field.has("part")) {
      const auto part = field.in("part");
      part("firstLayer", firstLayer);
      part.some("modelLayers", modelLayers);
    }
    if (field.has("share")) {
      const auto each = field.in("share");
      each("index", share);
      each("of", shares);
      if (each.has("attention")) {
        const auto rows = each.in("attention");
        rows("heads", rowHeads);
        rows("kvHeads", rowKvHeads);
      }
    }
    field("hiddenSize", hiddenSize);
    field("vocabularySize", vocabularySize);
    field("contextTokens", contextTokens);
    field("heads", heads);
    field("kvHeads", kvHeads);
    field("headDim", headDim);
    field("feedForwardSize", feedForwardSize);
    const auto norms = field.in("norm");
    norms("kind", norm, {{"rms", NormKind::Rms}, {"layer", NormKind::Layer}});
    norms("epsilon", normEpsilon);
    norms.optional("unweighted", unweightedNorms);
    field("residual", residual,
          {{"pre", Residual::Pre},
           {"post", Residual::Post},
           {"sandwich", Residual::Sandwich},
           {"branch", Residual::Branch},
           {"parallel", Residual::Parallel}});
    field("finalNorm", finalNorm);
    const auto embedding = field.in("embedding");
    embedding("size", embeddingSize);
    embedding("scale", embeddingScale);
    embedding.optional("norm", embeddingNorm);
    embedding.optional("factorised", embeddingFactorised);
    embedding.optional("tokenTypes", tokenTypes);
    attentionFields(field.in("attention"));
    recurrent.delta.epsilon = normEpsilon;
    field.optional("recurrent", recurrent);
    positionFields(field.in("position"));
    feedForwardFields(field.in("feedForward"));
    if (field.has("pooled")) field.list("pooled", pooledLayers, 64);
    field.optional("layerInputs", layerInputSize);
    field.optional("layerInputTokens", layerInputTokens);
    field.optional("streams", streams);
    field.optional("layerScale", layerScale);
    field.optional("residualScale", residualScale);
    field.optional("logitScale", logitScale);
    field.optional("logitSoftCap", logitSoftCap);
    field.list("layerSpecs", layerSpecs, 1u << 16);
  }

 private:
  template <typename Fields>
  void attentionFields(const Fields& field) {
    field("scale", attentionScale);
    field.optional("softCap", attentionSoftCap);
    field.optional("clip", attentionClip);
    field.optional("outputScale", attentionOutput);
    field("qkNorm", qkNorm,
          {{"none", QueryKeyNorm::None},
           {"head", QueryKeyNorm::Head},
           {"rotated", QueryKeyNorm::Rotated},
           {"unit", QueryKeyNorm::Unit},
           {"row", QueryKeyNorm::Row},
           {"layer", QueryKeyNorm::Layer}});
    field.optional("sinks", attentionSinks);
    field.optional("causal", causal);
    if (field.has("relativeBias")) {
      const auto bias = field.in("relativeBias");
      bias("buckets", relativeBuckets);
      bias("distance", relativeDistance);
    }
    field.optional("disentangled", disentangled);
    if (field.has("eviction")) {
      const auto kept = field.in("eviction");
      kept("sinks", evictionSinks);
      kept("window", evictionWindow);
    }
    field.optional("valueNorm", valueNorm);
    field.optional("latent", latent);
    field.optional("queryScale", queryScale);
    field.optional("gate", attentionGate);
    field.optional("gatesHeads", gatesHeads);
    field.optional("gateActivation", gateActivation,
                   {{"sigmoid", GateActivation::Sigmoid}, {"softplus", GateActivation::Softplus}});
    field.optional("valueDim", valueDim);
  }
  template <typename Fields>
  void positionFields(const Fields& field) {
    field("kind", position,
          {{"rotary", PositionKind::Rotary},
           {"learned", PositionKind::Learned},
           {"alibi", PositionKind::Alibi},
           {"none", PositionKind::None}});
    switch (position) {
      case PositionKind::None: return;
      case PositionKind::Learned: return field("offset", learnedOffset);
      case PositionKind::Alibi:
        field("slopes", alibiSlopes);
        field("roundToBfloat16", alibiRoundToBfloat16);
        field.optional("symmetric", alibiSymmetric);
        return;
      case PositionKind::Rotary:
        field("style", rotaryStyle, {{"pairs", RotaryStyle::Pairs}, {"halves", RotaryStyle::Halves}});
        field("dims", rotaryDims);
        field.list("tables", rotaryTables, 64);
    }
  }
  template <typename Fields>
  void feedForwardFields(const Fields& field) {
    field.optional("gateScale", gateScale);
    field.optional("innerScale", innerScale);
    field(
        "kind", feedForward,
        {{"plain", FeedForwardKind::Plain}, {"gated", FeedForwardKind::Gated}, {"experts", FeedForwardKind::Experts}});
    field("activation", activation,
          {{"relu", Activation::Relu},
           {"relu-squared", Activation::ReluSquared},
           {"gelu", Activation::Gelu},
           {"gelu-tanh", Activation::GeluTanh},
           {"silu", Activation::Silu},
           {"clamped-swiglu", Activation::ClampedSwiglu},
           {"xielu", Activation::Xielu}});
    if (feedForward != FeedForwardKind::Experts) return;
    const auto mixture = field.in("experts");
    mixture("count", experts);
    mixture("perToken", expertsPerToken);
    mixture.optional("gateless", gatelessExperts);
    mixture.optional("router", router);
    if (mixture.has("shared")) {
      const auto shared = mixture.in("shared");
      shared("size", sharedSize);
      shared("gate", sharedGate);
      shared.optional("scale", sharedScale);
      shared.optional("apart", router.apart);
    }
    mixture.optional("identities", identityExperts);
    mixture.optional("aside", expertsAside);
    mixture.optional("denseSize", denseSize);
  }
};

// Throws Error(InvalidArgument) naming the field, unless every count is within bounds under which no size computed from
// it overflows 64 bits, and all of them agree with each other.
void validate(const DecoderSpec& spec);

}  // namespace spillway
