// The model on a device: what Model hands over where its options name a GPU. Free of CUDA: makeGpuModel() is defined by
// the library that is linked, spillway_gpu (with CUDA, or its emulation) or spillway_gpu_none.
//
// Memory on the device is one reservation, cut up when it is made: weights, weight buffers, pages of the cache,
// scratch; what is left is for activations. A task's work is given to a stream of the device, behind what
// Launch::before names, and its end is what it leaves in Launch::left. Where a task needs something back (experts,
// attention on the host, sampled tokens) it waits for that alone, and whoever is behind it with it.
#pragma once
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "../../kernels/cpu/Kernels.h"
#include "../../model/Activations.h"
#include "../../model/ComputeTask.h"
#include "../../model/PagePool.h"
#include "../../model/RuntimeOptions.h"
#include "../../model/WeightStore.h"
#include "../../system/Launch.h"
#include "../../system/ThreadPool.h"

namespace spillway {

// What it shares with the model that owns it; all of it outlives it.
struct GpuParts {
  const RuntimeOptions& options;
  Weights& weights;            // cut where the device's part of each layer ends; their places are on the device
  const Weights& hostWeights;  // the same, cut where host memory's part ends
  const PagePool& hostPages;
  const Compute& compute;
  ThreadPool& pool;
};

// The staging buffer of a square's pages on disk, in host memory.
struct GpuStaging {
  uint8_t* data = nullptr;
  size_t placeBytes = 0;
};

class GpuModel {
 public:
  virtual ~GpuModel() = default;

  virtual GpuBytes bytes() const = 0;
  virtual size_t hostWeightBytes() const = 0;  // of layers, in host memory
  virtual size_t hostScratchBytes() const = 0;

  // Throws Error(InvalidArgument) for a device that there is not, Error(Memory) with numbers where it, or the host, has
  // too little.
  virtual void reserve() = 0;
  // What multiplies, once reserved: "own", or the library's name and version; results depend on it.
  virtual std::string products() const = 0;
  // From one of these two; see Model.
  virtual void load(WeightStore& store, LoadProgress& progress) = 0;
  virtual void load(const std::vector<File>& files, LoadProgress& progress) = 0;
  virtual void loadWeight(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                          Launch& launch) = 0;
  virtual std::unique_ptr<TaskResult> compute(ComputePart part, uint32_t layer, const Batch& batch,
                                              Activations& activations, int32_t buffer, const GpuStaging& staging,
                                              Launch& launch) = 0;

  // On any thread. Throws Error(Memory), with numbers, where the reservation has no room left.
  virtual std::shared_ptr<Activations> createActivations(uint32_t tokens) = 0;
  // Hidden states across the link, on any thread. Reading returns when all is there; what is written may change when
  // writing returns.
  virtual void readHidden(const Activations& activations, void* to, size_t bytes, const Launch& launch) = 0;
  virtual void writeHidden(Activations& activations, const void* from, size_t bytes, Launch& launch) = 0;
};

// Entries of page tables that a batch may reach: those of rows of full length. There may be more than pages, since rows
// share these.
inline uint64_t mostGpuPageEntries(const RuntimeOptions& options) {
  return uint64_t(options.limits.rowsPerSquare) *
         ((options.decoder.contextTokens + options.pageTokens - 1) / options.pageTokens);
}

// Throws Error(InvalidArgument) for options that a device cannot serve, and in an addon that was built without CUDA.
// Asks no device for anything.
std::unique_ptr<GpuModel> makeGpuModel(const GpuParts& parts);

}  // namespace spillway
