#include "parseDecoder.h"

#include "arguments.h"

namespace spillway {

namespace {

constexpr uint32_t kMostEntries = 1u << 16;

uint32_t count(const Napi::Object& object, const char* key, const std::string& path) {
  return static_cast<uint32_t>(readInteger(object.Get(key), path + key, 0, UINT32_MAX));
}

// A number that may be left out.
float optionalFloat(const Napi::Object& object, const char* key, const std::string& path) {
  const Napi::Value value = object.Get(key);
  return value.IsUndefined() ? 0.0f : readFloat(value, path + key);
}

void parsePosition(const Napi::Object& object, const std::string& path, DecoderSpec& spec) {
  spec.position = readWord<PositionKind>(
      object.Get("kind"), path + "kind",
      {{"rotary", PositionKind::Rotary}, {"learned", PositionKind::Learned}, {"alibi", PositionKind::Alibi}});
  switch (spec.position) {
    case PositionKind::Learned: spec.learnedOffset = count(object, "offset", path); return;
    case PositionKind::Alibi:
      spec.alibiSlopes = readFloat32Array(object.Get("slopes"), path + "slopes");
      spec.alibiRoundToBfloat16 = readBoolean(object.Get("roundToBfloat16"), path + "roundToBfloat16");
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

void parseFeedForward(const Napi::Object& object, const std::string& path, DecoderSpec& spec) {
  spec.feedForward = readWord<FeedForwardKind>(
      object.Get("kind"), path + "kind",
      {{"plain", FeedForwardKind::Plain}, {"gated", FeedForwardKind::Gated}, {"experts", FeedForwardKind::Experts}});
  spec.activation = readWord<Activation>(object.Get("activation"), path + "activation",
                                         {{"relu", Activation::Relu},
                                          {"gelu", Activation::Gelu},
                                          {"gelu-tanh", Activation::GeluTanh},
                                          {"silu", Activation::Silu},
                                          {"clamped-swiglu", Activation::ClampedSwiglu}});
  if (spec.feedForward != FeedForwardKind::Experts) return;
  const Napi::Object experts = readObject(object.Get("experts"), path + "experts");
  spec.experts = count(experts, "count", path + "experts.");
  spec.expertsPerToken = count(experts, "perToken", path + "experts.");
}

void parseRecurrent(const Napi::Object& object, const std::string& path, DecoderSpec& spec) {
  spec.recurrent.taps = count(object, "taps", path);
  const Napi::Value delta = object.Get("delta");
  if (delta.IsUndefined()) return;
  const Napi::Object sizes = readObject(delta, path + "delta");
  spec.recurrent.keyHeads = count(sizes, "keyHeads", path + "delta.");
  spec.recurrent.valueHeads = count(sizes, "valueHeads", path + "delta.");
  spec.recurrent.keyDim = count(sizes, "keyDim", path + "delta.");
  spec.recurrent.valueDim = count(sizes, "valueDim", path + "delta.");
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
  spec.residual = readWord<Residual>(object.Get("residual"), path + "residual",
                                     {{"pre", Residual::Pre},
                                      {"post", Residual::Post},
                                      {"sandwich", Residual::Sandwich},
                                      {"parallel", Residual::Parallel}});
  spec.finalNorm = readBoolean(object.Get("finalNorm"), path + "finalNorm");
  const Napi::Object embedding = readObject(object.Get("embedding"), path + "embedding");
  spec.embeddingSize = count(embedding, "size", path + "embedding.");
  spec.embeddingScale = readFloat(embedding.Get("scale"), path + "embedding.scale");
  const Napi::Object attention = readObject(object.Get("attention"), path + "attention");
  spec.attentionScale = readFloat(attention.Get("scale"), path + "attention.scale");
  spec.attentionSoftCap = optionalFloat(attention, "softCap", path + "attention.");
  spec.qkNorm = readBoolean(attention.Get("qkNorm"), path + "attention.qkNorm");
  const Napi::Value sinks = attention.Get("sinks");
  spec.attentionSinks = !sinks.IsUndefined() && readBoolean(sinks, path + "attention.sinks");
  const Napi::Value gate = attention.Get("gate");
  spec.attentionGate = !gate.IsUndefined() && readBoolean(gate, path + "attention.gate");
  const Napi::Value recurrent = object.Get("recurrent");
  if (!recurrent.IsUndefined()) parseRecurrent(readObject(recurrent, path + "recurrent"), path + "recurrent.", spec);
  parsePosition(readObject(object.Get("position"), path + "position"), path + "position.", spec);
  parseFeedForward(readObject(object.Get("feedForward"), path + "feedForward"), path + "feedForward.", spec);

  spec.logitSoftCap = optionalFloat(object, "logitSoftCap", path);

  const Napi::Array layers = readArray(object.Get("layerSpecs"), path + "layerSpecs", kMostEntries);
  for (uint32_t l = 0, length = layers.Length(); l < length; l++) {
    const std::string name = path + "layerSpecs[" + std::to_string(l) + "]";
    const Napi::Object layer = readObject(layers.Get(l), name);
    const Napi::Value mixer = layer.Get("mixer");
    spec.layerSpecs.push_back({count(layer, "window", name + "."), count(layer, "rotaryTable", name + "."),
                               mixer.IsUndefined()
                                   ? Mixer::Attention
                                   : readWord<Mixer>(mixer, name + ".mixer",
                                                     {{"attention", Mixer::Attention},
                                                      {"delta-rule", Mixer::DeltaRule},
                                                      {"short-convolution", Mixer::ShortConvolution}})});
  }
  return spec;
}

}  // namespace spillway
