#include "Weights.h"

#include <limits>
#include <unordered_set>
#include <utility>

#include "../runtime/Error.h"
#include "WeightRoles.h"

namespace spillway {

namespace {

std::string shapeText(bool matrix, uint64_t rows, uint64_t columns) {
  return matrix ? "matrix [" + std::to_string(rows) + ", " + std::to_string(columns) + "]" : "vector [" + std::to_string(rows) + "]";
}

std::string label(int32_t layer, const std::string& role) {
  return layer < 0 ? role.substr(0, 64) : "layer " + std::to_string(layer) + " " + role.substr(0, 64);
}

size_t addBytes(size_t a, size_t b) {
  if (a > std::numeric_limits<size_t>::max() / 2 - b) throw Error(ErrorCode::Memory, "the weights' bytes overflow");
  return a + b;
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

  // True where `name` is one of the roles; then *matrix or *vector points at the owner's member.
  template <typename Owner>
  bool find(const std::vector<WeightRole<Owner>>& roles, const std::string& name, Owner& owner, const WeightBinding& binding, WeightMatrix** matrix,
            const float*** vector) {
    for (const WeightRole<Owner>& role : roles) {
      if (name != role.name) continue;
      *matrix = role.matrix == nullptr ? nullptr : &(owner.*role.matrix);
      *vector = role.vector == nullptr ? nullptr : &(owner.*role.vector);
      check(binding, role.presence(spec), *matrix != nullptr, role.shape(spec), role.moreRows);
      const void* place = *matrix != nullptr ? static_cast<const void*>(*matrix) : static_cast<const void*>(*vector);
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
    if (!matrix && binding.type != WeightType::F32 && binding.type != WeightType::F16 && binding.type != WeightType::BF16) {
      refuse(binding, "a quantised vector", "F32, F16 or BF16");
    }
    const size_t block = weightBlockElements(binding.type);
    if (matrix && binding.columns % block != 0) {
      refuse(binding, std::to_string(binding.columns) + " columns", "a multiple of " + std::to_string(block) + ", the block of its type");
    }
    uint64_t rows = 0;
    for (const WeightSegment& segment : binding.segments) {
      if (segment.rows == 0) refuse(binding, "a segment without rows", "at least one row a segment");
      if (segment.file >= files.size()) refuse(binding, "file " + std::to_string(segment.file), "an index under " + std::to_string(files.size()));
      rows += segment.rows;
    }
    if (rows != binding.rows) refuse(binding, std::to_string(rows) + " rows in its segments", std::to_string(binding.rows));
  }

  template <typename Owner>
  void checkComplete(const std::vector<WeightRole<Owner>>& roles, Owner& owner, int32_t layer, const std::string& prefix) const {
    for (const WeightRole<Owner>& role : roles) {
      const void* place = role.matrix != nullptr ? static_cast<const void*>(&(owner.*role.matrix)) : static_cast<const void*>(&(owner.*role.vector));
      if (role.presence(spec) != Presence::Required || taken.count(place) != 0) continue;
      const WeightShape shape = role.shape(spec);
      throw FileError(fileOf(nullptr), label(layer, prefix + role.name), "no such tensor", shapeText(role.matrix != nullptr, shape.rows, shape.columns));
    }
  }
};

// "expert.12.up.weight": the number, and where the rest starts; false for anything else.
bool parseExpert(const std::string& role, uint32_t experts, uint32_t* number, std::string* rest) {
  const std::string prefix = "expert.";
  if (role.compare(0, prefix.size(), prefix) != 0) return false;
  uint64_t value = 0;
  size_t at = prefix.size();
  for (; at < role.size() && role[at] >= '0' && role[at] <= '9' && value < experts; at++) value = value * 10 + static_cast<uint64_t>(role[at] - '0');
  if (at == prefix.size() || at >= role.size() || role[at] != '.' || value >= experts) return false;
  *number = static_cast<uint32_t>(value);
  *rest = role.substr(at + 1);
  return true;
}

}  // namespace

std::string weightLabel(const WeightBinding& binding) { return label(binding.layer, binding.role); }

Weights::Weights(const DecoderSpec& spec, std::vector<WeightBinding> bindings, const std::vector<std::string>& files) : bindings_(std::move(bindings)) {
  Matcher matcher{spec, files, {}};
  // A spec that promises more weights than there are bindings is refused before anything is allocated for it.
  const uint64_t needed = uint64_t(spec.layers) * (6 + (spec.feedForward == FeedForwardKind::Experts ? 3 * uint64_t(spec.experts) : 0));
  if (bindings_.size() < needed) {
    throw FileError(matcher.fileOf(nullptr), "tensors", std::to_string(bindings_.size()) + " bindings",
                    "at least " + std::to_string(needed) + " for " + std::to_string(spec.layers) + " layers");
  }
  layers_.resize(spec.layers);
  for (LayerWeights& layer : layers_) layer.experts.resize(spec.feedForward == FeedForwardKind::Experts ? spec.experts : 0);

  placed_.reserve(bindings_.size());
  for (const WeightBinding& binding : bindings_) {
    WeightMatrix* matrix = nullptr;
    const float** vector = nullptr;
    bool known = false;
    if (binding.layer == -1) {
      known = matcher.find(globalRoles(), binding.role, global_, binding, &matrix, &vector);
    } else if (binding.layer >= 0 && static_cast<uint32_t>(binding.layer) < spec.layers) {
      LayerWeights& layer = layers_[static_cast<size_t>(binding.layer)];
      uint32_t expert = 0;
      std::string rest;
      known = parseExpert(binding.role, static_cast<uint32_t>(layer.experts.size()), &expert, &rest)
                  ? matcher.find(expertRoles(), rest, layer.experts[expert], binding, &matrix, &vector)
                  : matcher.find(layerRoles(), binding.role, layer, binding, &matrix, &vector);
    }
    if (!known) matcher.refuse(binding, "an unknown role", "a role of DecoderSpec in layers 0 to " + std::to_string(spec.layers - 1) + " or, for a global one, -1");
    place(binding, matrix, vector);
  }

  matcher.checkComplete(globalRoles(), global_, -1, "");
  for (size_t l = 0; l < layers_.size(); l++) {
    matcher.checkComplete(layerRoles(), layers_[l], static_cast<int32_t>(l), "");
    for (size_t e = 0; e < layers_[l].experts.size(); e++) {
      matcher.checkComplete(expertRoles(), layers_[l].experts[e], static_cast<int32_t>(l), "expert." + std::to_string(e) + ".");
    }
  }
}

void Weights::place(const WeightBinding& binding, WeightMatrix* matrix, const float** vector) {
  placed_.push_back({&binding, bytes_, matrix, vector});
  size_t bytes;
  if (matrix != nullptr) {
    *matrix = {binding.type, binding.rows, binding.columns, nullptr};
    bytes = packedBytes(binding.type, binding.rows, binding.columns);
  } else {
    bytes = Scratch::aligned(size_t(binding.rows) * sizeof(float));
  }
  bytes_ = addBytes(bytes_, bytes);
  fileBytes_ += uint64_t(binding.rows) * weightRowBytes(binding.type, binding.columns);
}

void Weights::checkFiles(const std::vector<File>& files) const {
  for (const WeightBinding& binding : bindings_) {
    const uint64_t rowBytes = weightRowBytes(binding.type, binding.columns);
    for (const WeightSegment& segment : binding.segments) {
      const File& file = files[segment.file];
      const uint64_t bytes = segment.rows * rowBytes;
      if (segment.offset <= file.bytes() && bytes <= file.bytes() - segment.offset) continue;
      throw FileError(file.path(), weightLabel(binding), std::to_string(bytes) + " bytes at offset " + std::to_string(segment.offset),
                      "a range within the file's " + std::to_string(file.bytes()) + " bytes");
    }
  }
}

void Weights::reserve() {
  block_ = Arena(bytes_, "the weights");
  for (const Placed& weight : placed_) {
    uint8_t* place = block_.data() + weight.offset;
    if (weight.matrix != nullptr) weight.matrix->panels = place;
    else *weight.vector = reinterpret_cast<const float*>(place);
  }
}

}  // namespace spillway
