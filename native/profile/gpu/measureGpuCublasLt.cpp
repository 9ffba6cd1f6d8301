// Products of many tokens on the device by cuBLASLt: beside measureGpuMatmul.cpp it is what `gpuProducts` decides on.
#include <vector>

#include "../../kernels/cpu/Matmul.h"
#include "../../kernels/cuda/CublasLtProducts.h"
#include "gpuMeasurements.h"

namespace spillway {

namespace {

struct Shape {
  uint32_t outputs, inputs;
};
constexpr Shape kShapes[] = {{11008, 4096}, {4096, 11008}};
constexpr Shape kSmallShapes[] = {{16, 256}, {16, 512}};
constexpr size_t kTokens[] = {256, 1024};
constexpr size_t kSmallTokens[] = {16};
constexpr std::pair<const char*, WeightType> kKinds[] = {
    {"q4", WeightType::Q4_0}, {"q8", WeightType::Q8_0}, {"f16", WeightType::F16}};
constexpr const char* kWhat = "profiling the GPU's products";

struct Point {
  size_t kind, shape, tokens;
  size_t calls = 0;
  Samples samples{};  // seconds an operation
};

class GpuCublasLtMeasurement final : public Measurement {
 public:
  explicit GpuCublasLtMeasurement(SharedGpuBench gpu)
      : gpu_(std::move(gpu)), products_(cuda::CublasLtProducts::open(whyNot_)) {
    if (products_ == nullptr) return;
    if (gpu_->small())
      addPoints(std::begin(kSmallTokens), std::end(kSmallTokens));
    else
      addPoints(std::begin(kTokens), std::end(kTokens));
  }

  std::string name() const override { return "products by cuBLASLt on the GPU"; }

  void round(Workbench& bench) override {
    for (Point& point : points_) takePoint(bench, point);
  }

  void report(MachineFigures& into) const override {
    if (!whyNot_.empty()) into.leftOut.push_back({"cuBLASLt", whyNot_});
    if (products_ == nullptr) return;
    // Both shapes are one figure.
    for (size_t p = 0; p + 1 < points_.size(); p += 2) {
      const Samples &a = points_[p].samples, &b = points_[p + 1].samples;
      if (a.count() == 0 || b.count() == 0) continue;
      Figure figure;
      figure.what = "gpu-matmul-cublaslt";
      figure.kind = kKinds[points_[p].kind].first;
      figure.tokens = points_[p].tokens;
      figure.perSecond = 2 / (a.median() + b.median());
      figure.spread = (a.median() * a.spread() + b.median() * b.spread()) / (a.median() + b.median());
      figure.samples = a.count() + b.count();
      into.figures.push_back(figure);
    }
  }

 private:
  void addPoints(const size_t* begin, const size_t* end) {
    for (size_t kind = 0; kind < std::size(kKinds); kind++)
      for (const size_t* tokens = begin; tokens != end; tokens++)
        for (size_t shape = 0; shape < std::size(kShapes); shape++) points_.push_back({kind, shape, *tokens});
  }
  // Fewer outputs where the whole matrix has no room: a rate stays a rate.
  Shape fitting(size_t index, size_t tokens) const {
    Shape shape = gpu_->small() ? kSmallShapes[index] : kShapes[index];
    const size_t room = gpu_->memoryBytes() / 4;
    const auto takes = [&] {
      return cuda::CublasLtProducts::workspaceBytes(shape.outputs, shape.inputs, tokens) +
             packedBytes(WeightType::F16, shape.outputs, shape.inputs);
    };
    while (shape.outputs > 128 && takes() > room) shape.outputs = shape.outputs / 32 * 16;
    return shape;
  }

  void takePoint(Workbench& bench, Point& point) {
    const Shape shape = fitting(point.shape, point.tokens);
    const size_t inputs = shape.inputs;
    if (point.tokens * (inputs * 6 + shape.outputs * 4) > gpu_->memoryBytes() / 2) return;
    const WeightType type = kKinds[point.kind].second;
    {
      const Device::Piece memory = gpu_->take(cuda::CublasLtProducts::tryBytes(shape.outputs, shape.inputs), kWhat);
      if (!products_->prepare(gpu_->stream(), shape.outputs, shape.inputs, memory.data())) {
        whyNot_ = products_->path() + ": found no algorithm that keeps a row's bits, for matrices of " +
                  std::to_string(shape.outputs) + " x " + std::to_string(inputs);
        return;
      }
    }
    const size_t bytes = packedBytes(type, shape.outputs, shape.inputs);
    const Device::Piece weights = gpu_->take(bytes, kWhat), x = gpu_->take(point.tokens * inputs * 4, kWhat),
                        factors = gpu_->take(point.tokens * 4, kWhat),
                        values = gpu_->take((point.tokens + cuda::CublasLtProducts::kRowUnit - 1) * inputs * 2, kWhat),
                        outputs = gpu_->take(point.tokens * shape.outputs * 4, kWhat),
                        workspace = gpu_->take(
                            cuda::CublasLtProducts::workspaceBytes(shape.outputs, shape.inputs, point.tokens), kWhat);
    const cuda::HalfRows prepared{reinterpret_cast<uint16_t*>(values.data()), reinterpret_cast<float*>(factors.data()),
                                  point.tokens, inputs};
    const cuda::RowRun all{0, point.tokens};
    gpu_->sample(
        bench, point.samples, point.calls, 2.0 * shape.outputs * static_cast<double>(inputs * point.tokens), [&] {
          cuda::prepareRows(gpu_->stream(), reinterpret_cast<const float*>(x.data()), inputs, prepared);
          products_->multiply(gpu_->stream(), shape.outputs, {type, shape.outputs, shape.inputs, weights.data()},
                              prepared, &all, 1, {nullptr, reinterpret_cast<float*>(outputs.data()), shape.outputs},
                              workspace.data());
        });
    gpu_->link().finish();
  }

  SharedGpuBench gpu_;
  std::string whyNot_;  // empty: nothing has been left out
  std::unique_ptr<cuda::CublasLtProducts> products_;
  std::vector<Point> points_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuCublasLt(SharedGpuBench gpu) {
  return std::make_unique<GpuCublasLtMeasurement>(std::move(gpu));
}

}  // namespace spillway
