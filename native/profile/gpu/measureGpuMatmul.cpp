// Matrix products on the device, as a layer has them: rows become halves, weights are read as they lie, codes of 4 and
// 8 bits taken apart on the way. What follows the other is another matrix, as in a model, so that weights come from the
// device's memory.
#include <vector>

#include "../../kernels/cpu/Matmul.h"
#include "../../kernels/cuda/Matmul.h"
#include "gpuMeasurements.h"

namespace spillway {

namespace {

struct Shape {
  uint32_t outputs, inputs;
};
// As on the processor (native/profile/measureMatmul.cpp), less of them: what depends on the outputs there are the
// caches.
constexpr Shape kShapes[] = {{11008, 4096}, {4096, 11008}, {3072, 576}};
constexpr Shape kSmallShapes[] = {{16, 4096}, {16, 4096}, {16, 576}};
constexpr size_t kMostInputs = 11008;
constexpr size_t kBytesAValue = 4 + 2 + 4;  // of a row: what it is made of, its halves, and what comes out
constexpr size_t kShort = 2;                // of these: the one of few inputs
// The largest is what a square of a large block has; smaller ones share a tile of 64 rows on the device.
constexpr size_t kTokens[] = {1, 16, 64, 256, 1024};
constexpr size_t kSmallTokens[] = {1, 16};

WeightType typeOf(const std::string& kind) {
  return kind == "f32"   ? WeightType::F32
         : kind == "f16" ? WeightType::F16
         : kind == "q8"  ? WeightType::Q8_0
                         : WeightType::Q4_0;
}

struct Point {
  size_t shape;
  size_t tokens;
  size_t calls = 0;
  Samples samples;  // seconds an operation
};

class GpuMatmulMeasurement final : public Measurement {
 public:
  GpuMatmulMeasurement(SharedGpuBench gpu, std::string kind)
      : gpu_(std::move(gpu)), kind_(std::move(kind)), type_(typeOf(kind_)) {
    for (size_t shape = gpu_->small() ? 1 : 0; shape < std::size(kShapes); shape++) {
      if (gpu_->small())
        addPoints(shape, std::begin(kSmallTokens), std::end(kSmallTokens));
      else
        addPoints(shape, std::begin(kTokens), std::end(kTokens));
    }
  }

  std::string name() const override { return "products with " + kind_ + " weights on the GPU"; }

  void round(Workbench& bench) override {
    size_t rows = 0;
    for (const Point& point : points_) rows = std::max(rows, point.tokens);
    const Device::Piece x = gpu_->take(rows * kMostInputs * 4, "profiling the GPU's products"),
                        values = gpu_->take(rows * kMostInputs * 2, "profiling the GPU's products"),
                        factors = gpu_->take(rows * 4, "profiling the GPU's products");
    // Half of the memory holds weights, or as much as is there.
    const Device::Piece weights =
        gpu_->take(gpu_->small() ? size_t{1} << 20 : gpu_->memoryBytes() / 2, "profiling the GPU's products");
    size_t at = 0;
    for (Point& point : points_) {
      const Shape shape = fitting(shapeOf(point.shape), weights.bytes());
      const size_t bytes = packedBytes(type_, shape.outputs, shape.inputs);
      const Device::Piece outputs = gpu_->take(point.tokens * shape.outputs * 4, "profiling the GPU's products");
      const cuda::HalfRows prepared{reinterpret_cast<uint16_t*>(values.data()),
                                    reinterpret_cast<float*>(factors.data()), point.tokens, shape.inputs};
      const double operations = 2.0 * shape.outputs * shape.inputs * static_cast<double>(point.tokens);
      gpu_->sample(bench, point.samples, point.calls, operations, [&] {
        if (at + bytes > weights.bytes()) at = 0;
        cuda::prepareRows(gpu_->stream(), reinterpret_cast<const float*>(x.data()), shape.inputs, prepared);
        cuda::multiply(gpu_->stream(), {type_, shape.outputs, shape.inputs, weights.data() + at}, prepared,
                       {nullptr, reinterpret_cast<float*>(outputs.data()), shape.outputs});
        at += cuda::MemoryPool::aligned(bytes);
      });
      gpu_->link().finish();
    }
  }

  void report(MachineFigures& into) const override {
    for (const Point& first : points_) {
      // The long shapes are one figure, reported with the first of them.
      if (first.shape != kShort && &first != longPoint(first.tokens)) continue;
      Figure figure;
      figure.what = "gpu-matmul";
      figure.kind = kind_;
      figure.tokens = first.tokens;
      figure.inputs = shapeOf(first.shape).inputs;
      double seconds = 0, uncertain = 0;
      size_t shapes = 0;
      for (const Point& point : points_) {
        if (point.tokens != first.tokens || (point.shape == kShort) != (first.shape == kShort)) continue;
        figure.inputs = std::min<size_t>(figure.inputs, shapeOf(point.shape).inputs);
        seconds += point.samples.median();
        uncertain += point.samples.median() * point.samples.spread();
        figure.samples += point.samples.count();
        shapes++;
      }
      figure.perSecond = static_cast<double>(shapes) / seconds;
      figure.spread = uncertain / seconds;
      into.figures.push_back(figure);
    }
  }

 private:
  const Shape& shapeOf(size_t shape) const { return gpu_->small() ? kSmallShapes[shape] : kShapes[shape]; }
  void addPoints(size_t shape, const size_t* begin, const size_t* end) {
    for (const size_t* tokens = begin; tokens != end; tokens++) {
      if (*tokens * kMostInputs * kBytesAValue <= gpu_->memoryBytes() / 4) points_.push_back({shape, *tokens, 0, {}});
    }
  }
  const Point* longPoint(size_t tokens) const {
    for (const Point& point : points_) {
      if (point.shape != kShort && point.tokens == tokens) return &point;
    }
    return nullptr;
  }
  // Fewer outputs where the whole matrix has no room: a rate stays a rate.
  Shape fitting(Shape shape, size_t bytes) const {
    const size_t panel = packedBytes(type_, 16, shape.inputs);
    shape.outputs = static_cast<uint32_t>(std::min<size_t>(shape.outputs, std::max<size_t>(1, bytes / panel) * 16));
    return shape;
  }

  SharedGpuBench gpu_;
  std::string kind_;
  WeightType type_;
  std::vector<Point> points_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuMatmul(SharedGpuBench gpu, const std::string& kind) {
  return std::make_unique<GpuMatmulMeasurement>(std::move(gpu), kind);
}

}  // namespace spillway
