// The weights of a decoder by role, each in its place in a block: one block for the global ones, one a layer.
//
// A block holds all vectors first, as float32, then the matrices in packed panels, in the order of their use;
// everything is 64-byte aligned. In memory and in a store (StoreFormat.h) a block looks the same. Of a layer's block a
// first part may be resident and the rest stream.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../kernels/cpu/Matmul.h"
#include "../system/Arena.h"
#include "../system/File.h"
#include "DecoderSpec.h"
#include "StoredMatrix.h"

namespace spillway {

// Where a weight comes from: the native twin of src/model/TensorBinding.ts.
struct WeightSegment {
  uint32_t file = 0;
  uint64_t offset = 0;
  uint32_t rows = 0;
  uint32_t step = 1;  // these are the first, and every step-th after it, of the rows that lie there

  static constexpr uint32_t kMostStep = 16;
};
// Of a matrix that its file has as one byte an element (E4M3, Micikevicius et al. 2022, without infinities), each to be
// multiplied by the scale of its block. Scales are row-major; the blocks at the matrix's ends may be cut off.
struct Float8Scales {
  uint32_t file = 0;
  uint64_t offset = 0;                // of the first scale
  WeightType type = WeightType::F32;  // of a scale: F32, F16 or BF16
  uint32_t blockRows = 0, blockColumns = 0;
  uint64_t tensorOffset = 0;  // of the whole tensor, whose rows the blocks divide
  uint32_t tensorRows = 0;

  // A block so narrow is none that anybody makes, and would take more memory than what it scales.
  static constexpr uint32_t kLeastColumns = 16;
};
// Of a matrix of MXFP4 whose file has blocks and scales as tensors of their own: 16 bytes a block, elements that are
// neighbours in a byte, the first of them in its low half; and a byte a scale. Segments are rows of the blocks.
struct BlockScales {
  uint32_t file = 0;
  uint64_t offset = 0;        // of the first scale
  uint64_t tensorOffset = 0;  // of the first block, of which it is the scale
};
// Of a matrix that its file has as integers of 4 or 8 bits without sign, packed into words, with scales, perhaps zero
// points, and perhaps the group of each input in tensors of their own (GPTQ, AWQ, compressed-tensors). An element is
// scale * (integer - zero point). Segments' offsets are numbers of rows.
struct PackedIntegers {
  struct Place {
    uint32_t file = 0;
    uint64_t offset = 0;
  };
  enum class Order : uint8_t {
    Rows,     // [outputs, inputs], neighbours among the inputs share a byte, the first of them in its low half
    Inputs,   // words [inputs / n, outputs] of n inputs each (GPTQ)
    Outputs,  // words [inputs, outputs / n] of n outputs each, the even ones first (AWQ)
  };
  Order order = Order::Rows;
  uint32_t bits = 4;
  bool isSigned = false;    // bytes with sign, which count as 128 more, with Order::Rows
  uint32_t group = 0;       // inputs that share a scale and a zero point
  uint32_t tensorRows = 0;  // outputs of the tensors
  int32_t zero = 0;         // of all of them, or what is added to each zero point
  Place values, scales;
  WeightType scaleType = WeightType::F16;
  float scaleOf = 1;         // what each scale is divided by: the integer that it is the value of
  bool zeroBytes = false;    // zero points are bytes with sign, [outputs, groups], with Order::Rows
  bool groupsFirst = false;  // scales are [groups, outputs], and so are zero points, several outputs a word
  std::optional<Place> zeros, groupIndex;
};
// Of a matrix that its file has as floats of four bits, numbers of a codebook, two neighbours a byte (bitsandbytes' NF4
// and FP4, NVFP4). An element is its code's float times the scale of its group; groups are counted through all rows.
// Segments' offsets are numbers of rows.
struct CodedFloats {
  using Place = PackedIntegers::Place;
  enum class Scale : uint8_t {
    Float32,
    Float8,  // E4M3
    Nested,  // bytes: a place in `nestedMap`, times a scale of `nestedGroup` of them, plus `nestedOffset`
  };
  static constexpr uint32_t kCodes = 16;
  uint32_t tensorRows = 0;
  bool highFirst = false;  // the first of two neighbours is the high half of their byte
  uint32_t group = 0;      // neighbours that share a scale
  Place values, scales;
  Scale scaleType = Scale::Float32;
  std::optional<Place> codebook;  // sixteen F32; none: E2M1
  Place nestedMap, nestedScales;  // F32, 256 of the first
  uint32_t nestedGroup = 0;
  float nestedOffset = 0;
  std::optional<Place> global;  // of all scales: an F32 that they are multiplied or divided by
  bool globalDivides = false;
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
  std::optional<WeightType> compressed;  // of a matrix: what it is stored in, instead of `type`
  std::optional<Float8Scales> float8;    // of a matrix: it becomes `type`, which is F16, as it is read
  std::optional<BlockScales> blockScales;
  std::optional<PackedIntegers> packed;  // of a matrix: it becomes `type`, of the same values, as it is read
  std::optional<CodedFloats> coded;      // of a matrix: it becomes `type`, of floats, as it is read
  // Of a matrix of floats that lies with a row for each input: how long these rows are. Segments begin with the first
  // input's elements; 0: it lies with a row for each output.
  uint32_t inputRow = 0;
  // Of a matrix that takes some of the inputs of what is in its file: how many elements a row has there. Segments begin
  // with the first of these inputs; 0: all of them.
  uint32_t rowColumns = 0;

  WeightType storedType() const { return compressed.value_or(type); }
  // As readFileRows() hands it on.
  size_t fileRowBytes() const { return float8 && inputRow == 0 ? columns : weightRowBytes(type, columns); }
  // Of the rows that lie in the file, whichever way.
  uint32_t scaledColumns() const { return inputRow == 0 ? columns : inputRow; }
  // From one row of a segment's tensor to the next.
  size_t pitchBytes() const {
    if (packed || coded) return 1;
    const uint32_t elements = rowColumns == 0 ? columns : rowColumns;
    if (blockScales) return elements / 2;
    if (inputRow != 0) return float8 ? 1 : weightRowBytes(type, 1);
    return float8 ? elements : weightRowBytes(type, elements);
  }
  // What is read of a row at its place; of blocks with scales apart, the blocks.
  size_t takenBytes() const { return blockScales ? columns / 2 : inputRow != 0 ? pitchBytes() : fileRowBytes(); }
  // From a segment's beginning to the end of what it is read from.
  uint64_t spannedBytes(const WeightSegment& segment) const {
    const uint64_t last = uint64_t(segment.rows - 1) * segment.step;
    return inputRow != 0 ? (uint64_t(columns - 1) * inputRow + last + 1) * pitchBytes()
                         : last * pitchBytes() + takenBytes();
  }
};

struct ExpertWeights {
  StoredMatrix gate{}, up{}, down{};
  const float *gateBias = nullptr, *upBias = nullptr, *downBias = nullptr;
};
struct LayerWeights {
  StoredMatrix q{}, k{}, v{}, o{}, qGate{}, gate{}, up{}, down{}, router{}, sharedGate{};
  // Of latent attention (LatentSpec): queries' first product; each token's latent row; what a head's queries become
  // there, [heads * rank, plain], and its outputs of it, [heads * value, rank].
  StoredMatrix qDown{}, latent{}, kUp{}, vUp{};
  // Of disentangled attention: queries and keys of distances, where these are not of q and k.
  StoredMatrix qDistance{}, kDistance{};
  const float *qDistanceBias = nullptr, *kDistanceBias = nullptr;
  const float *qDownBias = nullptr, *qDownNorm = nullptr, *latentBias = nullptr, *latentNorm = nullptr;
  // What a layer gets of a token's embedding (DecoderSpec::layerInputSize), and what its outputs are multiplied by.
  StoredMatrix inputEmbedding{}, inputProjection{}, inputGate{}, inputOut{};
  // Of streams (StreamsSpec): the router's norm and rows, [count, hidden], what is predicted, [count * count, count],
  // and corrected, [count, count], by it, a factor of the first stream's elements where layers read it; products beside
  // attention, and their norm.
  StoredMatrix bypassIn{}, bypassOut{};
  const float *streamNorm = nullptr, *streamRouter = nullptr, *streamPredict = nullptr, *streamCorrect = nullptr,
              *streamScale = nullptr, *bypassNorm = nullptr;
  const float *inputNorm = nullptr, *inputPostNorm = nullptr, *scale = nullptr;
  // Of a mixture apart from the block beside it (RouterSpec::apart).
  const float *routerNorm = nullptr, *expertScale = nullptr, *expertsNorm = nullptr, *postExpertsNorm = nullptr,
              *postBlockNorm = nullptr;
  // Of layers that remember a state (RecurrentSpec).
  StoredMatrix mix{}, mixGate{}, beta{}, alpha{}, besideOut{};
  StoredMatrix mixGateIn{}, alphaIn{};  // of RecurrentSpec::deltaRank
  // Of an RG-LRU: what its gates are made by, a block [inputs, outputs] after the other.
  const float *lruInput = nullptr, *lruInputBias = nullptr, *lruForget = nullptr, *lruForgetBias = nullptr;
  // Of a selective scan: what time steps, and what states are written and read by, are made of; time steps.
  StoredMatrix scanIn{}, scanStep{};
  const float *stepNorm = nullptr, *writtenNorm = nullptr, *readNorm = nullptr, *besideOutBias = nullptr;
  const float *conv = nullptr, *convBias = nullptr, *decay = nullptr, *decayBias = nullptr, *mixNorm = nullptr,
              *mixBias = nullptr, *mixGateBias = nullptr, *skip = nullptr;
  const float *norm1 = nullptr, *norm1Bias = nullptr, *norm2 = nullptr, *norm2Bias = nullptr, *postNorm1 = nullptr,
              *postNorm2 = nullptr;
  const float *qBias = nullptr, *kBias = nullptr, *vBias = nullptr, *oBias = nullptr, *qNorm = nullptr,
              *kNorm = nullptr, *qNormBias = nullptr, *kNormBias = nullptr, *sinks = nullptr;
  const float *gateBias = nullptr, *upBias = nullptr, *downBias = nullptr, *routerBias = nullptr,
              *routerChoiceBias = nullptr;
  XieluSpec xielu;
  float gateDeviations = 0;
  std::vector<ExpertWeights> experts;
};
// Of one layer over pooled hidden states; `weight` of a product, `norm` of a norm.
struct PooledWeights {
  StoredMatrix weight{};
  const float *norm = nullptr, *bias = nullptr;
};
struct GlobalWeights {
  StoredMatrix tokenEmbedding{}, positionEmbedding{}, typeEmbedding{}, relativeBias{}, distanceEmbedding{},
      embeddingProjection{}, outputProjection{}, head{};
  // Of streams but the first: what they begin as, and what is added up in the end.
  StoredMatrix streamIn1{}, streamIn2{}, streamIn3{}, streamOut1{}, streamOut2{}, streamOut3{};
  const float *finalNorm = nullptr, *finalNormBias = nullptr, *headBias = nullptr, *embeddingNorm = nullptr,
              *embeddingNormBias = nullptr, *embeddingProjectionBias = nullptr, *distanceNorm = nullptr,
              *distanceNormBias = nullptr;
  std::vector<PooledWeights> pooled;
};

class Weights {
 public:
  // Gives every binding its place. Throws FileError for roles that are unknown, missing, given twice or of no use to
  // the spec, for shapes that contradict it, and for types that do not fit. Allocates nothing big; `spec` is validated.
  // `files`: names for messages. residentLayerBytes: how much of each layer's block is resident, rounded down to whole
  // panels; vectors always are. Absent: all of it.
  Weights(const DecoderSpec& spec, std::vector<WeightBinding> bindings, const std::vector<std::string>& files,
          std::optional<uint64_t> residentLayerBytes = {});
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  // Resident parts and what streams start at multiples of this, so that disks can read into them directly.
  static constexpr size_t kAlignment = 4096;

  struct Match;  // of Weights.cpp

  // One weight's place.
  struct Placed {
    const WeightBinding* binding;
    size_t block;          // 0: the global one; else 1 + the layer's place among the spec's layers
    uint64_t offset;       // in its block
    uint64_t bytes;        // there, a multiple of 64
    StoredMatrix* matrix;  // one of these two
    const float** vector;
  };
  struct Block {
    size_t first = 0, end = 0;  // of its weights among placed(), in order of their offsets
    uint64_t bytes = 0;
    uint64_t vectorBytes = 0;    // of the vectors, which come first
    uint64_t residentBytes = 0;  // from its start on: at least the vectors, then whole panels
    size_t memoryOffset = 0;     // of the resident part

    bool streams() const { return residentBytes != bytes; }
    // What is read of a block that streams: [streamedFrom, end of the block's last 4096 bytes).
    uint64_t streamedFrom() const { return residentBytes / kAlignment * kAlignment; }
    uint64_t streamedBytes() const {
      return streams() ? (bytes + kAlignment - 1) / kAlignment * kAlignment - streamedFrom() : 0;
    }
  };

  size_t bytes() const { return bytes_; }                       // of memory: all resident parts
  uint64_t mostStreamedBytes() const { return mostStreamed_; }  // of one layer
  uint64_t fileBytes() const { return fileBytes_; }             // of the model's files
  const std::vector<Placed>& placed() const { return placed_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  const Block& layerBlock(size_t layer) const { return blocks_[layer + 1]; }
  std::string blockName(size_t block) const;  // in messages; layers by their number in the model

  // Throws FileError where a segment reaches beyond its file's end.
  void checkFiles(const std::vector<File>& files) const;
  // Reserves the memory and points all weights into it.
  void reserve();
  // The same with memory of another owner, bytes() of it, 64-byte aligned; it may be a device's.
  void place(uint8_t* memory);
  // What streams of an expert, from where its layer's buffer begins on, in whole kAlignment; empty where all of it is
  // resident.
  struct StreamedRange {
    uint64_t first = 0, end = 0;
  };
  StreamedRange streamedExpert(size_t layer, size_t expert) const;
  // So much streams of a layer before the first of its experts; all of it where it has none.
  uint64_t streamedBeforeExperts(size_t layer) const;
  // Where a block's resident part is.
  uint8_t* memory(const Block& block) const { return place_ + block.memoryOffset; }

  const GlobalWeights& global() const { return global_; }
  const LayerWeights& layer(size_t index) const { return layers_[index]; }
  // The language-model head, which may be the token embedding itself.
  const StoredMatrix& head() const { return present(global_.head) ? global_.head : global_.tokenEmbedding; }

 private:
  void arrange(std::vector<Match>& matches);
  void split(std::optional<uint64_t> residentLayerBytes);
  void splitBlock(Block& block, uint64_t residentBytes);

  std::vector<WeightBinding> bindings_;
  uint32_t firstLayer_ = 0;
  GlobalWeights global_;
  std::vector<LayerWeights> layers_;
  std::vector<float> ones_;  // weights of norms that have none
  std::vector<Placed> placed_;
  std::vector<Block> blocks_;
  size_t bytes_ = 0;
  uint64_t mostStreamed_ = 0;
  uint64_t fileBytes_ = 0;
  Arena memory_;
  uint8_t* place_ = nullptr;
};

std::string weightLabel(const WeightBinding& binding);  // "layer 3 q.weight"

}  // namespace spillway
