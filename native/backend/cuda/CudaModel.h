// GpuModel on CUDA, or its emulation.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "../../kernels/cuda/MemoryPool.h"
#include "../../model/WeightBuffers.h"
#include "BufferOrder.h"
#include "Device.h"
#include "GpuModel.h"
#include "GpuPass.h"
#include "GpuWeights.h"
#include "Link.h"

namespace spillway {

class CudaModel : public GpuModel {
 public:
  explicit CudaModel(const GpuParts& parts);
  ~CudaModel() override;

  GpuBytes bytes() const override;
  size_t hostWeightBytes() const override { return weights_.hostBytes(); }
  size_t hostScratchBytes() const override { return hostScratchBytes_; }
  void reserve() override;
  std::string products() const override;
  void load(WeightStore& store, LoadProgress& progress) override;
  void load(const std::vector<File>& files, LoadProgress& progress) override;
  void loadWeight(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                  Launch& launch) override;
  std::unique_ptr<TaskResult> compute(ComputePart part, uint32_t layer, const Batch& batch, Activations& activations,
                                      int32_t buffer, const GpuStaging& staging, Launch& launch) override;
  std::shared_ptr<Activations> createActivations(uint32_t tokens) override;
  void readHidden(const Activations& activations, void* to, size_t bytes, const Launch& launch) override;
  void writeHidden(Activations& activations, const void* from, size_t bytes, Launch& launch) override;

 private:
  void measureScratch();
  // Gives the link's stream a task's work, and leaves its end in `launch`. What body throws goes through, once the
  // stream has ended what it was given.
  static void launchOn(Link& link, Launch& launch, const std::function<void()>& body);
  GpuPass passOf(const Batch& batch, Activations& activations, Scratch& scratch, Scratch& host, Link* link) const;
  void reserveLinks();
  void reserveConstants();
  // Whether cuBLASLt is to multiply, if it can be used: it knows no products in float32.
  bool wantsLibrary() const {
    return parts_.options.gpu->products != GpuProducts::Own && parts_.compute.precision == Precision::Default;
  }
  // Matrices that it may multiply then: visit(matrix).
  template <typename Visit>
  void forProducts(Visit visit) const;
  void openLibrary();

  const GpuParts parts_;
  const DecoderSpec& spec_;
  GpuWeights weights_;
  size_t pageBytes_, cacheBytes_;
  size_t scratchBytes_ = 0, hostScratchBytes_ = 0, constantBytes_ = 0;
  GpuPages pages_;
  GpuConstants constants_;

  // In order of their making; they go in the opposite one.
  std::shared_ptr<Device> device_;
  std::unique_ptr<cuda::CublasLtProducts> libraryProducts_;  // when it goes no stream works for it any more
  std::optional<cuda::MemoryPool> pinned_;
  Device::Piece weightMemory_, bufferMemory_, cacheMemory_, scratchMemory_, constantMemory_;
  Arena hostScratch_;
  WeightBuffers buffers_;
  BufferOrder bufferOrder_;
  StreamsDone done_;
  std::mutex upMutex_, downMutex_;  // stores and peers have queues of their own
  std::optional<Link> computeLink_, weightLink_, upLink_, downLink_;
};

}  // namespace spillway
