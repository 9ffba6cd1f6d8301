#include "parseOptions.h"

#include "../kernels/cpu/compressRows.h"
#include "arguments.h"
#include "grammarsToJavaScript.h"
#include "parseDecoder.h"

namespace spillway {

namespace {

constexpr uint32_t kMostBindings = 1u << 20;
constexpr uint32_t kMostSegments = 1u << 22;  // of all bindings
constexpr uint32_t kMostFiles = 1u << 16;
constexpr uint32_t kMostEvents = 1u << 12;
constexpr uint32_t kMostGroupedLayers = 1u << 12;
constexpr uint64_t kMostSafe = (uint64_t(1) << 53) - 1;

uint32_t count(const Napi::Object& object, const char* key, const std::string& path) {
  return static_cast<uint32_t>(readInteger(object.Get(key), path + key, 0, UINT32_MAX));
}

WeightType readWeightType(const Napi::Value& value, const std::string& name, bool (*accepts)(WeightType)) {
  const std::string word = value.IsString() ? readString(value, name) : std::string();
  std::string expected = "one of";
  for (const WeightType type : kWeightTypes) {
    if (!accepts(type)) continue;
    if (word == weightTypeName(type)) return type;
    expected += std::string(" ") + weightTypeName(type);
  }
  refuseArgument(name, value, expected);
}

Float8Scales parseFloat8(const Napi::Value& value, const std::string& name) {
  const Napi::Object object = readObject(value, name);
  const std::string path = name + ".";
  Float8Scales scales;
  scales.file = count(object, "file", path);
  scales.offset = readInteger(object.Get("offset"), path + "offset", 0, kMostSafe);
  scales.type = readWeightType(object.Get("type"), path + "type", isFloatType);
  scales.blockRows = count(object, "blockRows", path);
  scales.blockColumns = count(object, "blockColumns", path);
  scales.tensorOffset = readInteger(object.Get("tensorOffset"), path + "tensorOffset", 0, kMostSafe);
  scales.tensorRows = count(object, "tensorRows", path);
  return scales;
}

BlockScales parseBlockScales(const Napi::Value& value, const std::string& name) {
  const Napi::Object object = readObject(value, name);
  const std::string path = name + ".";
  return {count(object, "file", path), readInteger(object.Get("offset"), path + "offset", 0, kMostSafe),
          readInteger(object.Get("tensorOffset"), path + "tensorOffset", 0, kMostSafe)};
}

PackedIntegers::Place parsePlace(const Napi::Value& value, const std::string& name) {
  const Napi::Object object = readObject(value, name);
  return {count(object, "file", name + "."), readInteger(object.Get("offset"), name + ".offset", 0, kMostSafe)};
}

PackedIntegers parsePacked(const Napi::Value& value, const std::string& name) {
  const Napi::Object object = readObject(value, name);
  const std::string path = name + ".";
  PackedIntegers packed;
  packed.order = readWord<PackedIntegers::Order>(object.Get("order"), path + "order",
                                                 {{"rows", PackedIntegers::Order::Rows},
                                                  {"inputs", PackedIntegers::Order::Inputs},
                                                  {"outputs", PackedIntegers::Order::Outputs}});
  packed.bits = count(object, "bits", path);
  packed.isSigned = readBoolean(object.Get("signed"), path + "signed");
  packed.group = count(object, "group", path);
  packed.tensorRows = count(object, "tensorRows", path);
  packed.zero = static_cast<int32_t>(readInteger(object.Get("zero"), path + "zero", 0, 256));
  packed.values = parsePlace(object.Get("values"), path + "values");
  packed.scales = parsePlace(object.Get("scales"), path + "scales");
  packed.scaleType = readWeightType(object.Get("scaleType"), path + "scaleType", isFloatType);
  packed.groupsFirst = readBoolean(object.Get("groupsFirst"), path + "groupsFirst");
  const Napi::Value zeros = object.Get("zeros"), groupIndex = object.Get("groupIndex");
  if (!zeros.IsUndefined()) packed.zeros = parsePlace(zeros, path + "zeros");
  if (!groupIndex.IsUndefined()) packed.groupIndex = parsePlace(groupIndex, path + "groupIndex");
  const Napi::Value zeroBytes = object.Get("zeroBytes");
  packed.zeroBytes = !zeroBytes.IsUndefined() && readBoolean(zeroBytes, path + "zeroBytes");
  const Napi::Value scaleOf = object.Get("scaleOf");
  if (!scaleOf.IsUndefined()) packed.scaleOf = readFloat(scaleOf, path + "scaleOf");
  return packed;
}

CodedFloats parseCoded(const Napi::Value& value, const std::string& name) {
  using Scale = CodedFloats::Scale;
  const Napi::Object object = readObject(value, name);
  const std::string path = name + ".";
  CodedFloats coded;
  coded.tensorRows = count(object, "tensorRows", path);
  coded.highFirst = readBoolean(object.Get("highFirst"), path + "highFirst");
  coded.group = count(object, "group", path);
  coded.values = parsePlace(object.Get("values"), path + "values");
  coded.scales = parsePlace(object.Get("scales"), path + "scales");
  coded.scaleType = readWord<Scale>(object.Get("scaleType"), path + "scaleType",
                                    {{"F32", Scale::Float32}, {"F8_E4M3", Scale::Float8}, {"U8", Scale::Nested}});
  const Napi::Value codebook = object.Get("codebook"), global = object.Get("global"), nested = object.Get("nested");
  if (!codebook.IsUndefined()) coded.codebook = parsePlace(codebook, path + "codebook");
  if (!global.IsUndefined()) {
    coded.global = parsePlace(global, path + "global");
    coded.globalDivides = readBoolean(object.Get("globalDivides"), path + "globalDivides");
  }
  if (coded.scaleType == Scale::Nested) {
    const Napi::Object scales = readObject(nested, path + "nested");
    const std::string inner = path + "nested.";
    coded.nestedMap = parsePlace(scales.Get("map"), inner + "map");
    coded.nestedScales = parsePlace(scales.Get("scales"), inner + "scales");
    coded.nestedGroup = count(scales, "group", inner);
    coded.nestedOffset = readFloat(scales.Get("offset"), inner + "offset");
  }
  return coded;
}

WeightBinding parseBinding(const Napi::Value& value, const std::string& name, uint32_t& segmentsLeft) {
  const Napi::Object object = readObject(value, name);
  const std::string path = name + ".";
  WeightBinding binding;
  binding.role = readString(object.Get("role"), path + "role");
  const double layer = readNumber(object.Get("layer"), path + "layer");
  binding.layer =
      layer == -1 ? -1 : static_cast<int32_t>(readInteger(object.Get("layer"), path + "layer", 0, INT32_MAX));
  binding.matrix = readWord<bool>(object.Get("kind"), path + "kind", {{"matrix", true}, {"vector", false}});
  binding.type = readWeightType(object.Get("type"), path + "type",
                                [](WeightType type) { return static_cast<int>(type) < kFirstOwnWeightType; });
  binding.rows = count(object, "rows", path);
  binding.columns = count(object, "columns", path);
  const Napi::Value add = object.Get("add");
  if (!add.IsUndefined()) binding.add = readFloat(add, path + "add");
  const Napi::Value compressed = object.Get("compressed");
  if (!compressed.IsUndefined()) {
    binding.compressed = readWeightType(compressed, path + "compressed", isCompressedType);
  }
  const Napi::Value float8 = object.Get("float8");
  if (!float8.IsUndefined()) binding.float8 = parseFloat8(float8, path + "float8");
  const Napi::Value blockScales = object.Get("blockScales");
  if (!blockScales.IsUndefined()) binding.blockScales = parseBlockScales(blockScales, path + "blockScales");
  const Napi::Value packed = object.Get("packed");
  if (!packed.IsUndefined()) binding.packed = parsePacked(packed, path + "packed");
  const Napi::Value coded = object.Get("coded");
  if (!coded.IsUndefined()) binding.coded = parseCoded(coded, path + "coded");
  if (!object.Get("inputRow").IsUndefined()) binding.inputRow = count(object, "inputRow", path);
  if (!object.Get("rowColumns").IsUndefined()) binding.rowColumns = count(object, "rowColumns", path);
  const Napi::Array segments = readArray(object.Get("segments"), path + "segments", segmentsLeft);
  segmentsLeft -= segments.Length();
  binding.segments.reserve(segments.Length());
  for (uint32_t s = 0, length = segments.Length(); s < length; s++) {
    const std::string segmentPath = path + "segments[" + std::to_string(s) + "]";
    const Napi::Object segment = readObject(segments.Get(s), segmentPath);
    binding.segments.push_back({count(segment, "file", segmentPath + "."),
                                readInteger(segment.Get("offset"), segmentPath + ".offset", 0, kMostSafe),
                                count(segment, "rows", segmentPath + "."),
                                segment.Get("step").IsUndefined() ? 1 : count(segment, "step", segmentPath + ".")});
  }
  return binding;
}

// One a file.
std::vector<std::string> parseFiles(const Napi::Value& value, const std::string& name = "files") {
  const Napi::Array array = readArray(value, name, kMostFiles);
  std::vector<std::string> files;
  for (uint32_t f = 0, length = array.Length(); f < length; f++) {
    files.push_back(readString(array.Get(f), name + "[" + std::to_string(f) + "]"));
  }
  return files;
}

std::vector<WeightBinding> parseBindings(const Napi::Value& value) {
  const Napi::Array array = readArray(value, "bindings", kMostBindings);
  std::vector<WeightBinding> bindings;
  uint32_t segmentsLeft = kMostSegments;
  for (uint32_t b = 0, length = array.Length(); b < length; b++) {
    Napi::HandleScope scope(value.Env());
    bindings.push_back(parseBinding(array.Get(b), "bindings[" + std::to_string(b) + "]", segmentsLeft));
  }
  return bindings;
}

// One integer a layer.
std::vector<uint32_t> parseGroups(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const Napi::Array array = readArray(value, "cache.groups", kMostGroupedLayers);
  std::vector<uint32_t> groups;
  for (uint32_t layer = 0, length = array.Length(); layer < length; layer++) {
    groups.push_back(static_cast<uint32_t>(
        readInteger(array.Get(layer), "cache.groups[" + std::to_string(layer) + "]", 0, kMostGroupedLayers - 1)));
  }
  return groups;
}

std::optional<StoredWeights> parseStoredWeights(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const Napi::Object object = readObject(value, "weights");
  StoredWeights weights;
  weights.store = readString(object.Get("store"), "weights.store");
  weights.fingerprint = readString(object.Get("fingerprint"), "weights.fingerprint");
  weights.residentLayerBytes =
      readInteger(object.Get("residentLayerBytes"), "weights.residentLayerBytes", 0, kMostSafe);
  weights.buffers = count(object, "buffers", "weights.");
  return weights;
}

std::optional<SpillOptions> parseSpill(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const Napi::Object object = readObject(value, "spill");
  SpillOptions spill;
  spill.folder = readString(object.Get("folder"), "spill.folder");
  spill.pages = count(object, "pages", "spill.");
  spill.buffers = count(object, "buffers", "spill.");
  spill.bufferPages = count(object, "bufferPages", "spill.");
  spill.hiddenBytes = readInteger(object.Get("hiddenBytes"), "spill.hiddenBytes", 0, kMostSafe);
  const Napi::Value gap = object.Get("gapBytes");
  if (!gap.IsUndefined()) spill.gapBytes = readInteger(gap, "spill.gapBytes", 0, kMostSafe);
  return spill;
}

std::optional<GpuOptions> parseGpu(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const Napi::Object object = readObject(value, "gpu");
  GpuOptions gpu;
  gpu.device = count(object, "device", "gpu.");
  gpu.memoryBytes = readInteger(object.Get("memoryBytes"), "gpu.memoryBytes", 0, kMostSafe);
  gpu.pinnedBytes = readInteger(object.Get("pinnedBytes"), "gpu.pinnedBytes", 0, kMostSafe);
  gpu.pages = count(object, "pages", "gpu.");
  gpu.residentLayerBytes = readInteger(object.Get("residentLayerBytes"), "gpu.residentLayerBytes", 0, kMostSafe);
  gpu.buffers = count(object, "buffers", "gpu.");
  gpu.cacheBuffers = count(object, "cacheBuffers", "gpu.");
  gpu.cacheBufferPages = count(object, "cacheBufferPages", "gpu.");
  const Napi::Value shares = object.Get("sharesAttention");
  gpu.sharesAttention = !shares.IsUndefined() && readBoolean(shares, "gpu.sharesAttention");
  const Napi::Value products = object.Get("products");
  if (!products.IsUndefined())
    gpu.products = readWord<GpuProducts>(
        products, "gpu.products",
        {{"own", GpuProducts::Own}, {"cublaslt", GpuProducts::CublasLt}, {"auto", GpuProducts::Auto}});
  return gpu;
}

}  // namespace

RuntimeOptions parseRuntimeOptions(const Napi::Value& value) {
  const Napi::Object object = readObject(value, "options");
  RuntimeOptions options;
  options.decoder = parseDecoder(object.Get("decoder"));
  options.files = parseFiles(object.Get("files"));
  options.bindings = parseBindings(object.Get("bindings"));
  options.precision = readWord<Precision>(
      object.Get("precision"), "precision",
      {{"default", Precision::Default}, {"words", Precision::Words}, {"float32", Precision::Float32}});
  options.threads = count(object, "threads", "");
  const Napi::Value set = object.Get("instructionSet");
  options.instructionSet = set.IsUndefined() ? bestInstructionSet()
                                             : readWord<InstructionSet>(set, "instructionSet",
                                                                        {{"scalar", InstructionSet::Scalar},
                                                                         {"avx2", InstructionSet::Avx2},
                                                                         {"avxvnni", InstructionSet::AvxVnni},
                                                                         {"avx512", InstructionSet::Avx512},
                                                                         {"amx", InstructionSet::Amx},
                                                                         {"neon", InstructionSet::Neon},
                                                                         {"dotprod", InstructionSet::Dotprod},
                                                                         {"i8mm", InstructionSet::I8mm}});
  const Napi::Object cache = readObject(object.Get("cache"), "cache");
  options.cacheType = readWord<CacheType>(
      cache.Get("type"), "cache.type",
      {{"f32", CacheType::F32}, {"f16", CacheType::F16}, {"q8", CacheType::Q8}, {"q4", CacheType::Q4}});
  options.pageTokens = count(cache, "pageTokens", "cache.");
  options.pages = count(cache, "pages", "cache.");
  const Napi::Value states = cache.Get("states");
  if (!states.IsUndefined()) options.states = count(cache, "states", "cache.");
  options.cacheGroups = parseGroups(cache.Get("groups"));
  const Napi::Value sparse = object.Get("sparseAttention");
  if (!sparse.IsUndefined()) options.keepKeys = readFloat(sparse, "sparseAttention");
  const Napi::Object limits = readObject(object.Get("limits"), "limits");
  options.limits = {count(limits, "tokensPerSquare", "limits."), count(limits, "rowsPerSquare", "limits.")};
  options.weights = parseStoredWeights(object.Get("weights"));
  options.spill = parseSpill(object.Get("spill"));
  options.gpu = parseGpu(object.Get("gpu"));
  return options;
}

RepackOptions parseRepackOptions(const Napi::Value& value) {
  const Napi::Object object = readObject(value, "options");
  RepackOptions options;
  options.decoder = parseDecoder(object.Get("decoder"));
  options.bindings = parseBindings(object.Get("bindings"));
  options.files = parseFiles(object.Get("files"));
  const Napi::Value stamps = object.Get("stamps");
  if (!stamps.IsUndefined()) options.stamps = parseFiles(stamps, "stamps");
  options.store = readString(object.Get("store"), "store");
  options.fingerprint = readString(object.Get("fingerprint"), "fingerprint");
  options.threads = count(object, "threads", "");
  return options;
}

namespace {

constexpr uint32_t kMostBadWords = 1u << 16;

std::shared_ptr<const LogitAdjustments> parseAdjustments(const Napi::Value& value) {
  const Napi::Object object = readObject(value, "adjustments");
  LogitAdjustments adjustments;
  adjustments.presencePenalty = readFloat(object.Get("presencePenalty"), "presencePenalty");
  adjustments.frequencyPenalty = readFloat(object.Get("frequencyPenalty"), "frequencyPenalty");
  adjustments.biasedTokens = readInt32Array(object.Get("biasedTokens"), "biasedTokens");
  adjustments.biases = readFloat32Array(object.Get("biases"), "biases");
  adjustments.endTokens = readInt32Array(object.Get("endTokens"), "endTokens");
  adjustments.minNewTokens = count(object, "minNewTokens", "");
  const Napi::Array words = readArray(object.Get("badWords"), "badWords", kMostBadWords);
  for (uint32_t i = 0; i < words.Length(); i++)
    adjustments.badWords.push_back(readInt32Array(words.Get(i), "badWords"));
  return std::make_shared<const LogitAdjustments>(std::move(adjustments));
}

}  // namespace

SequenceOptions parseSequenceOptions(const Napi::Value& value) {
  const Napi::Object object = readObject(value, "options");
  SequenceOptions options;
  options.tokens = readInt32Array(object.Get("tokens"), "tokens");
  options.capacityTokens = count(object, "capacityTokens", "");
  if (object.Has("promptTokens")) options.promptTokens = count(object, "promptTokens", "");
  options.sampling.temperature = readFloat(object.Get("temperature"), "temperature");
  options.sampling.topP = readFloat(object.Get("topP"), "topP");
  options.sampling.topK = count(object, "topK", "");
  options.sampling.minP = readFloat(object.Get("minP"), "minP");
  options.sampling.repetitionPenalty = readFloat(object.Get("repetitionPenalty"), "repetitionPenalty");
  options.sampling.seed = count(object, "seed", "");
  if (object.Has("adjustments")) options.adjustments = parseAdjustments(object.Get("adjustments"));
  if (object.Has("candidates")) options.candidates = readInt32Array(object.Get("candidates"), "candidates");
  if (object.Has("certainty")) options.certainty = readBoolean(object.Get("certainty"), "certainty");
  if (object.Has("state"))
    options.state = static_cast<int32_t>(readInteger(object.Get("state"), "state", 0, INT32_MAX));
  if (object.Has("pooling"))
    options.pooling = readWord<Pooling>(object.Get("pooling"), "pooling",
                                        {{"last", Pooling::Last},
                                         {"mean", Pooling::Mean},
                                         {"first", Pooling::First},
                                         {"max", Pooling::Max},
                                         {"weightedmean", Pooling::WeightedMean}});
  if (object.Has("secondText")) options.secondText = count(object, "secondText", "");
  const double logprobs = readNumber(object.Get("logprobs"), "logprobs");
  options.logprobs =
      logprobs == -1 ? -1 : static_cast<int32_t>(readInteger(object.Get("logprobs"), "logprobs", 0, INT32_MAX));
  if (object.Has("grammar")) options.grammar = readGrammar(object.Get("grammar"), "grammar");
  return options;
}

std::vector<EventId> parseEvents(const Napi::Value& value, std::string_view name) {
  const Napi::Array array = readArray(value, name, kMostEvents);
  const uint32_t length = array.Length();
  std::vector<EventId> events;
  events.reserve(length);
  for (uint32_t i = 0; i < length; i++) events.push_back(readInteger(array.Get(i), name, 1, kMostSafe));
  return events;
}

}  // namespace spillway
