// From logits to tokens on the device.
#include "../../kernels/cuda/Sampling.h"
#include "GpuPages.h"
#include "gpuMeasurements.h"

namespace spillway {

namespace {

constexpr size_t kRows = 64, kVocabulary = 32768;
constexpr size_t kSmallRows = 1, kSmallVocabulary = 512;

class GpuSamplingMeasurement final : public Measurement {
 public:
  explicit GpuSamplingMeasurement(SharedGpuBench gpu) : gpu_(std::move(gpu)) {}

  std::string name() const override { return "sampling on the GPU"; }

  void round(Workbench& bench) override {
    const size_t rows = gpu_->small() ? kSmallRows : kRows, vocabulary = gpu_->small() ? kSmallVocabulary : kVocabulary;
    const char* what = "profiling the GPU's sampling";
    std::vector<float> numbers = plainNumbers(rows * vocabulary);
    for (float& logit : numbers)
      logit *= 3 * logit * logit;  // as on the processor: a few tokens are likely, most are not
    const Device::Piece logits = onDevice(*gpu_, numbers, what), workspace = gpu_->take(rows * vocabulary * 4, what),
                        tokens = gpu_->take(rows * 4, what);
    for (const bool greedy : {true, false}) {
      SamplingParameters parameters;
      if (!greedy) parameters.temperature = 0.8f, parameters.topP = 0.95f;
      std::vector<cuda::SamplingRow> list;
      for (size_t row = 0; row < rows; row++)
        list.push_back({parameters, reinterpret_cast<const float*>(logits.data()) + row * vocabulary, nullptr, 0,
                        static_cast<uint32_t>(row)});
      const Device::Piece there = onDevice(*gpu_, list, what);
      gpu_->sample(bench, samples_[greedy], calls_[greedy], static_cast<double>(rows * vocabulary), [&] {
        cuda::sampleTokens(gpu_->stream(), reinterpret_cast<const cuda::SamplingRow*>(there.data()), rows, vocabulary,
                           reinterpret_cast<float*>(workspace.data()), reinterpret_cast<int32_t*>(tokens.data()),
                           nullptr);
      });
      gpu_->link().finish();
    }
  }

  void report(MachineFigures& into) const override {
    for (const bool greedy : {true, false}) {
      samples_[greedy].report(into, greedy ? "gpu-sample-greedy" : "gpu-sample-top-p");
    }
  }

 private:
  SharedGpuBench gpu_;
  size_t calls_[2] = {};
  Samples samples_[2];  // top-p, greedy
};

}  // namespace

std::unique_ptr<Measurement> measureGpuSampling(SharedGpuBench gpu) {
  return std::make_unique<GpuSamplingMeasurement>(std::move(gpu));
}

}  // namespace spillway
