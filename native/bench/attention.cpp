// Attention alone, in the shape of SmolLM2-135M by default, for every type of cache: decode (one token a row), decode
// with a tenth of the values (sparse), prefill (all tokens of one row), and decode of rows that have all their tokens
// but the newest page in common (shared).
//   attention [rows=64] [context=300] [heads=9] [kvHeads=3] [headDim=64] [pageTokens=64] [threads=1] [json|words]
//   [decode|sparse|prefill|shared, default all]
// Decode goes through as many layers' pages as the model has, so that keys and values come from memory and not from a
// cache. Types take turns, five times over, so that a busy neighbour slows all of them; the last column is the speed as
// a multiple of f16 in the same turn (median).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../kernels/cpu/Attention.h"
#include "../system/Arena.h"
#include "../system/ThreadPool.h"

namespace {
using namespace spillway;

constexpr size_t kLayers = 30;

struct Settings {
  uint32_t rows, context, heads, kvHeads, headDim, pageTokens, threads;
  bool json;  // a line of JSON each instead of words
};

// With one thread the processor time that this process got, so that neighbours do not count; helpers spin while they
// wait, so with more it is wall time.
double secondsNow(uint32_t threads) {
  timespec now;
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::vector<float> randomFloats(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Pages of `layers` layers for every row, each filled with the same tokens. `shared`: all rows of a layer have but
// their last page in common.
struct Cache {
  Cache(const Kernels& kernels, const CacheLayout& layout, size_t layers, size_t rows, uint32_t tokens, bool shared)
      : pagesPerRow((tokens + layout.pageTokens - 1) / layout.pageTokens),
        pageBytes(cachePageBytes(layout)),
        memory(layers * (shared ? pagesPerRow + rows - 1 : rows * pagesPerRow) * pageBytes, "the cache") {
    const size_t width = static_cast<size_t>(layout.kvHeads) * layout.headDim, common = shared ? pagesPerRow - 1 : 0;
    const std::vector<float> numbers = randomFloats(2 * width * tokens);
    uint8_t* next = memory.data();
    for (size_t row = 0; row < layers * rows; row++)
      for (size_t page = 0; page < pagesPerRow; page++) {
        if (row % rows > 0 && page < common) {
          pages.push_back(pages[row / rows * rows * pagesPerRow + page]);
          continue;
        }
        pages.push_back(next);
        if (row > 0) std::copy_n(pages[page], pageBytes, next);
        for (uint32_t t = 0; row == 0 && t < layout.pageTokens && page * layout.pageTokens + t < tokens; t++) {
          const float* token = &numbers[2 * (page * layout.pageTokens + t) * width];
          cacheStore(kernels, layout, next, t, token, token + width);
        }
        next += pageBytes;
      }
  }
  size_t pagesPerRow, pageBytes;
  Arena memory;
  std::vector<const uint8_t*> pages;
};

enum class Kind { Decode, Sparse, Prefill, Shared };
const char* const kKindNames[] = {"decode", "sparse", "prefill", "shared"};
constexpr CacheType kTypes[] = {CacheType::F16, CacheType::F32, CacheType::Q8, CacheType::Q4};
const char* const kTypeNames[] = {"f32", "f16", "q8", "q4"};  // by value
constexpr size_t kTurns = 5;

class Measurement {
 public:
  Measurement(InstructionSet set, CacheType type, Kind kind, const Settings& s)
      : kind_(kind),
        settings_(s),
        pool_(s.threads),
        compute_{kernelsFor(set), pool_, Precision::Default},
        layout_{type, s.kvHeads, s.headDim, s.pageTokens},
        shape_{s.heads, 1.0f / std::sqrt(static_cast<float>(s.headDim)),
               0,       nullptr,
               false,   kind == Kind::Sparse ? 0.1f : 1.0f},
        layers_(kind == Kind::Prefill ? 1 : kLayers),
        rows_(kind == Kind::Prefill ? 1 : s.rows),
        tokens_(kind == Kind::Prefill ? s.context : 1),
        stride_(static_cast<size_t>(s.heads) * s.headDim),
        cache_(compute_.kernels, layout_, layers_, rows_, s.context, kind == Kind::Shared),
        queries_(randomFloats(rows_ * tokens_ * stride_)),
        outputs_(queries_.size()),
        block_(attentionScratchBytes(layout_, s.heads, rows_, s.threads, s.context) + 64) {}

  // Seconds a token and layer.
  double run() {
    void* aligned = block_.data() + (64 - reinterpret_cast<uintptr_t>(block_.data()) % 64) % 64;
    const double start = secondsNow(settings_.threads);
    for (size_t layer = 0; layer < layers_; layer++) {
      Scratch scratch(aligned, block_.size() - 64);
      std::vector<AttentionRow> ranges;
      for (size_t row = 0; row < rows_; row++)
        ranges.push_back({&queries_[row * tokens_ * stride_], &outputs_[row * tokens_ * stride_],
                          settings_.context - tokens_, tokens_,
                          &cache_.pages[(layer * rows_ + row) * cache_.pagesPerRow],
                          kind_ == Kind::Prefill ? settings_.context : 0});
      attend(compute_, layout_, shape_, ranges.data(), rows_, stride_, stride_, scratch);
    }
    return (secondsNow(settings_.threads) - start) / static_cast<double>(layers_ * rows_ * tokens_);
  }
  double seen() const { return kind_ == Kind::Prefill ? (settings_.context + 1) / 2.0 : settings_.context; }
  double operations() const { return 4.0 * settings_.heads * settings_.headDim * seen(); }
  double bytes() const { return static_cast<double>(cachePageBytes(layout_)) / layout_.pageTokens * seen(); }

 private:
  Kind kind_;
  Settings settings_;
  ThreadPool pool_;
  Compute compute_;
  CacheLayout layout_;
  AttentionShape shape_;
  size_t layers_, rows_;
  uint32_t tokens_;
  size_t stride_;
  Cache cache_;
  std::vector<float> queries_, outputs_;
  std::vector<uint8_t> block_;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void measure(InstructionSet set, Kind kind, const Settings& s) {
  std::vector<std::unique_ptr<Measurement>> measurements;
  for (CacheType type : kTypes) measurements.push_back(std::make_unique<Measurement>(set, type, kind, s));
  std::vector<std::vector<double>> seconds(measurements.size()), ratios(measurements.size());
  for (const auto& measurement : measurements) measurement->run();  // warms up
  for (size_t turn = 0; turn < kTurns; turn++)
    for (size_t i = 0; i < measurements.size(); i++) {
      seconds[i].push_back(measurements[i]->run());
      ratios[i].push_back(seconds[0].back() / seconds[i].back());
    }
  for (size_t i = 0; i < measurements.size(); i++) {
    const double each = median(seconds[i]);
    if (s.json) {
      std::printf(
          "{\"op\":\"attention\",\"instructionSet\":\"%s\",\"threads\":%u,\"name\":\"%s\",\"type\":\"%s\",\"rows\":%u,"
          "\"context\":%u,\"operationsPerSecond\":%.0f,"
          "\"cacheBytesPerSecond\":%.0f,\"timesF16\":%.3f}\n",
          instructionSetName(set), s.threads, kKindNames[static_cast<int>(kind)],
          kTypeNames[static_cast<int>(kTypes[i])], s.rows, s.context, measurements[i]->operations() / each,
          measurements[i]->bytes() / each, median(ratios[i]));
      continue;
    }
    std::printf("%-6s %-3s %-7s %8.2f us a token of %zu layers, %6.1f GFLOP/s, ", instructionSetName(set),
                kTypeNames[static_cast<int>(kTypes[i])], kKindNames[static_cast<int>(kind)], each * kLayers * 1e6,
                kLayers, measurements[i]->operations() / each / 1e9);
    if (kind == Kind::Decode || kind == Kind::Shared)
      std::printf("%5.1f GB/s of keys and values, ", measurements[i]->bytes() / each / 1e9);
    std::printf("%.2f times f16\n", median(ratios[i]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, uint32_t fallback) {
    return argc > i ? static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)) : fallback;
  };
  const Settings settings = {
      argument(1, 64), argument(2, 300), argument(3, 9), argument(4, 3),
      argument(5, 64), argument(6, 64),  argument(7, 1), argc > 8 && std::string(argv[8]) == "json"};
  for (InstructionSet set : {InstructionSet::Avx512, InstructionSet::AvxVnni, InstructionSet::Avx2}) {
    if (!machineHas(set)) continue;
    for (Kind kind : {Kind::Decode, Kind::Sparse, Kind::Prefill, Kind::Shared})
      if (argc <= 9 || std::string(argv[9]) == kKindNames[static_cast<int>(kind)]) measure(set, kind, settings);
  }
  return 0;
}
