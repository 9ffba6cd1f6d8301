// The backend on CUDA, or its emulation.
//
// Memory on the device is one reservation, cut up when it is made: weights, weight buffers, pages of the cache,
// scratch; what is left is for activations. A task's work is given to a stream of the device, after what
// Launch::before names, and its end is what it leaves in Launch::left. Where a task needs something back (experts,
// attention on the host, sampled tokens) it waits for that alone, and whoever is after it with it. Where the processor
// attends, attention has a stream and a thread of its own, so that nobody else is.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "../../kernels/cuda/MemoryPool.h"
#include "../../model/WeightBuffers.h"
#include "../../system/Arena.h"
#include "BufferOrder.h"
#include "Device.h"
#include "../Backend.h"
#include "CudaPass.h"
#include "GpuWeights.h"
#include "HostPin.h"
#include "Link.h"
#include "PageFetcher.h"

namespace spillway {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const BackendParts& parts);
  ~CudaBackend() override;

  void addBytes(RuntimeBytes& bytes) const override;
  void reserve() override;
  std::string gpuProducts() const override;
  const Weights& storedWeights() const override { return hostWeights_; }
  void load(WeightStore& store, LoadProgress& progress) override;
  void load(const std::vector<File>& files, LoadProgress& progress) override;
  void loadWeight(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                  Launch& launch) override;
  std::unique_ptr<TaskResult> compute(ComputePart part, uint32_t layer, const Batch& batch, Activations& activations,
                                      int32_t buffer, const Staging& staging, Launch& launch) override;
  void readPages(const std::function<void()>& read) override;
  void loadCache(uint32_t layer, const FetchedPages& pages, const Staging& staging,
                 const std::function<void()>& readDisk, Launch& launch) override;
  void storeCache(uint32_t layer, const FetchedPages& pages, const Staging& staging, Launch& launch) override;
  std::shared_ptr<Activations> createActivations(uint32_t tokens) override;
  void storeHidden(HiddenStore& store, DirectFile* file, const Activations& activations, uint32_t tokens,
                   const Launch& launch) override;
  void loadHidden(HiddenStore& store, DirectFile* file, Activations& activations, uint32_t tokens,
                  Launch& launch) override;
  void readHidden(const Activations& activations, float* to, size_t count, const Launch& launch) override;
  void writeHidden(Activations& activations, const float* from, size_t count) override;

 private:
  // What the tasks of one thread work with.
  struct Workplace {
    size_t scratchBytes = 0, hostBytes = 0;
    Device::Piece scratch;
    Arena host;
    std::optional<Link> link;
  };
  bool attendsApart() const { return spillway::attendsApart(parts_.options); }
  // Whether the device reads and writes pages in the host's memory by itself.
  bool reachesHostPages() const;
  // After the weights, whose files are in the system's cache until memory is short.
  void pinHostPages(const LoadProgress& progress);
  // Who copies what the system did not let be pinned.
  void divideThreads();
  GpuBytes bytes() const;
  void measureScratch();
  void reserve(Workplace& workplace);
  void upload(Activations& activations, const void* from, size_t count, Launch& launch);
  size_t hiddenPassageBytes() const;
  CudaPass passOf(const Batch& batch, Activations& activations, Scratch& scratch, Scratch& host, Link* link) const;
  void reserveLinks(const GpuBytes& sizes);
  void reserveConstants();
  // Whether cuBLASLt is to multiply, if it can be used: it knows no products in float32.
  bool wantsLibrary() const {
    return parts_.options.gpu->products != GpuProducts::Own && parts_.compute.precision == Precision::Default;
  }
  // Matrices that it may multiply then: visit(matrix).
  template <typename Visit>
  void forProducts(Visit visit) const;
  void openLibrary();

  const BackendParts parts_;
  const DecoderSpec& spec_;
  const Weights hostWeights_;  // cut where host memory's part of each layer ends
  GpuWeights weights_;
  size_t pageBytes_, cacheBytes_;
  size_t constantBytes_ = 0;
  DevicePages pages_;
  GpuConstants constants_;

  // In order of their making; they go in the opposite one.
  std::shared_ptr<Device> device_;
  std::unique_ptr<cuda::CublasLtProducts> libraryProducts_;  // when it goes no stream works for it any more
  std::optional<cuda::MemoryPool> pinned_;
  Device::Piece weightMemory_, bufferMemory_, cacheMemory_, cacheBufferMemory_, constantMemory_;
  Arena hiddenUp_, hiddenDown_;  // hidden states on their way between the device and a store
  WeightBuffers buffers_;
  BufferOrder bufferOrder_{"weight buffer"};
  StreamsDone done_;
  std::mutex upMutex_, downMutex_;  // stores and peers have queues of their own
  HostPin hostPages_;               // of all of them, once loaded
  Workplace compute_, attend_;      // attend_: where attention is apart
  std::optional<ThreadPool> copiers_;
  std::optional<PagesFirst> pagesFirst_;  // where pages may come while weights do
  std::optional<Link> weightLink_, upLink_, downLink_;
  PageFetcher fetcher_;
};

}  // namespace spillway
