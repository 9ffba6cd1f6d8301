// Keys and values on their way into the device's cache: rounded to 16 bits, or quantised.
#include "GpuPages.h"
#include "gpuMeasurements.h"

namespace spillway {

namespace {

constexpr const char* kKinds[] = {"f16", "q8", "q4"};
constexpr uint32_t kTokens = 512, kSmallTokens = 16;

class GpuCacheStoreMeasurement final : public Measurement {
 public:
  explicit GpuCacheStoreMeasurement(SharedGpuBench gpu) : gpu_(std::move(gpu)) {}

  std::string name() const override { return "quantising keys and values on the GPU"; }

  void round(Workbench& bench) override {
    const uint32_t count = gpu_->small() ? kSmallTokens : kTokens;
    for (size_t kind = 0; kind < std::size(kKinds); kind++) {
      const CacheLayout layout{cacheTypeOf(kKinds[kind]), gpu_->small() ? 1 : kProfileKvHeads, kProfileHeadDim,
                               bench.options().pageTokens};
      const size_t width = size_t{layout.kvHeads} * layout.headDim;
      const GpuPages pages(*gpu_, layout, 1, count, gpu_->memoryBytes() / 2);
      std::vector<cuda::AttentionToken> list;
      for (uint32_t position = 0; position < count; position++) list.push_back({pages.row(0), position});
      const Device::Piece tokens = onDevice(*gpu_, list, "profiling the GPU's cache"),
                          numbers = onDevice(*gpu_, plainNumbers(count * width), "profiling the GPU's cache");
      const float* values = reinterpret_cast<const float*>(numbers.data());
      gpu_->sample(bench, samples_[kind], calls_[kind], 2.0 * count * static_cast<double>(width), [&] {
        cuda::storeTokens(gpu_->stream(), layout, reinterpret_cast<const cuda::AttentionToken*>(tokens.data()), count,
                          values, values, width);
      });
      gpu_->link().finish();
    }
  }

  void report(MachineFigures& into) const override {
    for (size_t kind = 0; kind < std::size(kKinds); kind++) {
      Figure& figure = samples_[kind].report(into, "gpu-cache-store");
      figure.kind = kKinds[kind];
    }
  }

 private:
  SharedGpuBench gpu_;
  size_t calls_[std::size(kKinds)] = {};
  Samples samples_[std::size(kKinds)];
};

}  // namespace

std::unique_ptr<Measurement> measureGpuCacheStore(SharedGpuBench gpu) {
  return std::make_unique<GpuCacheStoreMeasurement>(std::move(gpu));
}

}  // namespace spillway
