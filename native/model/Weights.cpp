#include "Weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>

#include "../kernels/cpu/compressRows.h"
#include "../system/Error.h"
#include "WeightRoles.h"
#include "codedRows.h"
#include "packedRows.h"

namespace spillway {

// A binding and the member that it fills.
struct Weights::Match {
  const WeightBinding* binding = nullptr;
  StoredMatrix* matrix = nullptr;
  const float** vector = nullptr;
  size_t order = 0;  // of use, within the block
};

namespace {

std::string shapeText(bool matrix, uint64_t rows, uint64_t columns) {
  return matrix ? "matrix [" + std::to_string(rows) + ", " + std::to_string(columns) + "]"
                : "vector [" + std::to_string(rows) + "]";
}

std::string label(int32_t layer, const std::string& role) {
  return layer < 0 ? role.substr(0, 64) : "layer " + std::to_string(layer) + " " + role.substr(0, 64);
}

// Of all scales of a matrix of 8-bit floats.
uint64_t scaleBytes(const WeightBinding& binding) {
  const Float8Scales& scales = *binding.float8;
  const uint64_t down = (uint64_t(scales.tensorRows) - 1) / scales.blockRows + 1;
  const uint64_t across = (uint64_t(binding.scaledColumns()) - 1) / scales.blockColumns + 1;
  return down * across * weightRowBytes(scales.type, 1);
}

// Bytes of a block for each byte of its scale.
constexpr uint64_t kBlockScaleBytes = 16;
constexpr uint32_t kMostRowColumns = 1u << 28;

uint64_t addBytes(uint64_t a, uint64_t b) {
  if (a > std::numeric_limits<int64_t>::max() - b) throw Error(ErrorCode::Memory, "the weights' bytes overflow");
  return a + b;
}

uint64_t aligned(uint64_t bytes) {
  return addBytes(bytes, Weights::kAlignment - 1) / Weights::kAlignment * Weights::kAlignment;
}

// Matches bindings with roles. One object for the time of one constructor.
struct Matcher {
  const DecoderSpec& spec;
  const std::vector<std::string>& files;
  std::unordered_set<const void*> taken;

  std::string fileOf(const WeightBinding* binding) const {
    const size_t file = binding == nullptr || binding->segments.empty() ? 0 : binding->segments[0].file;
    return file < files.size() ? files[file] : "the model";
  }
  [[noreturn]] void refuse(const WeightBinding& binding, const std::string& found, const std::string& expected) const {
    throw FileError(fileOf(&binding), weightLabel(binding), found, expected);
  }

  // True where `name` is one of the roles; then the match's matrix or vector points at the owner's member.
  // The result's order of use counts from `firstOrder`.
  template <typename Owner>
  bool find(const std::vector<WeightRole<Owner>>& roles, const std::string& name, Owner& owner, size_t firstOrder,
            Weights::Match& match) {
    const WeightBinding& binding = *match.binding;
    for (const WeightRole<Owner>& role : roles) {
      if (name != role.name) continue;
      match.matrix = role.matrix == nullptr ? nullptr : &(owner.*role.matrix);
      match.vector = role.vector == nullptr ? nullptr : &(owner.*role.vector);
      match.order = firstOrder + static_cast<size_t>(&role - roles.data());
      check(binding, role.presence, match.matrix != nullptr, role.shape);
      const void* place =
          match.matrix != nullptr ? static_cast<const void*>(match.matrix) : static_cast<const void*>(match.vector);
      if (!taken.insert(place).second) refuse(binding, "two bindings", "one");
      return true;
    }
    return false;
  }

  // The same for "weight" and "bias" of a layer over pooled hidden states, whose shapes follow from the layer before.
  bool findPooled(size_t number, const std::string& name, PooledWeights& owner, size_t firstOrder,
                  Weights::Match& match) {
    if (name != "weight" && name != "bias") return false;
    const PooledLayer& layer = spec.pooledLayers[number];
    const uint32_t inputs = number == 0 ? spec.hiddenSize : spec.pooledLayers[number - 1].outputs;
    const bool matrix = name == "weight" && !layer.norm;
    if (matrix)
      match.matrix = &owner.weight;
    else
      match.vector = name == "bias" ? &owner.bias : &owner.norm;
    match.order = firstOrder + 2 * number + (name == "bias" ? 1 : 0);
    check(*match.binding, Presence::Required, matrix, {layer.outputs, matrix ? inputs : 1});
    const void* place = matrix ? static_cast<const void*>(match.matrix) : static_cast<const void*>(match.vector);
    if (!taken.insert(place).second) refuse(*match.binding, "two bindings", "one");
    return true;
  }

  void check(const WeightBinding& binding, Presence presence, bool matrix, WeightShape shape) const {
    if (presence == Presence::Unused) refuse(binding, "a binding", "none: this decoder has no use for it");
    const bool rowsFit = shape.moreRows ? binding.rows >= shape.rows : binding.rows == shape.rows;
    if (binding.matrix != matrix || !rowsFit || binding.columns != shape.columns) {
      refuse(binding, shapeText(binding.matrix, binding.rows, binding.columns),
             shapeText(matrix, shape.rows, shape.columns) + (shape.moreRows ? " or more rows" : ""));
    }
    if (!matrix && !isFloatType(binding.type)) refuse(binding, "a quantised vector", "F32, F16 or BF16");
    const size_t block = weightBlockElements(binding.type);
    if (matrix && binding.columns % block != 0) {
      refuse(binding, std::to_string(binding.columns) + " columns",
             "a multiple of " + std::to_string(block) + ", the block of its type");
    }
    if (binding.compressed) checkCompressed(binding);
    if (binding.float8) checkFloat8(binding, *binding.float8);
    if (binding.blockScales) checkBlockScales(binding, *binding.blockScales);
    if (binding.packed) checkPacked(binding, *binding.packed);
    if (binding.coded) checkCoded(binding, *binding.coded);
    if (binding.inputRow != 0) checkInputRow(binding);
    if (binding.rowColumns != 0) checkRowColumns(binding);
    uint64_t rows = 0;
    for (const WeightSegment& segment : binding.segments) {
      if (segment.rows == 0) refuse(binding, "a segment without rows", "at least one row a segment");
      if (segment.step == 0 || segment.step > WeightSegment::kMostStep || (segment.step != 1 && binding.float8))
        refuse(binding, "every " + std::to_string(segment.step) + "th row of a segment",
               binding.float8 ? "all rows of 8-bit floats" : "1 to " + std::to_string(WeightSegment::kMostStep));
      if (segment.file >= files.size())
        refuse(binding, "file " + std::to_string(segment.file), "an index under " + std::to_string(files.size()));
      rows += segment.rows;
    }
    if (rows != binding.rows)
      refuse(binding, std::to_string(rows) + " rows in its segments", std::to_string(binding.rows));
  }

  void checkCompressed(const WeightBinding& binding) const {
    const WeightType type = *binding.compressed;
    if (!binding.matrix || !isCompressedType(type))
      refuse(binding, "compression to " + std::string(weightTypeName(type)),
             "a matrix, compressed to Q4_G64, Q8_0 or Q8_R");
    const size_t block = weightBlockElements(type);
    if (binding.columns % block == 0) return;
    refuse(binding, std::to_string(binding.columns) + " columns",
           "a multiple of " + std::to_string(block) + ", the group of " + weightTypeName(type));
  }

  void checkFloat8(const WeightBinding& binding, const Float8Scales& scales) const {
    if (!binding.matrix || binding.type != WeightType::F16)
      refuse(binding, "scales of 8-bit floats for " + std::string(weightTypeName(binding.type)), "a matrix of F16");
    if (!isFloatType(scales.type))
      refuse(binding, "scales of " + std::string(weightTypeName(scales.type)), "F32, F16 or BF16");
    if (scales.file >= files.size())
      refuse(binding, "scales in file " + std::to_string(scales.file), "under " + std::to_string(files.size()));
    if (scales.blockRows == 0 ||
        scales.blockColumns < std::min<uint32_t>(Float8Scales::kLeastColumns, std::max(binding.scaledColumns(), 1u))) {
      refuse(binding,
             "a scale for " + std::to_string(scales.blockRows) + " rows of " + std::to_string(scales.blockColumns),
             "one for 1 row or more of " + std::to_string(Float8Scales::kLeastColumns) + " or more");
    }
    const uint64_t rowBytes = binding.scaledColumns(), end = scales.tensorOffset + scales.tensorRows * rowBytes;
    for (const WeightSegment& segment : binding.segments) {
      const uint64_t within = (segment.offset - scales.tensorOffset) % std::max<uint64_t>(rowBytes, 1);
      const bool inside =
          segment.rows != 0 && segment.offset >= scales.tensorOffset && segment.offset <= end &&
          binding.spannedBytes(segment) <= end - segment.offset &&
          within + (binding.inputRow == 0 ? 0 : segment.rows - 1) < (binding.inputRow == 0 ? 1 : rowBytes);
      if (!inside) refuse(binding, "rows beside those that have scales", "rows of the tensor");
    }
  }

  void checkBlockScales(const WeightBinding& binding, const BlockScales& scales) const {
    if (!binding.matrix || binding.type != WeightType::MXFP4)
      refuse(binding, "scales of blocks of " + std::string(weightTypeName(binding.type)), "a matrix of MXFP4");
    if (scales.file >= files.size())
      refuse(binding, "scales in file " + std::to_string(scales.file), "under " + std::to_string(files.size()));
    for (const WeightSegment& segment : binding.segments) {
      const size_t unit = binding.rowColumns == 0 ? binding.pitchBytes() : size_t(kBlockScaleBytes);
      if (segment.offset < scales.tensorOffset ||
          (segment.offset - scales.tensorOffset) % std::max<size_t>(1, unit) != 0)
        refuse(binding, "rows beside those that have scales", "rows of the tensor");
    }
  }

  void checkPacked(const WeightBinding& binding, const PackedIntegers& packed) const {
    const bool kept = binding.type == WeightType::F32 || binding.type == WeightType::Q4_0 ||
                      binding.type == WeightType::Q5_0 || binding.type == WeightType::Q8_0;
    if (!binding.matrix || !kept || binding.float8 || binding.blockScales || binding.inputRow != 0 ||
        binding.rowColumns != 0)
      refuse(binding, "packed integers as " + std::string(weightTypeName(binding.type)),
             "a matrix of F32, Q4_0, Q5_0 or Q8_0, and nothing beside them");
    if (packed.bits != 4 && packed.bits != 8) refuse(binding, std::to_string(packed.bits) + " bits", "4 or 8");
    if (packed.isSigned && (packed.bits != 8 || packed.order != PackedIntegers::Order::Rows))
      refuse(binding, "integers with a sign in words", "bytes, a row for each output");
    const uint32_t per = 32 / packed.bits;
    const bool words = packed.order == PackedIntegers::Order::Outputs || packed.zeros;
    if (packed.tensorRows == 0 || (words && packed.tensorRows % per != 0) || binding.columns % per != 0)
      refuse(binding, std::to_string(packed.tensorRows) + " x " + std::to_string(binding.columns) + " integers",
             "whole words of " + std::to_string(per));
    const bool blocks = binding.type != WeightType::F32;
    if (packed.group == 0 ||
        (blocks && (packed.groupIndex || (packed.group % 32 != 0 && packed.group < binding.columns))))
      refuse(binding, "groups of " + std::to_string(packed.group) + " inputs", "whole blocks of 32, in order");
    if (packed.zero < -256 || packed.zero > 256) refuse(binding, std::to_string(packed.zero), "a zero point to 256");
    if (!isFloatType(packed.scaleType))
      refuse(binding, "scales of " + std::string(weightTypeName(packed.scaleType)), "F32, F16 or BF16");
    for (const PackedIntegers::Place& place : {packed.values, packed.scales, packed.zeros.value_or(packed.values),
                                               packed.groupIndex.value_or(packed.values)})
      if (place.file >= files.size())
        refuse(binding, "integers in file " + std::to_string(place.file), "under " + std::to_string(files.size()));
    if (!(packed.scaleOf >= 1 && packed.scaleOf <= 128))
      refuse(binding, "scales of " + std::to_string(packed.scaleOf), "of 1 to 128");
    checkCounted(binding, packed.tensorRows);
  }

  void checkCounted(const WeightBinding& binding, uint32_t tensorRows) const {
    for (const WeightSegment& segment : binding.segments)
      if (segment.step != 1 || segment.offset > tensorRows || segment.rows > tensorRows - segment.offset)
        refuse(binding, "rows beside those of the tensor", "some of its " + std::to_string(tensorRows));
  }

  void checkCoded(const WeightBinding& binding, const CodedFloats& coded) const {
    if (!binding.matrix || !isFloatType(binding.type) || binding.float8 || binding.blockScales || binding.packed ||
        binding.inputRow != 0 || binding.rowColumns != 0)
      refuse(binding, "4-bit floats as " + std::string(weightTypeName(binding.type)),
             "a matrix of F32, F16 or BF16, and nothing beside them");
    if (coded.tensorRows == 0 || binding.columns == 0 || binding.columns % 2 != 0)
      refuse(binding, std::to_string(coded.tensorRows) + " x " + std::to_string(binding.columns) + " 4-bit floats",
             "rows of whole bytes");
    if (coded.group == 0 || (coded.scaleType == CodedFloats::Scale::Nested && coded.nestedGroup == 0))
      refuse(binding, "a scale for no weight", "one for 1 or more");
    if (!std::isfinite(coded.nestedOffset)) refuse(binding, "an offset that is no number", "a finite one");
    forCodedTensors(binding, [&](const CodedFloats::Place& place, uint64_t) {
      if (place.file >= files.size())
        refuse(binding, "4-bit floats in file " + std::to_string(place.file), "under " + std::to_string(files.size()));
    });
    checkCounted(binding, coded.tensorRows);
  }

  void checkInputRow(const WeightBinding& binding) const {
    if (!binding.matrix || !isFloatType(binding.type))
      refuse(binding, "rows of inputs of " + std::string(weightTypeName(binding.type)), "a matrix of F32, F16 or BF16");
    for (const WeightSegment& segment : binding.segments)
      if (segment.rows == 0 || uint64_t(segment.rows - 1) * segment.step >= binding.inputRow)
        refuse(binding, std::to_string(segment.rows) + " of " + std::to_string(binding.inputRow) + " outputs",
               "as many as an input has");
  }

  void checkRowColumns(const WeightBinding& binding) const {
    if (!binding.matrix || binding.inputRow != 0 || binding.float8)
      refuse(binding, "some of the columns of a row",
             "a matrix that lies with a row for each output, in no 8-bit floats");
    if (binding.rowColumns < binding.columns || binding.rowColumns > kMostRowColumns ||
        binding.rowColumns % weightBlockElements(binding.type) != 0)
      refuse(binding, std::to_string(binding.columns) + " of " + std::to_string(binding.rowColumns) + " columns",
             "as many as a row has, in whole blocks");
  }

  template <typename Owner>
  void checkComplete(const std::vector<WeightRole<Owner>>& roles, Owner& owner, int32_t layer,
                     const std::string& prefix) const {
    for (const WeightRole<Owner>& role : roles) {
      const void* place = role.matrix != nullptr ? static_cast<const void*>(&(owner.*role.matrix))
                                                 : static_cast<const void*>(&(owner.*role.vector));
      if (role.presence != Presence::Required || taken.count(place) != 0) continue;
      throw FileError(fileOf(nullptr), label(layer, prefix + role.name), "no such tensor",
                      shapeText(role.matrix != nullptr, role.shape.rows, role.shape.columns));
    }
  }
};

// "expert.12.up.weight": the number, which is under `count`, and what follows it; false for anything else.
bool parseNumbered(const std::string& prefix, const std::string& role, uint32_t count, uint32_t* number,
                   std::string* rest) {
  if (role.compare(0, prefix.size(), prefix) != 0) return false;
  uint64_t value = 0;
  size_t at = prefix.size();
  for (; at < role.size() && role[at] >= '0' && role[at] <= '9' && value < count; at++)
    value = value * 10 + static_cast<uint64_t>(role[at] - '0');
  if (at == prefix.size() || at >= role.size() || role[at] != '.' || value >= count) return false;
  *number = static_cast<uint32_t>(value);
  *rest = role.substr(at + 1);
  return true;
}

}  // namespace

std::string Weights::blockName(size_t block) const {
  return block == 0 ? "globals" : "layer " + std::to_string(firstLayer_ + block - 1);
}

std::string weightLabel(const WeightBinding& binding) { return label(binding.layer, binding.role); }

Weights::Weights(const DecoderSpec& spec, std::vector<WeightBinding> bindings, const std::vector<std::string>& files,
                 std::optional<uint64_t> residentLayerBytes)
    : bindings_(std::move(bindings)), firstLayer_(spec.firstLayer) {
  Matcher matcher{spec, files, {}};
  // A spec that promises more weights than there are bindings is refused before anything is allocated for it.
  uint64_t needed = 0;
  for (const LayerSpec& layer : spec.layerSpecs)
    needed +=
        (layer.mixerOnly ? 5 : 6) + (spec.hasExperts(layer) ? (spec.hasGates() ? 3 : 2) * uint64_t(spec.experts) : 0);
  if (bindings_.size() < needed) {
    throw FileError(matcher.fileOf(nullptr), "tensors", std::to_string(bindings_.size()) + " bindings",
                    "at least " + std::to_string(needed) + " for " + std::to_string(spec.layers) + " layers");
  }
  const std::vector<WeightRole<GlobalWeights>> globals = globalRoles(spec);
  std::vector<std::vector<WeightRole<LayerWeights>>> ofLayers;
  std::vector<std::vector<WeightRole<ExpertWeights>>> ofExperts;
  for (const LayerSpec& layer : spec.layerSpecs) {
    ofLayers.push_back(layerRoles(spec, layer));
    ofExperts.push_back(expertRoles(spec, layer));
  }
  layers_.resize(spec.layers);
  global_.pooled.resize(spec.pooledLayers.size());
  for (size_t l = 0; l < layers_.size(); l++) {
    layers_[l].xielu = spec.layerSpecs[l].xielu;
    layers_[l].gateDeviations = spec.layerSpecs[l].gateDeviations;
    layers_[l].experts.resize(spec.hasExperts(spec.layerSpecs[l]) ? spec.experts : 0);
  }

  std::vector<Match> matches;
  matches.reserve(bindings_.size());
  for (const WeightBinding& binding : bindings_) {
    Match match;
    match.binding = &binding;
    bool known = false;
    if (binding.layer == -1) {
      uint32_t pooled = 0;
      std::string rest;
      known = parseNumbered("pooled.", binding.role, static_cast<uint32_t>(global_.pooled.size()), &pooled, &rest)
                  ? matcher.findPooled(pooled, rest, global_.pooled[pooled], globals.size(), match)
                  : matcher.find(globals, binding.role, global_, 0, match);
    } else if (binding.layer >= 0 && static_cast<uint32_t>(binding.layer) >= firstLayer_ &&
               static_cast<uint32_t>(binding.layer) - firstLayer_ < spec.layers) {
      const size_t l = static_cast<size_t>(binding.layer) - firstLayer_;
      LayerWeights& layer = layers_[l];
      uint32_t expert = 0;
      std::string rest;
      known = parseNumbered("expert.", binding.role, static_cast<uint32_t>(layer.experts.size()), &expert, &rest)
                  ? matcher.find(ofExperts[l], rest, layer.experts[expert],
                                 ofLayers[l].size() + expert * ofExperts[l].size(), match)
                  : matcher.find(ofLayers[l], binding.role, layer, 0, match);
    }
    if (!known)
      matcher.refuse(binding, "an unknown role",
                     "a role of DecoderSpec in layers " + std::to_string(firstLayer_) + " to " +
                         std::to_string(firstLayer_ + spec.layers - 1) + " or, for a global one, -1");
    matches.push_back(match);
  }

  matcher.checkComplete(globals, global_, -1, "");
  for (size_t l = 0; l < global_.pooled.size(); l++) {
    const PooledWeights& layer = global_.pooled[l];
    const void* place = spec.pooledLayers[l].norm ? static_cast<const void*>(&layer.norm) : &layer.weight;
    if (matcher.taken.count(place) == 0)
      throw FileError(matcher.fileOf(nullptr), "pooled." + std::to_string(l) + ".weight", "no such tensor", "one");
  }
  if (spec.samples() && spec.causal && matcher.taken.count(&global_.head) == 0 &&
      matcher.taken.count(&global_.tokenEmbedding) == 0) {
    throw FileError(matcher.fileOf(nullptr), "head.weight", "no such tensor", "one, or token_embedding in its place");
  }
  for (size_t l = 0; l < layers_.size(); l++) {
    const auto number = static_cast<int32_t>(firstLayer_ + l);
    matcher.checkComplete(ofLayers[l], layers_[l], number, "");
    for (size_t e = 0; e < layers_[l].experts.size(); e++) {
      matcher.checkComplete(ofExperts[l], layers_[l].experts[e], number, "expert." + std::to_string(e) + ".");
    }
  }

  if (spec.unweightedNorms) {
    ones_.assign(spec.hiddenSize, 1.0f);
    for (LayerWeights& layer : layers_) layer.norm1 = layer.norm2 = ones_.data();
    global_.finalNorm = global_.embeddingNorm = ones_.data();
  }
  arrange(matches);
  split(residentLayerBytes);
}

void Weights::arrange(std::vector<Match>& matches) {
  std::sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) {
    if (a.binding->layer != b.binding->layer) return a.binding->layer < b.binding->layer;
    if (a.binding->matrix != b.binding->matrix) return b.binding->matrix;  // vectors first
    return a.order < b.order;
  });
  blocks_.resize(layers_.size() + 1);
  placed_.reserve(matches.size());
  for (const Match& match : matches) {
    const WeightBinding& binding = *match.binding;
    const size_t number = binding.layer < 0 ? 0 : static_cast<size_t>(binding.layer) - firstLayer_ + 1;
    Block& block = blocks_[number];
    if (block.bytes == 0) block.first = placed_.size();
    uint64_t bytes;
    if (match.matrix != nullptr) {
      static_cast<WeightMatrix&>(*match.matrix) = {binding.storedType(), binding.rows, binding.columns, nullptr};
      bytes = packedBytes(binding.storedType(), binding.rows, binding.columns);
    } else {
      bytes = Scratch::aligned(size_t(binding.rows) * sizeof(float));
    }
    placed_.push_back({&binding, number, block.bytes, bytes, match.matrix, match.vector});
    block.bytes = addBytes(block.bytes, bytes);
    if (match.vector != nullptr) block.vectorBytes = block.bytes;
    block.end = placed_.size();
    fileBytes_ = addBytes(fileBytes_, uint64_t(binding.rows) * binding.fileRowBytes());
  }
}

void Weights::split(std::optional<uint64_t> residentLayerBytes) {
  for (size_t b = 0; b < blocks_.size(); b++) {
    Block& block = blocks_[b];
    splitBlock(block, b == 0 || !residentLayerBytes ? block.bytes : std::min(*residentLayerBytes, block.bytes));
    block.memoryOffset = bytes_;
    bytes_ = addBytes(bytes_, aligned(block.residentBytes));
    mostStreamed_ = std::max(mostStreamed_, block.streamedBytes());
  }
}

void Weights::splitBlock(Block& block, uint64_t residentBytes) {
  block.residentBytes = block.vectorBytes;
  for (size_t w = block.first; w < block.end; w++) {
    const Placed& weight = placed_[w];
    if (weight.matrix == nullptr) continue;
    StoredMatrix& matrix = *weight.matrix;
    matrix.residentOutputs = 0;
    // Everything before this matrix is resident, and some of this matrix is.
    if (weight.offset == block.residentBytes && residentBytes > weight.offset) {
      const uint64_t panel = panelBytes(matrix.type, matrix.inputs);
      const uint64_t panels = std::min(residentBytes - weight.offset, weight.bytes) / panel;
      matrix.residentOutputs = static_cast<uint32_t>(std::min<uint64_t>(panels * kPanelOutputs, matrix.outputs));
      block.residentBytes = weight.offset + panels * panel;
    }
  }
  for (size_t w = block.first; w < block.end; w++) {
    const Placed& weight = placed_[w];
    if (weight.matrix != nullptr && streams(*weight.matrix))
      weight.matrix->streamedAt = std::max(weight.offset, block.residentBytes) - block.streamedFrom();
  }
}

Weights::StreamedRange Weights::streamedExpert(size_t layer, size_t expert) const {
  const ExpertWeights& weights = layers_[layer].experts[expert];
  uint64_t first = std::numeric_limits<uint64_t>::max(), end = 0;
  for (const StoredMatrix* matrix : {&weights.gate, &weights.up, &weights.down}) {
    if (!present(*matrix) || !streams(*matrix)) continue;
    first = std::min(first, matrix->streamedAt);
    end = std::max(
        end, matrix->streamedAt + packedBytes(matrix->type, matrix->outputs - matrix->residentOutputs, matrix->inputs));
  }
  return end == 0 ? StreamedRange{} : StreamedRange{first / kAlignment * kAlignment, aligned(end)};
}

// Experts come last in a block.
uint64_t Weights::streamedBeforeExperts(size_t layer) const {
  const uint64_t all = layerBlock(layer).streamedBytes();
  for (size_t expert = 0; expert < layers_[layer].experts.size(); expert++) {
    const ExpertWeights& weights = layers_[layer].experts[expert];
    for (const StoredMatrix* matrix : {&weights.gate, &weights.up, &weights.down})
      if (present(*matrix) && streams(*matrix)) return std::min(aligned(matrix->streamedAt), all);
  }
  return all;
}

void Weights::checkFiles(const std::vector<File>& files) const {
  for (const WeightBinding& binding : bindings_) {
    const auto check = [&](const File& file, uint64_t offset, uint64_t bytes) {
      if (offset <= file.bytes() && bytes <= file.bytes() - offset) return;
      throw FileError(file.path(), weightLabel(binding),
                      std::to_string(bytes) + " bytes at offset " + std::to_string(offset),
                      "a range within the file's " + std::to_string(file.bytes()) + " bytes");
    };
    if (binding.packed) {
      const PackedIntegers& packed = *binding.packed;
      check(files[packed.values.file], packed.values.offset, packedValueBytes(binding));
      check(files[packed.scales.file], packed.scales.offset, packedScaleBytes(binding));
      if (packed.zeros) check(files[packed.zeros->file], packed.zeros->offset, packedZeroBytes(binding));
      if (packed.groupIndex)
        check(files[packed.groupIndex->file], packed.groupIndex->offset, uint64_t(binding.columns) * 4);
      continue;
    }
    if (binding.coded) {
      forCodedTensors(binding, [&](const CodedFloats::Place& place, uint64_t bytes) {
        check(files[place.file], place.offset, bytes);
      });
      continue;
    }
    for (const WeightSegment& segment : binding.segments)
      check(files[segment.file], segment.offset, binding.spannedBytes(segment));
    if (binding.blockScales) {
      const BlockScales& scales = *binding.blockScales;
      for (const WeightSegment& segment : binding.segments)
        check(files[scales.file], scales.offset,
              (segment.offset - scales.tensorOffset + binding.spannedBytes(segment)) / kBlockScaleBytes);
    }
    if (binding.float8) check(files[binding.float8->file], binding.float8->offset, scaleBytes(binding));
  }
}

void Weights::reserve() {
  memory_ = Arena(bytes_, "the weights");
  place(memory_.data());
}

void Weights::place(uint8_t* memoryOfBlocks) {
  place_ = memoryOfBlocks;
  for (const Placed& weight : placed_) {
    uint8_t* place = memory(blocks_[weight.block]) + weight.offset;
    if (weight.matrix == nullptr)
      *weight.vector = reinterpret_cast<const float*>(place);
    else if (weight.matrix->residentOutputs != 0)
      weight.matrix->panels = place;
  }
}

}  // namespace spillway
