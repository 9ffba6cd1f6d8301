// The device's memory: a block copied within it, larger than its caches where there is room.
#include "gpuMeasurements.h"

namespace spillway {

namespace {

constexpr size_t kMostBytes = size_t{256} << 20;
constexpr size_t kSmallBytes = size_t{64} << 10;

class GpuMemoryMeasurement final : public Measurement {
 public:
  explicit GpuMemoryMeasurement(SharedGpuBench gpu) : gpu_(std::move(gpu)) {}

  std::string name() const override { return "the GPU's memory"; }

  void round(Workbench& bench) override {
    const size_t bytes = gpu_->small() ? kSmallBytes : std::min(kMostBytes, gpu_->memoryBytes() / 4);
    const Device::Piece from = gpu_->take(bytes, "profiling the GPU's memory"),
                        to = gpu_->take(bytes, "profiling the GPU's memory");
    gpu_->sample(bench, samples_, calls_, static_cast<double>(bytes), [&] {
      cuda::check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, gpu_->stream()),
                  "cudaMemcpyAsync");
    });
  }

  void report(MachineFigures& into) const override { samples_.report(into, "gpu-memory-copy"); }

 private:
  SharedGpuBench gpu_;
  size_t calls_ = 0;
  Samples samples_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuMemory(SharedGpuBench gpu) {
  return std::make_unique<GpuMemoryMeasurement>(std::move(gpu));
}

}  // namespace spillway
