// What a layer does to each row on the device beside its products and attention: norm and activation function, each
// with the rounding for a product, and rotation. Layers whose norms do not stand before their blocks, and mixtures, are
// not fused so far, and take longer.
#include <vector>

#include "../../kernels/cuda/RowKernels.h"
#include "GpuPages.h"
#include "gpuMeasurements.h"

namespace spillway {

namespace {

constexpr size_t kRows = 256, kWidth = 4096;
constexpr size_t kSmallRows = 2, kSmallWidth = 256;
constexpr uint32_t kHead = 64;
constexpr double kOperations = 5;  // that a value goes through

class GpuRowsMeasurement final : public Measurement {
 public:
  explicit GpuRowsMeasurement(SharedGpuBench gpu) : gpu_(std::move(gpu)) {}

  std::string name() const override { return "norms and activations on the GPU"; }

  void round(Workbench& bench) override {
    const size_t rows = gpu_->small() ? kSmallRows : kRows, width = gpu_->small() ? kSmallWidth : kWidth;
    const char* what = "profiling the GPU's rows";
    const Device::Piece hidden = gpu_->take(rows * width * 4, what), inner = gpu_->take(rows * width * 4, what),
                        factor = gpu_->take(rows * width * 4, what), weight = gpu_->take(width * 4, what),
                        halves = gpu_->take(rows * width * 2, what), factors = gpu_->take(rows * 4, what),
                        places = onDevice(*gpu_, std::vector<uint32_t>(rows, 0), what),
                        angles = onDevice(*gpu_, std::vector<float>(kHead, 0.7f), what);
    const auto floats = [](const Device::Piece& piece) { return reinterpret_cast<float*>(piece.data()); };
    const cuda::HalfRows prepared{reinterpret_cast<uint16_t*>(halves.data()), floats(factors), rows, width};
    const cudaStream_t stream = gpu_->stream();
    cuda::check(cudaMemsetAsync(inner.data(), 0, rows * width * 4, stream), "cudaMemsetAsync");
    gpu_->sample(bench, samples_, calls_, kOperations * static_cast<double>(rows * width), [&] {
      cuda::prepareRmsNorm(stream, floats(hidden), floats(weight), 1e-5f, prepared);
      cuda::rotate(stream, cuda::RotaryPairing::Halves, floats(inner), rows, width,
                   static_cast<uint32_t>(width / kHead), kHead, kHead, reinterpret_cast<const uint32_t*>(places.data()),
                   floats(angles), floats(angles) + kHead / 2);
      cuda::prepareActivated(stream, Activation::Silu, floats(inner), floats(factor), prepared);
    });
    gpu_->link().finish();
  }

  void report(MachineFigures& into) const override { samples_.report(into, "gpu-rows"); }

 private:
  SharedGpuBench gpu_;
  size_t calls_ = 0;
  Samples samples_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuRows(SharedGpuBench gpu) {
  return std::make_unique<GpuRowsMeasurement>(std::move(gpu));
}

}  // namespace spillway
