#include <algorithm>
#include <limits>
#include <optional>

#include "../../model/WeightBuffers.h"
#include "../../model/WeightLoader.h"
#include "../../model/distanceBiases.h"
#include "../../model/layer.h"
#include "../../system/Arena.h"
#include "../../system/Error.h"
#include "../Backend.h"
#include "CpuPass.h"

namespace spillway {

namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const BackendParts& parts)
      : parts_(parts),
        spec_(parts.options.decoder),
        attending_(spec_.attendsByRows() ? std::optional<DecoderSpec>(spec_.attending()) : std::nullopt),
        // Pages on disk need new keys and values between projection and attention, and so do biases by distance, and
        // pages of other engines.
        keepsKeys_((parts.options.spill && parts.options.spill->pages != 0) ||
                   parts.options.decoder.disentangled.span != 0 || attending_.has_value()),
        bufferBytes_(weightBufferBytes()),
        scratchBytes_(measureScratch()) {}

  void addBytes(RuntimeBytes& bytes) const override {
    bytes.weights = parts_.weights.bytes();
    if (hasDistanceBiases(spec_)) bytes.weights += spec_.heads * distanceStride(spec_) * sizeof(float);
    bytes.weightBuffers = bufferBytes_;
    bytes.scratch = scratchBytes_;
    bytes.activations = Activations::bytesFor(spec_, parts_.options.limits.tokensPerSquare, keepsKeys_);
  }
  void reserve() override {
    if (bufferBytes_ != 0) buffers_.reserve(parts_.options.weights->buffers, parts_.weights.mostStreamedBytes());
    parts_.weights.reserve();
    scratch_ = Arena(scratchBytes_, "scratch memory");
  }

  const Weights& storedWeights() const override { return parts_.weights; }
  void load(WeightStore& store, LoadProgress& progress) override {
    store.loadResident(parts_.compute.pool, progress);
    distances_ = distanceBiases(spec_, parts_.weights);
  }
  void load(const std::vector<File>& files, LoadProgress& progress) override {
    loadWeights(parts_.weights, files, parts_.compute.pool, progress);
    distances_ = distanceBiases(spec_, parts_.weights);
  }
  void loadWeight(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                  Launch&) override {
    WeightBuffers::Filling filling(buffers_, buffer);
    store->readStreamed(layer, filling.data(), stopped);
    filling.finish(layer);
  }
  void loadChosen(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                  Launch&) override {
    WeightBuffers::Filling filling(buffers_, buffer);
    const bool lacks = store->readBeforeExperts(layer, filling.data(), stopped);
    // Once: tasks that compute read them meanwhile. The first time is before any of them, by finish().
    if (chosenFrom_ == nullptr) {
      stopped_ = &stopped;
      chosenFrom_ = store;
    }
    filling.finish(layer, lacks ? spec_.experts : 0);
  }
  std::unique_ptr<TaskResult> compute(ComputePart part, uint32_t layer, const Batch& batch, Activations& activations,
                                      int32_t buffer, const Staging& staging, Launch&) override {
    Scratch scratch(scratch_.data(), scratch_.bytes());
    std::optional<WeightBuffers::Use> use;
    if (buffer != kNoBuffer) use.emplace(buffers_, static_cast<uint32_t>(buffer), layer);
    const bool byRows = attending_ && part == ComputePart::Attend;
    CpuPass pass =
        passOf(byRows ? *attending_ : spec_, batch, byRows ? *activations.rows : activations, scratch, false);
    if (use) pass.streamed = use->data();
    if (use && !use->absent().empty())
      pass.bringExperts = [&](const ExpertChoice* choices, size_t count) { bringExperts(layer, *use, choices, count); };
    if (!distances_.empty()) pass.distances = distances_.data();
    pass.staged = staging.data;
    pass.stagedBytes = staging.placeBytes;
    pass.bringValues = staging.loadValues;
    return computePart(pass, part, layer);
  }

  std::shared_ptr<Activations> createActivations(uint32_t tokens) override {
    return std::make_shared<Activations>(spec_, tokens, keepsKeys_);
  }
  void storeHidden(HiddenStore& store, DirectFile* file, const Activations& activations, uint32_t tokens,
                   const Launch&) override {
    store.store(file, reinterpret_cast<const uint8_t*>(activations.hidden), tokens);
  }
  void loadHidden(HiddenStore& store, DirectFile* file, Activations& activations, uint32_t tokens, Launch&) override {
    store.load(file, reinterpret_cast<uint8_t*>(activations.hidden), tokens);
  }
  void readHidden(const Activations& activations, float* to, size_t count, const Launch&) override {
    std::copy_n(activations.hidden, count, to);
  }
  void writeHidden(Activations& activations, const float* from, size_t count) override {
    std::copy_n(from, count, activations.hidden);
  }

 private:
  void bringExperts(uint32_t layer, const WeightBuffers::Use& use, const ExpertChoice* choices, size_t count) {
    std::vector<bool>& absent = use.absent();
    std::vector<uint32_t> wanted;
    for (size_t c = 0; c < count; c++)
      if (choices[c].expert < absent.size() && absent[choices[c].expert]) wanted.push_back(choices[c].expert);
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    if (wanted.empty()) return;
    chosenFrom_->readExperts(layer, wanted, use.data(), *stopped_);
    for (const uint32_t expert : wanted) absent[expert] = false;
  }
  CpuPass passOf(const DecoderSpec& spec, const Batch& batch, Activations& activations, Scratch& scratch,
                 bool measuring) const {
    return {spec,        parts_.weights, parts_.hostPages, parts_.compute,         batch,
            activations, scratch,        measuring,        parts_.options.keepKeys};
  }
  size_t weightBufferBytes() const {
    if (!parts_.options.weights) return 0;
    const uint64_t bytes = parts_.weights.mostStreamedBytes(), buffers = parts_.options.weights->buffers;
    if (bytes > uint64_t(std::numeric_limits<int64_t>::max()) / buffers)
      throw Error(ErrorCode::Memory, "the weight buffers' bytes overflow");
    return static_cast<size_t>(bytes * buffers);
  }
  // What the largest batch within the limits needs in its hungriest part.
  size_t measureScratch() const {
    Batch batch;
    batch.ranges.resize(parts_.options.limits.rowsPerSquare);
    batch.tokens.resize(parts_.options.limits.tokensPerSquare);
    Activations activations(spec_, 0, keepsKeys_);
    Scratch scratch(nullptr, 0);
    const CpuPass pass = passOf(spec_, batch, activations, scratch, true);
    computeAll(pass, attending_ ? passOf(*attending_, batch, *activations.rows, scratch, true) : pass);
    return scratch.peak();
  }

  const BackendParts parts_;
  const DecoderSpec& spec_;
  const std::optional<DecoderSpec> attending_;  // where a share attends to some rows
  const bool keepsKeys_;
  const size_t bufferBytes_, scratchBytes_;
  WeightBuffers buffers_;
  Arena scratch_;
  std::vector<float> distances_;
  // Of the last layer that was loaded without its experts.
  WeightStore* chosenFrom_ = nullptr;
  const std::atomic<bool>* stopped_ = nullptr;
};

}  // namespace

std::unique_ptr<Backend> makeCpuBackend(const BackendParts& parts) { return std::make_unique<CpuBackend>(parts); }

}  // namespace spillway
