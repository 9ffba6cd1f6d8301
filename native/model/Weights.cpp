#include "Weights.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "../kernels/cpu/compressRows.h"
#include "../system/Error.h"
#include "WeightRoles.h"

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
  const uint64_t across = (uint64_t(binding.columns) - 1) / scales.blockColumns + 1;
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
            Weights::Match& match, Mixer mixer = Mixer::Attention) {
    const WeightBinding& binding = *match.binding;
    for (const WeightRole<Owner>& role : roles) {
      if (name != role.name) continue;
      if ((role.mixers & onlyOf(mixer)) == 0) refuse(binding, "a binding", "none: this layer has no use for it");
      match.matrix = role.matrix == nullptr ? nullptr : &(owner.*role.matrix);
      match.vector = role.vector == nullptr ? nullptr : &(owner.*role.vector);
      match.order = firstOrder + static_cast<size_t>(&role - roles.data());
      check(binding, role.presence(spec), match.matrix != nullptr, role.shape(spec), role.moreRows);
      const void* place =
          match.matrix != nullptr ? static_cast<const void*>(match.matrix) : static_cast<const void*>(match.vector);
      if (!taken.insert(place).second) refuse(binding, "two bindings", "one");
      return true;
    }
    return false;
  }

  void check(const WeightBinding& binding, Presence presence, bool matrix, WeightShape shape, bool moreRows) const {
    if (presence == Presence::Unused) refuse(binding, "a binding", "none: this decoder has no use for it");
    const bool rowsFit = moreRows ? binding.rows >= shape.rows : binding.rows == shape.rows;
    if (binding.matrix != matrix || !rowsFit || binding.columns != shape.columns) {
      refuse(binding, shapeText(binding.matrix, binding.rows, binding.columns),
             shapeText(matrix, shape.rows, shape.columns) + (moreRows ? " or more rows" : ""));
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
      refuse(binding, "compression to " + std::string(weightTypeName(type)), "a matrix, compressed to Q4_G64 or Q8_0");
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
        scales.blockColumns < std::min<uint32_t>(Float8Scales::kLeastColumns, std::max(binding.columns, 1u))) {
      refuse(binding,
             "a scale for " + std::to_string(scales.blockRows) + " rows of " + std::to_string(scales.blockColumns),
             "one for 1 row or more of " + std::to_string(Float8Scales::kLeastColumns) + " or more");
    }
    const uint64_t end = scales.tensorOffset + uint64_t(scales.tensorRows) * binding.columns;
    for (const WeightSegment& segment : binding.segments) {
      const bool inside = segment.offset >= scales.tensorOffset && segment.offset <= end &&
                          uint64_t(segment.rows) * binding.columns <= end - segment.offset &&
                          (segment.offset - scales.tensorOffset) % binding.columns == 0;
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

  void checkInputRow(const WeightBinding& binding) const {
    if (!binding.matrix || !isFloatType(binding.type) || binding.float8)
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
                     const std::string& prefix, Mixer mixer = Mixer::Attention) const {
    for (const WeightRole<Owner>& role : roles) {
      if ((role.mixers & onlyOf(mixer)) == 0) continue;
      const void* place = role.matrix != nullptr ? static_cast<const void*>(&(owner.*role.matrix))
                                                 : static_cast<const void*>(&(owner.*role.vector));
      if (role.presence(spec) != Presence::Required || taken.count(place) != 0) continue;
      const WeightShape shape = role.shape(spec);
      throw FileError(fileOf(nullptr), label(layer, prefix + role.name), "no such tensor",
                      shapeText(role.matrix != nullptr, shape.rows, shape.columns));
    }
  }
};

// "expert.12.up.weight": the number, and where the rest starts; false for anything else.
bool parseExpert(const std::string& role, uint32_t experts, uint32_t* number, std::string* rest) {
  const std::string prefix = "expert.";
  if (role.compare(0, prefix.size(), prefix) != 0) return false;
  uint64_t value = 0;
  size_t at = prefix.size();
  for (; at < role.size() && role[at] >= '0' && role[at] <= '9' && value < experts; at++)
    value = value * 10 + static_cast<uint64_t>(role[at] - '0');
  if (at == prefix.size() || at >= role.size() || role[at] != '.' || value >= experts) return false;
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
  const uint64_t needed =
      uint64_t(spec.layers) * (6 + (spec.feedForward == FeedForwardKind::Experts ? 3 * uint64_t(spec.experts) : 0));
  if (bindings_.size() < needed) {
    throw FileError(matcher.fileOf(nullptr), "tensors", std::to_string(bindings_.size()) + " bindings",
                    "at least " + std::to_string(needed) + " for " + std::to_string(spec.layers) + " layers");
  }
  layers_.resize(spec.layers);
  for (LayerWeights& layer : layers_)
    layer.experts.resize(spec.feedForward == FeedForwardKind::Experts ? spec.experts : 0);

  std::vector<Match> matches;
  matches.reserve(bindings_.size());
  for (const WeightBinding& binding : bindings_) {
    Match match;
    match.binding = &binding;
    bool known = false;
    if (binding.layer == -1) {
      known = matcher.find(globalRoles(), binding.role, global_, 0, match);
    } else if (binding.layer >= 0 && static_cast<uint32_t>(binding.layer) >= firstLayer_ &&
               static_cast<uint32_t>(binding.layer) - firstLayer_ < spec.layers) {
      LayerWeights& layer = layers_[static_cast<size_t>(binding.layer) - firstLayer_];
      uint32_t expert = 0;
      std::string rest;
      known = parseExpert(binding.role, static_cast<uint32_t>(layer.experts.size()), &expert, &rest)
                  ? matcher.find(expertRoles(), rest, layer.experts[expert],
                                 layerRoles().size() + expert * expertRoles().size(), match)
                  : matcher.find(layerRoles(), binding.role, layer, 0, match,
                                 spec.layerSpecs[static_cast<size_t>(binding.layer) - firstLayer_].mixer);
    }
    if (!known)
      matcher.refuse(binding, "an unknown role",
                     "a role of DecoderSpec in layers " + std::to_string(firstLayer_) + " to " +
                         std::to_string(firstLayer_ + spec.layers - 1) + " or, for a global one, -1");
    matches.push_back(match);
  }

  matcher.checkComplete(globalRoles(), global_, -1, "");
  if (spec.samples() && matcher.taken.count(&global_.head) == 0 && matcher.taken.count(&global_.tokenEmbedding) == 0) {
    throw FileError(matcher.fileOf(nullptr), "head.weight", "no such tensor", "one, or token_embedding in its place");
  }
  for (size_t l = 0; l < layers_.size(); l++) {
    const auto number = static_cast<int32_t>(firstLayer_ + l);
    matcher.checkComplete(layerRoles(), layers_[l], number, "", spec.layerSpecs[l].mixer);
    for (size_t e = 0; e < layers_[l].experts.size(); e++) {
      matcher.checkComplete(expertRoles(), layers_[l].experts[e], number, "expert." + std::to_string(e) + ".");
    }
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

void Weights::checkFiles(const std::vector<File>& files) const {
  for (const WeightBinding& binding : bindings_) {
    const auto check = [&](const File& file, uint64_t offset, uint64_t bytes) {
      if (offset <= file.bytes() && bytes <= file.bytes() - offset) return;
      throw FileError(file.path(), weightLabel(binding),
                      std::to_string(bytes) + " bytes at offset " + std::to_string(offset),
                      "a range within the file's " + std::to_string(file.bytes()) + " bytes");
    };
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
