#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "../system/Error.h"
#include "Runtime.h"
#include "../backend/cuda/GpuModel.h"
#include "../model/stagedPages.h"

namespace spillway {

namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostTokens = 1u << 16;
constexpr uint32_t kMostBuffers = 1u << 12;
constexpr unsigned kSpillDepth = 32;                     // requests in flight: pages are small
constexpr uint64_t kMostSpillBytes = uint64_t(1) << 52;  // exact in JavaScript, and far below where offsets end

void checkRange(const char* field, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCode::InvalidArgument,
              std::string(field) + ": found " + std::to_string(value) + ", expected 1 to " + std::to_string(most));
}

void check(const SpillOptions& spill) {
  const auto refuse = [](const char* field, uint64_t found, const std::string& expected) {
    throw Error(ErrorCode::InvalidArgument,
                std::string("spill.") + field + ": found " + std::to_string(found) + ", expected " + expected);
  };
  if (spill.pages > INT32_MAX) refuse("pages", spill.pages, "0 to " + std::to_string(INT32_MAX));
  if (spill.hiddenBytes > kMostSpillBytes)
    refuse("hiddenBytes", spill.hiddenBytes, "at most " + std::to_string(kMostSpillBytes));
  if (spill.pages == 0) {
    if (spill.buffers != 0) refuse("buffers", spill.buffers, "0, since spill.pages is 0");
    if (spill.bufferPages != 0) refuse("bufferPages", spill.bufferPages, "0, since spill.pages is 0");
    return;
  }
  checkRange("spill.buffers", spill.buffers, kMostBuffers);
  checkRange("spill.bufferPages", spill.bufferPages, INT32_MAX);
}

RuntimeOptions checked(RuntimeOptions&& options) {
  validate(options.decoder);
  checkRange("threads", options.threads, kMostThreads);
  if (!options.gpu || options.gpu->pages == 0 || options.pages != 0)
    checkRange("cache.pages", options.pages, INT32_MAX);
  checkRange("limits.tokensPerSquare", options.limits.tokensPerSquare, kMostTokens);
  checkRange("limits.rowsPerSquare", options.limits.rowsPerSquare, options.limits.tokensPerSquare);
  if (options.pageTokens < 16 || options.pageTokens > 256 || (options.pageTokens & (options.pageTokens - 1)) != 0) {
    throw Error(ErrorCode::InvalidArgument,
                "cache.pageTokens: found " + std::to_string(options.pageTokens) + ", expected 16, 32, 64, 128 or 256");
  }
  if (!(options.keepKeys > 0 && options.keepKeys <= 1)) {
    throw Error(ErrorCode::InvalidArgument,
                "sparseAttention: found " + std::to_string(options.keepKeys) + ", expected above 0 and at most 1");
  }
  if (!machineHas(options.instructionSet)) {
    throw Error(ErrorCode::InvalidArgument,
                std::string("instructionSet: found ") + instructionSetName(options.instructionSet) +
                    ", expected one that this machine has, such as " + instructionSetName(bestInstructionSet()));
  }
  if (options.weights && !options.gpu) checkRange("weights.buffers", options.weights->buffers, kMostBuffers);
  if (options.spill) check(*options.spill);
  return std::move(options);
}

// Of each layer, where it is computed with.
std::optional<uint64_t> residentLayerBytes(const RuntimeOptions& options) {
  if (options.gpu) return options.gpu->residentLayerBytes;
  return options.weights ? std::optional<uint64_t>(options.weights->residentLayerBytes) : std::nullopt;
}

// Of each layer, what does not come from a store again and again.
std::optional<uint64_t> keptLayerBytes(const RuntimeOptions& options) {
  if (!options.weights) return {};
  const uint64_t device = options.gpu->residentLayerBytes, host = options.weights->residentLayerBytes;
  return host > std::numeric_limits<uint64_t>::max() - device ? std::numeric_limits<uint64_t>::max() : device + host;
}

size_t weightBufferBytes(const RuntimeOptions& options, const Weights& weights) {
  if (!options.weights || options.gpu) return 0;
  if (weights.mostStreamedBytes() > std::numeric_limits<int64_t>::max() / options.weights->buffers)
    throw Error(ErrorCode::Memory, "the weight buffers' bytes overflow");
  return static_cast<size_t>(weights.mostStreamedBytes()) * options.weights->buffers;
}

size_t stagingBytes(const RuntimeOptions& options, size_t slotBytes) {
  if (!options.spill) return 0;
  const uint64_t places = uint64_t(options.spill->buffers) * options.spill->bufferPages;  // at most 2^43
  if (places > kMostSpillBytes / slotBytes) throw Error(ErrorCode::Memory, "the staging buffers' bytes overflow");
  return static_cast<size_t>(places * slotBytes);
}

bool keepsKeys(const RuntimeOptions& options) { return options.spill && options.spill->pages != 0; }

CacheLayout layoutOf(const RuntimeOptions& options) {
  return {options.cacheType, options.decoder.kvHeads, options.decoder.headDim, options.pageTokens};
}

}  // namespace

Model::Model(RuntimeOptions&& options)
    : options_(checked(std::move(options))),
      weights_(options_.decoder, options_.bindings, options_.files, residentLayerBytes(options_)),
      cache_(layoutOf(options_), options_.decoder.layers, options_.pages),
      pool_(options_.threads),
      compute_{kernelsFor(options_.instructionSet), pool_, options_.precision},
      scratchBytes_(options_.gpu ? 0
                                 : measureScratch(options_.decoder, weights_, cache_, compute_, options_.limits,
                                                  keepsKeys(options_), options_.keepKeys)) {
  if (options_.gpu) {
    hostWeights_ = std::make_unique<Weights>(options_.decoder, std::move(options_.bindings), options_.files,
                                             keptLayerBytes(options_));
    gpu_ = makeGpuModel({options_, weights_, *hostWeights_, cache_, compute_, pool_});
  }
  options_.bindings.clear();
  if (options_.spill && uint64_t(options_.decoder.layers) * options_.spill->pages >
                            kMostSpillBytes / DirectFile::aligned(cache_.pageBytes())) {
    throw Error(ErrorCode::Memory, "the spill file's bytes overflow");
  }
  (void)stagingBytes(options_, DirectFile::aligned(cache_.pageBytes()));
}

Model::~Model() = default;

// What the spill file begins with; hidden stores come after it.
uint64_t Model::spilledCacheBytes() const {
  return options_.spill
             ? uint64_t(options_.decoder.layers) * options_.spill->pages * DirectFile::aligned(cache_.pageBytes())
             : 0;
}

void Model::reserve(DiskTraffic* traffic) {
  DirectOptions disk;
  disk.backend = options_.diskBackend;
  disk.faults = options_.diskFaults;
  disk.traffic = traffic;
  if (options_.weights) {
    store_ = std::make_unique<WeightStore>(options_.weights->store, options_.weights->fingerprint,
                                           gpu_ == nullptr ? weights_ : *hostWeights_, disk);
    if (gpu_ == nullptr && weights_.mostStreamedBytes() != 0)
      buffers_.reserve(options_.weights->buffers, weights_.mostStreamedBytes());
  } else {
    for (const std::string& path : options_.files) files_.emplace_back(path);
    weights_.checkFiles(files_);
  }
  if (gpu_ == nullptr)
    weights_.reserve();
  else
    gpu_->reserve();
  cache_.reserve();
  const uint64_t cacheBytes = spilledCacheBytes();
  const uint64_t spillBytes = bytes().spill;
  if (spillBytes != 0) {
    disk.depth = kSpillDepth;
    spillFile_ = std::make_unique<SpillFile>(options_.spill->folder, spillBytes, disk);
  }
  hiddenExtents_ = std::make_shared<ExtentPool>(cacheBytes, spillBytes - cacheBytes);
  if (cacheBytes != 0) {
    const SpillOptions& spill = *options_.spill;
    const size_t slotBytes = DirectFile::aligned(cache_.pageBytes());
    cacheSpill_ = std::make_unique<CacheSpill>(*spillFile(), options_.decoder.firstLayer, options_.decoder.layers,
                                               spill.pages, slotBytes, options_.pageTokens);
    staging_.reserve(spill.buffers, spill.bufferPages * slotBytes);
  }
  scratch_ = Arena(scratchBytes_, "scratch memory");
  hiddenUp_ = Arena(hiddenPassageBytes(), "activations");
  hiddenDown_ = Arena(hiddenPassageBytes(), "activations");
}

std::string Model::gpuProducts() const { return gpu_ == nullptr ? "" : gpu_->products(); }

// Each way; where a device computes and there are hidden stores.
size_t Model::hiddenPassageBytes() const {
  return gpu_ != nullptr && options_.spill ? DirectFile::aligned(size_t(options_.limits.tokensPerSquare) *
                                                                 options_.decoder.hiddenSize * sizeof(float))
                                           : 0;
}

RuntimeBytes Model::bytes() const {
  RuntimeBytes bytes;
  bytes.weights = weights_.bytes();
  bytes.weightBuffers = weightBufferBytes(options_, weights_);
  bytes.cache = cache_.bytes();
  bytes.scratch = scratchBytes_;
  bytes.activations = Activations::bytesFor(options_.decoder, options_.limits.tokensPerSquare, keepsKeys(options_));
  bytes.pageSlot = DirectFile::aligned(cache_.pageBytes());
  bytes.staging = stagingBytes(options_, bytes.pageSlot);
  bytes.spill = spilledCacheBytes() + (options_.spill ? DirectFile::aligned(options_.spill->hiddenBytes) : 0);
  for (size_t layer = 0; layer < options_.decoder.layers; layer++)
    bytes.streamed.push_back(weights_.layerBlock(layer).streamedBytes());
  if (gpu_ != nullptr) {
    bytes.weights = gpu_->hostWeightBytes();
    bytes.scratch = gpu_->hostScratchBytes() + 2 * hiddenPassageBytes();
    bytes.activations = 0;
    bytes.gpu = gpu_->bytes();
  }
  return bytes;
}

void Model::load(LoadProgress& progress) {
  if (gpu_ != nullptr) {
    if (store_ != nullptr)
      gpu_->load(*store_, progress);
    else
      gpu_->load(files_, progress);
    return;
  }
  if (store_ != nullptr)
    store_->loadResident(pool_, progress);
  else
    loadWeights(weights_, files_, pool_, progress);
}

void Model::loadWeight(uint32_t layer, uint32_t buffer, const std::atomic<bool>& stopped, Launch& launch) {
  if (gpu_ != nullptr) return gpu_->loadWeight(layer, buffer, store_.get(), stopped, launch);
  WeightBuffers::Filling filling(buffers_, buffer);
  store_->readStreamed(layer, filling.data(), stopped);
  filling.finish(layer);
}

template <typename Attend>
void Model::attendStaged(const Batch& batch, uint32_t layer, int32_t buffer, Attend attend) {
  if (buffer == kNoBuffer) return attend(nullptr);
  bool loads = false;
  forStagedPages(batch, window(layer), options_.pageTokens,
                 [&](const StagedPage& page) { return !(loads |= page.loaded); });
  using Purpose = StagingBuffers::Purpose;
  StagingBuffers::Use use(staging_, static_cast<uint32_t>(buffer), {batch.serial, layer},
                          loads ? Purpose::AttendLoaded : Purpose::AttendFresh);
  attend(use.data());
  use.finish();
}

void Model::loadCache(uint32_t layer, const Batch& batch, uint32_t buffer, const std::atomic<bool>& stopped) {
  if (!stages(batch, window(layer), options_.pageTokens)) return;
  StagingBuffers::Use use(staging_, buffer, {batch.serial, layer}, StagingBuffers::Purpose::Load);
  cacheSpill_->load(layer, window(layer), batch, use.data(), stopped);
  use.finish();
}

void Model::storeCache(uint32_t layer, const Batch& batch, uint32_t buffer) {
  if (!stages(batch, window(layer), options_.pageTokens)) return;
  const StagingBuffers::Use use(staging_, buffer, {batch.serial, layer}, StagingBuffers::Purpose::Store);
  cacheSpill_->store(layer, window(layer), batch, use.data());
}

std::shared_ptr<Activations> Model::createActivations(uint32_t tokens) {
  if (gpu_ != nullptr) return gpu_->createActivations(tokens);
  return std::make_shared<Activations>(options_.decoder, tokens, keepsKeys(options_));
}

void Model::storeHidden(HiddenStore& store, const Activations& activations, uint32_t tokens, const Launch& launch) {
  const auto* hidden = reinterpret_cast<const uint8_t*>(activations.hidden);
  if (gpu_ != nullptr) {
    gpu_->readHidden(activations, hiddenDown_.data(), size_t(tokens) * options_.decoder.hiddenSize * sizeof(float),
                     launch);
    hidden = hiddenDown_.data();
  }
  store.store(spillFile(), hidden, tokens);
}

void Model::loadHidden(HiddenStore& store, Activations& activations, uint32_t tokens, Launch& launch) {
  if (gpu_ == nullptr) return store.load(spillFile(), reinterpret_cast<uint8_t*>(activations.hidden), tokens);
  store.load(spillFile(), hiddenUp_.data(), tokens);
  gpu_->writeHidden(activations, hiddenUp_.data(), size_t(tokens) * options_.decoder.hiddenSize * sizeof(float),
                    launch);
}

void Model::readHidden(const Activations& activations, float* to, size_t count, const Launch& launch) {
  if (gpu_ != nullptr)
    gpu_->readHidden(activations, to, count * sizeof(float), launch);
  else
    std::copy_n(activations.hidden, count, to);
}

void Model::writeHidden(Activations& activations, const float* from, size_t count) {
  if (gpu_ == nullptr) {
    std::copy_n(from, count, activations.hidden);
    return;
  }
  Launch launch;
  gpu_->writeHidden(activations, from, count * sizeof(float), launch);
  launch.left->await();
}

std::unique_ptr<TaskResult> Model::compute(ComputePart part, uint32_t layer, const Batch& batch,
                                           Activations& activations, int32_t buffer, int32_t cacheBuffer,
                                           Launch& launch) {
  const size_t placeBytes = DirectFile::aligned(cache_.pageBytes());
  if (gpu_ != nullptr) {
    if (part != ComputePart::Attend) return gpu_->compute(part, layer, batch, activations, buffer, {}, launch);
    attendStaged(batch, layer, cacheBuffer, [&](uint8_t* staged) {
      gpu_->compute(part, layer, batch, activations, buffer, {staged, placeBytes}, launch);
    });
    return nullptr;
  }
  Scratch scratch(scratch_.data(), scratch_.bytes());
  std::optional<WeightBuffers::Use> use;
  if (buffer != kNoBuffer) use.emplace(buffers_, static_cast<uint32_t>(buffer), layer);
  Pass pass{options_.decoder, weights_, cache_, compute_,          batch,
            activations,      scratch,  false,  options_.keepKeys, use ? use->data() : nullptr};
  switch (part) {
    case ComputePart::Embed: embed(pass); return nullptr;
    case ComputePart::Project: project(pass, layer); return nullptr;
    case ComputePart::Attend:
      attendStaged(batch, layer, cacheBuffer, [&](uint8_t* staged) {
        pass.staged = staged;
        pass.stagedBytes = placeBytes;
        attendLayer(pass, layer);
      });
      return nullptr;
    case ComputePart::Finish: finish(pass, layer); return nullptr;
    case ComputePart::Head: return head(pass);
  }
  return nullptr;
}

}  // namespace spillway
