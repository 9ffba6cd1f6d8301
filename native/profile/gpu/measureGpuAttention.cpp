// Attention over a paged cache on the device: of rows that decode, whose keys and values come from its memory, and of a
// prompt.
#include <cmath>

#include "GpuPages.h"
#include "gpuMeasurements.h"

namespace spillway {

namespace {

constexpr uint32_t kContext = 512;      // tokens of a row that decodes
constexpr uint32_t kShortContext = 32;  // of a row whose keys and values are the least of its work
constexpr uint32_t kPromptTokens = 512;
constexpr uint32_t kSmallContext = 64, kSmallPromptTokens = 32;
constexpr size_t kRows = 256;  // that decode at once
constexpr size_t kSmallRows = 2;
constexpr uint32_t kGroups[] = {1, 4};  // query heads that share a head of keys and values

enum class Way { Decode, Short, Prefill };

struct Point {
  Way way;
  uint32_t groupHeads;
  size_t calls = 0;
  Samples samples;  // seconds an operation, or a byte; of the short context, a row and query head
};

class GpuAttentionMeasurement final : public Measurement {
 public:
  GpuAttentionMeasurement(SharedGpuBench gpu, std::string kind) : gpu_(std::move(gpu)), kind_(std::move(kind)) {
    for (const uint32_t group : kGroups) points_.push_back({Way::Decode, group, 0, {}});
    // Prompts attend to halves, whatever the cache is kept as.
    if (kind_ != "f16") return;
    points_.push_back({Way::Short, kGroups[0], 0, {}});
    points_.push_back({Way::Prefill, kGroups[1], 0, {}});
  }

  std::string name() const override { return "attention over " + kind_ + " keys and values on the GPU"; }

  void round(Workbench& bench) override {
    const CacheLayout layout{cacheTypeOf(kind_), gpu_->small() ? 1 : kProfileKvHeads, kProfileHeadDim,
                             bench.options().pageTokens};
    for (Point& point : points_) {
      if (point.way == Way::Prefill)
        takePrefill(bench, layout, point);
      else
        takeDecode(bench, layout, point);
      gpu_->link().finish();
    }
  }

  void report(MachineFigures& into) const override {
    for (const Point& point : points_) {
      Figure& figure = point.samples.report(into, point.way == Way::Prefill ? "gpu-attention-prefill"
                                                  : point.way == Way::Short ? "gpu-attention-short"
                                                                            : "gpu-attention-decode");
      figure.kind = kind_;
      figure.tokens = tokensOf(point.way);
      figure.groupHeads = point.groupHeads;
    }
  }

 private:
  uint32_t tokensOf(Way way) const {
    if (way == Way::Prefill) return gpu_->small() ? kSmallPromptTokens : kPromptTokens;
    return way == Way::Short ? kShortContext : gpu_->small() ? kSmallContext : kContext;
  }
  static AttentionShape shapeOf(uint32_t heads) {
    return {heads, 1.0f / std::sqrt(static_cast<float>(kProfileHeadDim)), 0, nullptr, false};
  }
  Device::Piece floats(size_t count) { return gpu_->take(count * sizeof(float), "profiling the GPU's attention"); }
  static float* asFloats(const Device::Piece& piece) { return reinterpret_cast<float*>(piece.data()); }

  void takeDecode(Workbench& bench, const CacheLayout& layout, Point& point) {
    const uint32_t context = tokensOf(point.way), heads = layout.kvHeads * point.groupHeads,
                   parts = cuda::attentionParts(context - 1);
    const size_t width = size_t{heads} * layout.headDim;
    const GpuPages pages(*gpu_, layout, gpu_->small() ? kSmallRows : kRows, context, gpu_->memoryBytes() / 2);
    const size_t rows = pages.rows();
    std::vector<cuda::AttentionToken> list;
    for (size_t row = 0; row < rows; row++) list.push_back({pages.row(row), context - 1});
    const Device::Piece tokens = onDevice(*gpu_, list, "profiling the GPU's attention"), queries = floats(rows * width),
                        outputs = floats(rows * width),
                        weights = gpu_->take(rows * heads * parts * sizeof(cuda::AttentionPartial),
                                             "profiling the GPU's attention"),
                        values = floats(rows * width * parts);
    const cuda::AttentionPartials partials{reinterpret_cast<cuda::AttentionPartial*>(weights.data()), asFloats(values),
                                           parts};
    const double each = point.way == Way::Short ? heads : 2.0 * 2.0 * layout.kvHeads * layout.headDim * context;
    gpu_->sample(bench, point.samples, point.calls, each * static_cast<double>(rows), [&] {
      cuda::decodeAttention(gpu_->stream(), layout, shapeOf(heads),
                            reinterpret_cast<const cuda::AttentionToken*>(tokens.data()), rows, asFloats(queries),
                            width, asFloats(outputs), width, partials);
    });
  }

  void takePrefill(Workbench& bench, const CacheLayout& layout, Point& point) {
    const uint32_t count = tokensOf(point.way), heads = layout.kvHeads * point.groupHeads;
    const size_t width = size_t{heads} * layout.headDim;
    const GpuPages pages(*gpu_, layout, 1, count, gpu_->memoryBytes() / 2);
    std::vector<cuda::AttentionToken> list;
    for (uint32_t position = 0; position < count; position++) list.push_back({pages.row(0), position});
    const std::vector<cuda::AttentionRange> one = {{0, count}};
    const Device::Piece tokens = onDevice(*gpu_, list, "profiling the GPU's attention"),
                        ranges = onDevice(*gpu_, one, "profiling the GPU's attention"), queries = floats(count * width),
                        outputs = floats(count * width);
    const double operations = 4.0 * (count * (count + 1.0) / 2) * heads * layout.headDim;
    gpu_->sample(bench, point.samples, point.calls, operations, [&] {
      cuda::prefillAttention(gpu_->stream(), layout, shapeOf(heads),
                             reinterpret_cast<const cuda::AttentionToken*>(tokens.data()),
                             reinterpret_cast<const cuda::AttentionRange*>(ranges.data()), 1, count, asFloats(queries),
                             width, asFloats(outputs), width);
    });
  }

  SharedGpuBench gpu_;
  std::string kind_;
  std::vector<Point> points_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuAttention(SharedGpuBench gpu, const char* kind) {
  return std::make_unique<GpuAttentionMeasurement>(std::move(gpu), kind);
}

}  // namespace spillway
