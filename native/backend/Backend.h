// Where a model computes: on the processor, or on a device. Free of CUDA: makeCudaBackend() is defined by the library
// that is linked, spillway_gpu (with CUDA, or its emulation) or spillway_gpu_none.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../kernels/cpu/Kernels.h"
#include "../model/Activations.h"
#include "../model/Batch.h"
#include "../model/ComputeTask.h"
#include "../model/HiddenStore.h"
#include "../model/CacheMemory.h"
#include "../model/RuntimeOptions.h"
#include "../model/WeightStore.h"
#include "../model/Weights.h"
#include "../system/File.h"
#include "../system/Launch.h"

namespace spillway {

// What it shares with the model that owns it; all of it outlives it.
struct BackendParts {
  const RuntimeOptions& options;
  Weights& weights;  // cut where what a layer has here for good ends; the backend gives them their place
  const CacheMemory& hostPages;
  const Compute& compute;
};

// The staging buffer of a square's pages on disk, in host memory; no data where none are.
struct Staging {
  uint8_t* data = nullptr;
  size_t placeBytes = 0;
  int32_t buffer = kNoBuffer;  // its number, and that of the device's buffer for the square's pages
  // Where ranges that choose among their keys (isChoosing()) have these alone in it: brings values of chosen ones
  // (CacheSpill::loadValues).
  std::function<void(const uint64_t* const* chosen)> loadValues;

  uint8_t* place(int32_t home) const { return data + static_cast<size_t>(-1 - home) * placeBytes; }  // PageMove
};

// What tasks leave on a device under way is in Launch::left, and begins after Launch::before; everything else is done
// when a call returns.
class Backend {
 public:
  virtual ~Backend() = default;

  // Weights, weight buffers, scratch and activations, and all of a device's.
  virtual void addBytes(RuntimeBytes& bytes) const = 0;
  // Throws Error(InvalidArgument) for a device that there is not, Error(Memory) with numbers where it, or the host, has
  // too little.
  virtual void reserve() = 0;
  // What multiplies on a device, once reserved: "own", or the library's name and version; results depend on it.
  virtual std::string gpuProducts() const { return {}; }

  // Cut where what comes from a store again and again begins.
  virtual const Weights& storedWeights() const = 0;
  // From one of these two; see Model.
  virtual void load(WeightStore& store, LoadProgress& progress) = 0;
  virtual void load(const std::vector<File>& files, LoadProgress& progress) = 0;
  // store: null where nothing comes from one.
  virtual void loadWeight(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                          Launch& launch) = 0;
  // The same of a mixture of which few tokens are computed next: experts may be left out that compute() reads then.
  virtual void loadChosen(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                          Launch& launch) {
    loadWeight(layer, buffer, store, stopped, launch);
  }
  virtual std::unique_ptr<TaskResult> compute(ComputePart part, uint32_t layer, const Batch& batch,
                                              Activations& activations, int32_t buffer, const Staging& staging,
                                              Launch& launch) = 0;

  // read() reads pages of the cache from the disk, on which layers of weights may be read, too: these have more time.
  virtual void readPages(const std::function<void()>& read) { read(); }
  // Where pages of the cache come to a device that attends (GpuOptions::cacheBuffers): brings those of a square to the
  // staging's buffer there, and takes back those with new tokens. readDisk fills the staging memory.
  virtual void loadCache(uint32_t, const FetchedPages&, const Staging&, const std::function<void()>& /*readDisk*/,
                         Launch&) {}
  virtual void storeCache(uint32_t, const FetchedPages&, const Staging&, Launch&) {}

  // On any thread. Throws Error(Memory), with numbers, where a device has no room left.
  virtual std::shared_ptr<Activations> createActivations(uint32_t tokens) = 0;
  // See Model. file: of the store.
  virtual void storeHidden(HiddenStore& store, DirectFile* file, const Activations& activations, uint32_t tokens,
                           const Launch& launch) = 0;
  virtual void loadHidden(HiddenStore& store, DirectFile* file, Activations& activations, uint32_t tokens,
                          Launch& launch) = 0;
  virtual void readHidden(const Activations& activations, float* to, size_t count, const Launch& launch) = 0;
  virtual void writeHidden(Activations& activations, const float* from, size_t count) = 0;
};

std::unique_ptr<Backend> makeCpuBackend(const BackendParts& parts);
// Throws Error(InvalidArgument) for options that a device cannot serve, and in an addon that was built without CUDA.
// Asks no device for anything.
std::unique_ptr<Backend> makeCudaBackend(const BackendParts& parts);

}  // namespace spillway
