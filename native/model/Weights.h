// The weights of a decoder by role, each in its place in one block of memory that is reserved up front.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../kernels/cpu/Matmul.h"
#include "../runtime/Arena.h"
#include "../runtime/File.h"
#include "DecoderSpec.h"

namespace spillway {

// Where a weight comes from: the native twin of src/model/TensorBinding.ts.
struct WeightSegment {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint32_t rows = 0;
};
struct WeightBinding {
  std::string role;
  int32_t layer = -1;
  bool matrix = true;
  WeightType type = WeightType::F32;
  uint32_t rows = 0;
  uint32_t columns = 0;
  std::vector<WeightSegment> segments;
  float add = 0;
};

// Absent matrices have no outputs, absent vectors are null.
inline bool present(const WeightMatrix& matrix) { return matrix.outputs != 0; }

struct ExpertWeights {
  WeightMatrix gate{}, up{}, down{};
};
struct LayerWeights {
  WeightMatrix q{}, k{}, v{}, o{}, gate{}, up{}, down{}, router{};
  const float *norm1 = nullptr, *norm1Bias = nullptr, *norm2 = nullptr, *norm2Bias = nullptr, *postNorm1 = nullptr, *postNorm2 = nullptr;
  const float *qBias = nullptr, *kBias = nullptr, *vBias = nullptr, *oBias = nullptr, *qNorm = nullptr, *kNorm = nullptr;
  const float *upBias = nullptr, *downBias = nullptr;
  std::vector<ExpertWeights> experts;
};
struct GlobalWeights {
  WeightMatrix tokenEmbedding{}, positionEmbedding{}, embeddingProjection{}, outputProjection{}, head{};
  const float *finalNorm = nullptr, *finalNormBias = nullptr, *headBias = nullptr;
};

class Weights {
 public:
  // Gives every binding its place. Throws FileError for roles that are unknown, missing, given twice or of no use to the spec, for shapes
  // that contradict it, and for types that do not fit. Allocates nothing big; `spec` is validated. `files`: names for messages.
  Weights(const DecoderSpec& spec, std::vector<WeightBinding> bindings, const std::vector<std::string>& files);
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  // One weight's place.
  struct Placed {
    const WeightBinding* binding;
    size_t offset;          // in the block
    WeightMatrix* matrix;   // one of these two
    const float** vector;
  };

  size_t bytes() const { return bytes_; }
  uint64_t fileBytes() const { return fileBytes_; }  // that load() will read
  const std::vector<Placed>& placed() const { return placed_; }

  // Throws FileError where a segment reaches beyond its file's end.
  void checkFiles(const std::vector<File>& files) const;
  // Reserves the block and points all weights into it.
  void reserve();
  uint8_t* block() const { return block_.data(); }

  const GlobalWeights& global() const { return global_; }
  const LayerWeights& layer(size_t index) const { return layers_[index]; }
  // The language-model head, which may be the token embedding itself.
  const WeightMatrix& head() const { return present(global_.head) ? global_.head : global_.tokenEmbedding; }

 private:
  void place(const WeightBinding& binding, WeightMatrix* matrix, const float** vector);

  std::vector<WeightBinding> bindings_;
  GlobalWeights global_;
  std::vector<LayerWeights> layers_;
  std::vector<Placed> placed_;
  size_t bytes_ = 0;
  uint64_t fileBytes_ = 0;
  Arena block_;
};

std::string weightLabel(const WeightBinding& binding);  // "layer 3 q.weight"

}  // namespace spillway
