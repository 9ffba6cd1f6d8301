// The model itself: what tasks work with.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../backend/Backend.h"
#include "../model/Activations.h"
#include "../model/Batch.h"
#include "../model/CacheSpill.h"
#include "../model/HiddenStore.h"
#include "../model/CacheMemory.h"
#include "../model/RuntimeOptions.h"
#include "../model/StagingBuffers.h"
#include "../model/WeightLoader.h"
#include "../model/WeightStore.h"
#include "../model/Weights.h"
#include "../system/DiskTraffic.h"
#include "../system/ExtentPool.h"
#include "../system/File.h"
#include "../system/Launch.h"
#include "../system/SpillFile.h"
#include "../system/ThreadPool.h"

namespace spillway {

// The model itself: what tasks work with. Checked against each other, reserved by reserve().
class Model {
 public:
  // Throws Error(InvalidArgument) and FileError for options that contradict themselves or each other. Opens no file,
  // reserves nothing.
  explicit Model(RuntimeOptions&& options);

  // Opens the files, checks every binding against their sizes, reserves all memory and the spill file.
  // traffic: if given, counts what is read from the store and moved to and from the spill file; must outlive the model.
  void reserve(DiskTraffic* traffic = nullptr);
  RuntimeBytes bytes() const;
  void load(LoadProgress& progress);
  // What follows is done when it returns, but for what it leaves on a device in `launch`.
  // Reads what streams of a layer into a buffer. Throws FileError; Error(InvalidArgument) where the buffer is in use.
  // chosen: experts may be left out until compute() has chosen some.
  void loadWeight(uint32_t layer, uint32_t buffer, bool chosen, const std::atomic<bool>& stopped, Launch& launch);
  // Throws Error(InvalidArgument) where the part needs what streams of the layer and the buffer does not hold it.
  // Values that it reads from disk it gives up on once `stopped` is set.
  std::unique_ptr<TaskResult> compute(ComputePart part, uint32_t layer, const Batch& batch, Activations& activations,
                                      int32_t buffer, int32_t cacheBuffer, const std::atomic<bool>& stopped,
                                      Launch& launch);
  // Throw FileError; Error(InvalidArgument) where the buffer is in use, or does not hold what attention left of the
  // square.
  std::unique_ptr<TaskResult> loadCache(uint32_t layer, const Batch& batch, uint32_t buffer,
                                        const std::atomic<bool>& stopped, Launch& launch);
  void storeCache(uint32_t layer, const Batch& batch, uint32_t buffer, Launch& launch);
  // For so many tokens, where this model computes.
  std::shared_ptr<Activations> createActivations(uint32_t tokens);
  // Hidden states between activations and a store; by one thread at a time each. Throw as HiddenStore does.
  void storeHidden(HiddenStore& store, const Activations& activations, uint32_t tokens, const Launch& launch);
  void loadHidden(HiddenStore& store, Activations& activations, uint32_t tokens, Launch& launch);
  // Hidden states between activations and the caller: the first `count` numbers. By one thread at a time each. Written
  // ones are there when it returns.
  void readHidden(const Activations& activations, float* to, size_t count, const Launch& launch);
  void writeHidden(Activations& activations, const float* from, size_t count);
  // Whole pages in memory between the cache and the caller: of one layer after the other, each layer's in the order of
  // `pages`. Throw Error(InvalidArgument) where the cache is on a device, in several groups or none, and for pages that
  // there are not.
  size_t bytesOfPages(size_t count) const;
  void readPages(const std::vector<int32_t>& pages, uint8_t* to) const;
  void writePages(const std::vector<int32_t>& pages, const uint8_t* from);
  // The spill file; null where there is none.
  DirectFile* spillFile() { return spillFile_ == nullptr ? nullptr : &spillFile_->file(); }
  // Of the spill file, for hidden stores.
  const std::shared_ptr<ExtentPool>& hiddenExtents() const { return hiddenExtents_; }

  // What multiplies on the GPU, once reserved: see Backend. Empty where the processor computes.
  std::string gpuProducts() const { return backend_->gpuProducts(); }
  const DecoderSpec& spec() const { return options_.decoder; }
  const RuntimeOptions& options() const { return options_; }
  uint32_t states() const { return cache_.states(); }
  const CacheGroups& cacheGroups() const { return cache_.groups(); }

 private:
  uint64_t spilledCacheBytes() const;
  // attend(the staging buffer)
  template <typename Attend>
  std::unique_ptr<TaskResult> attendStaged(const Batch& batch, uint32_t layer, int32_t buffer,
                                           const std::atomic<bool>& stopped, Attend attend);
  template <typename Move>
  void eachPage(const std::vector<int32_t>& pages, Move move) const;
  Staging staging(uint8_t* data, uint32_t buffer) const;
  bool keeps(uint32_t layer) const { return options_.decoder.layerSpecs[layer].mixer == Mixer::Attention; }
  uint32_t window(uint32_t layer) const { return options_.decoder.layerSpecs[layer].window; }

  RuntimeOptions options_;
  Weights weights_;
  CacheMemory cache_;
  ThreadPool pool_;
  Compute compute_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<WeightStore> store_;
  std::vector<File> files_;
  std::unique_ptr<SpillFile> spillFile_;
  std::unique_ptr<CacheSpill> cacheSpill_;
  std::shared_ptr<ExtentPool> hiddenExtents_;
  StagingBuffers staging_;
};

}  // namespace spillway
