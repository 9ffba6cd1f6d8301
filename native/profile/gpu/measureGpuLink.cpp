// Copies between pinned memory of the host and the device: of several sizes, one after the other, and small ones that
// are waited for one by one.
#include <vector>

#include "gpuMeasurements.h"

namespace spillway {

namespace {

constexpr size_t kSizes[] = {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20};
constexpr size_t kSmallSizes[] = {size_t{64} << 10};
constexpr size_t kShort = 4096;  // bytes of a copy of which the way is all
constexpr unsigned kDepth = 8;   // copies that are given at a time

struct Point {
  bool up;
  size_t bytes;
  unsigned depth;
  size_t calls = 0;
  Samples samples;  // seconds a byte
};

class GpuLinkMeasurement final : public Measurement {
 public:
  explicit GpuLinkMeasurement(SharedGpuBench gpu) : gpu_(std::move(gpu)) {
    for (const bool up : {true, false}) {
      points_.push_back({up, kShort, 1, 0, {}});
      if (gpu_->small())
        addPoints(up, std::begin(kSmallSizes), std::end(kSmallSizes));
      else
        addPoints(up, std::begin(kSizes), std::end(kSizes));
    }
  }

  std::string name() const override { return "the link to the GPU"; }

  void round(Workbench& bench) override {
    size_t most = 0;
    for (const Point& point : points_) most = std::max(most, point.bytes);
    const Device::Piece memory = gpu_->take(most, "profiling the GPU's link");
    for (Point& point : points_) {
      const double bytes = static_cast<double>(point.bytes);
      if (point.depth == 1) {
        // As queries and attention's results cross: through the pieces of the link, to be known to be there.
        std::vector<uint8_t> values(point.bytes, 1);
        gpu_->sample(bench, point.samples, point.calls, bytes, [&] {
          if (point.up)
            gpu_->link().upload(memory.data(), values.data(), point.bytes), gpu_->link().finish();
          else
            gpu_->link().download(values.data(), memory.data(), point.bytes);
        });
        continue;
      }
      size_t at = 0;
      gpu_->sample(bench, point.samples, point.calls, bytes * kDepth, [&] {
        for (unsigned copy = 0; copy < kDepth; copy++) {
          if (at + point.bytes > gpu_->pinnedBytes()) at = 0;
          uint8_t* here = gpu_->pinned() + at;
          at += point.bytes;
          if (point.up)
            cuda::check(cudaMemcpyAsync(memory.data(), here, point.bytes, cudaMemcpyHostToDevice, gpu_->stream()),
                        "cudaMemcpyAsync");
          else
            cuda::check(cudaMemcpyAsync(here, memory.data(), point.bytes, cudaMemcpyDeviceToHost, gpu_->stream()),
                        "cudaMemcpyAsync");
        }
      });
    }
  }

  void report(MachineFigures& into) const override {
    for (const Point& point : points_) {
      Figure& figure = point.samples.report(into, point.up ? "link-up" : "link-down");
      figure.requestBytes = point.bytes;
      figure.depth = point.depth;
    }
  }

 private:
  void addPoints(bool up, const size_t* begin, const size_t* end) {
    for (const size_t* bytes = begin; bytes != end; bytes++) {
      if (*bytes <= gpu_->pinnedBytes()) points_.push_back({up, *bytes, kDepth, 0, {}});
    }
  }

  SharedGpuBench gpu_;
  std::vector<Point> points_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuLink(SharedGpuBench gpu) {
  return std::make_unique<GpuLinkMeasurement>(std::move(gpu));
}

}  // namespace spillway
