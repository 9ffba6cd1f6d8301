// Attention alone, in the shape of SmolLM2-135M by default: decode (one token a row) and prefill (all tokens of one row).
//   attention [rows=64] [context=300] [heads=9] [kvHeads=3] [headDim=64] [pageTokens=64] [threads=1]
// Decode goes through as many layers' pages as the model has, so that keys and values come from memory and not from a cache.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "../kernels/cpu/Attention.h"
#include "../runtime/Arena.h"
#include "../runtime/ThreadPool.h"

namespace {
using namespace spillway;

constexpr size_t kLayers = 30;

struct Settings {
  uint32_t rows, context, heads, kvHeads, headDim, pageTokens, threads;
};

double secondsNow() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<float> randomFloats(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Pages of `layers` layers for every row, each filled with the same tokens.
struct Cache {
  Cache(const Kernels& kernels, const CacheLayout& layout, size_t layers, size_t rows, uint32_t tokens)
      : pagesPerRow((tokens + layout.pageTokens - 1) / layout.pageTokens), pageBytes(cachePageBytes(layout)), memory(layers * rows * pagesPerRow * pageBytes, "the cache") {
    const size_t width = static_cast<size_t>(layout.kvHeads) * layout.headDim;
    const std::vector<float> numbers = randomFloats(2 * width * tokens);
    for (size_t i = 0; i < layers * rows * pagesPerRow; i++) pages.push_back(memory.data() + i * pageBytes);
    for (uint32_t t = 0; t < tokens; t++)
      cacheStore(kernels, layout, memory.data() + t / layout.pageTokens * pageBytes, t % layout.pageTokens, &numbers[2 * t * width], &numbers[(2 * t + 1) * width]);
    for (size_t row = 1; row < layers * rows; row++) std::copy_n(memory.data(), pagesPerRow * pageBytes, memory.data() + row * pagesPerRow * pageBytes);
  }
  size_t pagesPerRow, pageBytes;
  Arena memory;
  std::vector<const uint8_t*> pages;
};

void measure(InstructionSet set, CacheType type, const Settings& s, bool prefill) {
  ThreadPool pool(s.threads);
  const Compute compute{kernelsFor(set), pool, Precision::Default};
  const CacheLayout layout{type, s.kvHeads, s.headDim, s.pageTokens};
  const AttentionShape shape{s.heads, 1.0f / std::sqrt(static_cast<float>(s.headDim)), 0, nullptr, false};
  const size_t layers = prefill ? 1 : kLayers, rows = prefill ? 1 : s.rows;
  Cache cache(compute.kernels, layout, layers, rows, s.context);
  const size_t stride = static_cast<size_t>(s.heads) * s.headDim;
  const uint32_t tokens = prefill ? s.context : 1;
  const std::vector<float> queries = randomFloats(rows * tokens * stride);
  std::vector<float> outputs(queries.size());
  std::vector<uint8_t> block(attentionScratchBytes(layout, s.heads, rows, s.threads) + 64);
  void* aligned = block.data() + (64 - reinterpret_cast<uintptr_t>(block.data()) % 64) % 64;

  std::vector<double> times;
  for (int repeat = 0; repeat < 9; repeat++) {
    const double start = secondsNow();
    for (size_t layer = 0; layer < layers; layer++) {
      Scratch scratch(aligned, block.size() - 64);
      std::vector<AttentionRow> ranges;
      for (size_t row = 0; row < rows; row++)
        ranges.push_back({&queries[row * tokens * stride], &outputs[row * tokens * stride], s.context - tokens, tokens, &cache.pages[(layer * rows + row) * cache.pagesPerRow]});
      attend(compute, layout, shape, ranges.data(), rows, stride, stride, scratch);
    }
    times.push_back(secondsNow() - start);
  }
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  const double seconds = times[4] / static_cast<double>(layers * rows * tokens);  // a token and layer
  const double seen = prefill ? (s.context + 1) / 2.0 : s.context;
  const double operations = 4.0 * s.heads * s.headDim * seen;
  std::printf("%-6s %-3s %-7s %7.2f us a token of %zu layers, %6.1f GFLOP/s", instructionSetName(set), type == CacheType::F16 ? "f16" : "f32",
              prefill ? "prefill" : "decode", seconds * kLayers * 1e6, kLayers, operations / seconds / 1e9);
  if (!prefill) std::printf(", %5.1f GB/s of keys and values", 2.0 * s.kvHeads * s.headDim * seen * (type == CacheType::F16 ? 2 : 4) / seconds / 1e9);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, uint32_t fallback) { return argc > i ? static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)) : fallback; };
  const Settings settings = {argument(1, 64), argument(2, 300), argument(3, 9), argument(4, 3), argument(5, 64), argument(6, 64), argument(7, 1)};
  for (InstructionSet set : {InstructionSet::Avx512, InstructionSet::Avx2}) {
    if (!machineHas(set)) continue;
    for (CacheType type : {CacheType::F16, CacheType::F32})
      for (bool prefill : {false, true}) measure(set, type, settings, prefill);
  }
  return 0;
}
