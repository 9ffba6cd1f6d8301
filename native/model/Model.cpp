#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "../runtime/Error.h"
#include "Runtime.h"

namespace spillway {

namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostTokens = 1u << 16;
constexpr uint32_t kMostBuffers = 1u << 12;

void checkRange(const char* field, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCode::InvalidArgument, std::string(field) + ": found " + std::to_string(value) + ", expected 1 to " + std::to_string(most));
}

RuntimeOptions checked(RuntimeOptions&& options) {
  validate(options.decoder);
  checkRange("threads", options.threads, kMostThreads);
  checkRange("cache.pages", options.pages, INT32_MAX);
  checkRange("limits.tokensPerSquare", options.limits.tokensPerSquare, kMostTokens);
  checkRange("limits.rowsPerSquare", options.limits.rowsPerSquare, options.limits.tokensPerSquare);
  if (options.pageTokens < 16 || options.pageTokens > 256 || (options.pageTokens & (options.pageTokens - 1)) != 0) {
    throw Error(ErrorCode::InvalidArgument, "cache.pageTokens: found " + std::to_string(options.pageTokens) + ", expected 16, 32, 64, 128 or 256");
  }
  if (!(options.keepKeys > 0 && options.keepKeys <= 1)) {
    throw Error(ErrorCode::InvalidArgument, "sparseAttention: found " + std::to_string(options.keepKeys) + ", expected above 0 and at most 1");
  }
  if (!machineHas(options.instructionSet)) {
    throw Error(ErrorCode::InvalidArgument, std::string("instructionSet: found ") + instructionSetName(options.instructionSet) +
                                                ", expected one that this machine has, such as " + instructionSetName(bestInstructionSet()));
  }
  if (options.weights) checkRange("weights.buffers", options.weights->buffers, kMostBuffers);
  return std::move(options);
}

std::optional<uint64_t> residentLayerBytes(const RuntimeOptions& options) {
  return options.weights ? std::optional<uint64_t>(options.weights->residentLayerBytes) : std::nullopt;
}

size_t weightBufferBytes(const RuntimeOptions& options, const Weights& weights) {
  if (!options.weights) return 0;
  if (weights.mostStreamedBytes() > std::numeric_limits<int64_t>::max() / options.weights->buffers) throw Error(ErrorCode::Memory, "the weight buffers' bytes overflow");
  return static_cast<size_t>(weights.mostStreamedBytes()) * options.weights->buffers;
}

CacheLayout layoutOf(const RuntimeOptions& options) {
  return {options.cacheType, options.decoder.kvHeads, options.decoder.headDim, options.pageTokens};
}

}  // namespace

Model::Model(RuntimeOptions&& options)
    : options_(checked(std::move(options))),
      weights_(options_.decoder, std::move(options_.bindings), options_.files, residentLayerBytes(options_)),
      cache_(layoutOf(options_), options_.decoder.layers, options_.pages),
      pool_(options_.threads),
      compute_{kernelsFor(options_.instructionSet), pool_, options_.precision},
      scratchBytes_(measureScratch(options_.decoder, weights_, cache_, compute_, options_.limits, options_.keepKeys)) {}

void Model::reserve() {
  if (options_.weights) {
    store_ = std::make_unique<WeightStore>(options_.weights->store, options_.weights->fingerprint, weights_);
    if (weights_.mostStreamedBytes() != 0) buffers_.reserve(options_.weights->buffers, weights_.mostStreamedBytes());
  } else {
    for (const std::string& path : options_.files) files_.emplace_back(path);
    weights_.checkFiles(files_);
  }
  weights_.reserve();
  cache_.reserve();
  scratch_ = Arena(scratchBytes_, "scratch memory");
}

RuntimeBytes Model::bytes() const {
  RuntimeBytes bytes;
  bytes.weights = weights_.bytes();
  bytes.weightBuffers = weightBufferBytes(options_, weights_);
  bytes.cache = cache_.bytes();
  bytes.scratch = scratchBytes_;
  bytes.activations = Activations::bytesFor(options_.decoder, options_.limits.tokensPerSquare);
  for (size_t layer = 0; layer < options_.decoder.layers; layer++) bytes.streamed.push_back(weights_.layerBlock(layer).streamedBytes());
  return bytes;
}

void Model::load(LoadProgress& progress) {
  if (store_ != nullptr) store_->loadResident(pool_, progress);
  else loadWeights(weights_, files_, pool_, progress);
}

void Model::loadWeight(uint32_t layer, uint32_t buffer, const std::atomic<bool>& stopped) {
  WeightBuffers::Filling filling(buffers_, buffer);
  store_->readStreamed(layer, filling.data(), stopped);
  filling.finish(layer);
}

std::unique_ptr<TaskResult> Model::compute(ComputePart part, uint32_t layer, const Batch& batch, Activations& activations, int32_t buffer) {
  Scratch scratch(scratch_.data(), scratch_.bytes());
  std::optional<WeightBuffers::Use> use;
  if (buffer != kNoBuffer) use.emplace(buffers_, static_cast<uint32_t>(buffer), layer);
  const Pass pass{options_.decoder, weights_, cache_, compute_, batch, activations, scratch, false, options_.keepKeys, use ? use->data() : nullptr};
  switch (part) {
    case ComputePart::Embed: embed(pass); return nullptr;
    case ComputePart::Project: project(pass, layer); return nullptr;
    case ComputePart::Attend: attendLayer(pass, layer); return nullptr;
    case ComputePart::Finish: finish(pass, layer); return nullptr;
    case ComputePart::Head: return head(pass);
  }
  return nullptr;
}

}  // namespace spillway
