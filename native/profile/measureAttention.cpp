// Attention over a paged cache: of rows that decode, whose keys and values come from memory, and of a prompt.
#include <algorithm>
#include <cmath>

#include "Measurement.h"
#include "cachePages.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.02;       // a point and round
constexpr uint32_t kContext = 512;      // tokens of a row that decodes
constexpr uint32_t kShortContext = 32;  // of a row whose keys and values are the least of its work
constexpr uint32_t kPromptTokens = 512;
constexpr uint32_t kAsidePromptTokens = 64;  // of slow instruction sets
constexpr uint32_t kPromptKvHeads = 2;
constexpr size_t kMostRows = 1024;      // that decode at once
constexpr uint32_t kGroups[] = {1, 4};  // query heads that share a head of keys and values

struct Point {
  ComputeSetting setting;
  bool decode;
  uint32_t groupHeads;
  uint32_t context;  // of a row that decodes
  Samples samples;   // seconds an operation, or a byte; of the short context, a row and query head
  size_t rows = 0;   // that a sample computes
};

class AttentionMeasurement final : public Measurement {
 public:
  explicit AttentionMeasurement(const std::string& kind) : kind_(kind) {}

  std::string name() const override { return "attention over " + kind_ + " keys and values"; }

  void round(Workbench& bench) override {
    if (points_.empty()) {
      // The instruction sets that runs do not use by default are looked at with the default cache.
      for (const ComputeSetting& setting : bench.settings(kind_ == "f16")) {
        for (const uint32_t group : kGroups) points_.push_back({setting, true, group, kContext, {}, 0});
        if (kind_ == "f16" && !setting.aside) points_.push_back({setting, true, kGroups[0], kShortContext, {}, 0});
        points_.push_back({setting, false, kGroups[1], 0, {}, 0});
      }
    }
    const uint32_t pageTokens = bench.options().pageTokens;
    for (const bool decode : {true, false}) {
      const CacheLayout layout = {cacheTypeOf(kind_), decode ? kProfileKvHeads : kPromptKvHeads, kProfileHeadDim,
                                  pageTokens};
      const std::vector<const uint8_t*> pages = fillPages(bench, layout);
      for (Point& point : points_) {
        if (point.decode != decode || (rounds_ > 0 && point.setting.aside)) continue;
        if (decode)
          takeDecode(bench, layout, pages, point);
        else
          takePrefill(bench, layout, pages, point);
      }
    }
    rounds_++;
  }

  void report(MachineFigures& into) const override {
    for (const Point& point : points_) {
      Figure& figure = point.samples.report(into, !point.decode                    ? "attention-prefill"
                                                  : point.context == kShortContext ? "attention-short"
                                                                                   : "attention-decode");
      figure.kind = kind_;
      figure.instructionSet = instructionSetName(point.setting.set);
      figure.threads = point.setting.pool->threads();
      figure.tokens = point.decode ? point.context : promptTokens(point);
      figure.groupHeads = point.groupHeads;
    }
  }

 private:
  static uint32_t promptTokens(const Point& point) { return point.setting.aside ? kAsidePromptTokens : kPromptTokens; }
  AttentionShape shapeOf(const CacheLayout& layout, const Point& point) const {
    return {layout.kvHeads * point.groupHeads, 1.0f / std::sqrt(static_cast<float>(kProfileHeadDim)), 0, nullptr,
            false};
  }
  void prepare(const CacheLayout& layout, const Point& point, size_t rows, size_t tokens) {
    const uint32_t heads = layout.kvHeads * point.groupHeads;
    const size_t stride = static_cast<size_t>(heads) * kProfileHeadDim;
    if (queries_.size() < tokens * stride) queries_ = plainNumbers(tokens * stride);
    outputs_.resize(std::max(outputs_.size(), tokens * stride));
    const size_t bytes = attentionScratchBytes(layout, heads, rows, point.setting.pool->threads());
    if (scratch_.bytes() < bytes) scratch_ = Arena(bytes, "profiling this machine");
  }
  double attendTimed(const CacheLayout& layout, const Point& point, const std::vector<AttentionRow>& rows) {
    const Compute compute{kernelsFor(point.setting.set), *point.setting.pool, Precision::Default};
    const AttentionShape shape = shapeOf(layout, point);
    const size_t stride = static_cast<size_t>(shape.heads) * kProfileHeadDim;
    Scratch scratch(scratch_.data(), scratch_.bytes());
    return timed([&] { attend(compute, layout, shape, rows.data(), rows.size(), stride, stride, scratch); });
  }

  void takeDecode(Workbench& bench, const CacheLayout& layout, const std::vector<const uint8_t*>& pages, Point& point) {
    const size_t pagesPerRow =
        std::min<size_t>((point.context + layout.pageTokens - 1) / layout.pageTokens, pages.size());
    const uint32_t context = static_cast<uint32_t>(std::min<size_t>(point.context, pagesPerRow * layout.pageTokens));
    const size_t rowsThere = std::min<size_t>(pages.size() / pagesPerRow, kMostRows);
    const size_t stride = static_cast<size_t>(layout.kvHeads) * point.groupHeads * kProfileHeadDim;
    prepare(layout, point, rowsThere, rowsThere);
    size_t next = 0;
    std::vector<AttentionRow> rows;
    const auto attendRows = [&](size_t count) {
      rows.clear();
      for (size_t i = 0; i < count; i++, next++)
        rows.push_back(
            {&queries_[i * stride], &outputs_[i * stride], context - 1, 1, &pages[next % rowsThere * pagesPerRow]});
      return attendTimed(layout, point, rows);
    };
    if (point.rows == 0)
      point.rows = bench.unitsPerSample(std::min<size_t>(rowsThere, std::max<size_t>(4, point.setting.pool->threads())),
                                        rowsThere, attendRows);
    const double each = point.context == kShortContext ? static_cast<double>(layout.kvHeads) * point.groupHeads
                                                       : 2.0 * 2.0 * layout.kvHeads * layout.headDim * context;
    bench.sample(point.samples, kSeconds, 2,
                 [&] { return attendRows(point.rows) / (each * static_cast<double>(point.rows)); });
  }

  void takePrefill(Workbench& bench, const CacheLayout& layout, const std::vector<const uint8_t*>& pages,
                   Point& point) {
    const uint32_t tokens =
        static_cast<uint32_t>(std::min<size_t>(promptTokens(point), pages.size() * layout.pageTokens));
    prepare(layout, point, 1, tokens);
    const std::vector<AttentionRow> rows = {{queries_.data(), outputs_.data(), 0, tokens, pages.data(), tokens}};
    const double keys = tokens * (tokens + 1.0) / 2;
    const double operations = 4.0 * keys * layout.kvHeads * point.groupHeads * layout.headDim;
    bench.sample(point.samples, kSeconds, 2, [&] { return attendTimed(layout, point, rows) / operations; });
  }

  std::string kind_;
  size_t rounds_ = 0;
  std::vector<Point> points_;
  std::vector<float> queries_, outputs_;
  Arena scratch_;
};

}  // namespace

std::unique_ptr<Measurement> measureAttention(const std::string& kind) {
  return std::make_unique<AttentionMeasurement>(kind);
}

}  // namespace spillway
