// Rows whose pages are in several places, of caches of all kinds: what tests of the cache beside a device share.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "../../model/spillFixture.h"
#include "gpuFixture.h"

namespace spillway::fixture {

// As of createBatch().
struct PlacedRow {
  std::vector<int32_t> pages;
  int32_t tail = -1;
  int32_t comes = 0;
};

// A row's prompt in chunks, then token by token; alone.
inline std::vector<float> score(const RuntimeOptions& options, const std::vector<int32_t>& text, const PlacedRow& row,
                                uint32_t promptTokens, uint32_t chunk) {
  SpillingRuntime runtime(options);
  SequenceOptions sequence = sequenceOptions(text, uint32_t(text.size()));
  sequence.promptTokens = promptTokens;
  const uint32_t handle = runtime.tiny.runtime.createSequence(std::move(sequence));
  std::vector<float> scores;
  for (uint32_t first = 0, tokens; first < text.size(); first += tokens) {
    tokens = first < promptTokens ? std::min(chunk, promptTokens - first) : 1;
    const auto head = runtime.pass({{{handle, first, tokens, HeadMode::Score, row.pages}, row.tail, row.comes}});
    EXPECT_FALSE(runtime.failure) << runtime.failure->message;
    if (runtime.failure) break;
    scores.insert(scores.end(), head->scores.begin(), head->scores.end());
  }
#if !defined(SPILLWAY_CUDA_RUNTIME)
  EXPECT_TRUE(emulator::idle());
#endif
  return scores;
}

struct CacheCase {
  const char* name;
  CacheType type;
  Precision precision;
  uint32_t window;
  float keepKeys;

  RuntimeOptions of(RuntimeOptions options) const {
    options.cacheType = type;
    options.precision = precision;
    options.keepKeys = keepKeys;
    return options;
  }
  DecoderSpec spec() const {
    DecoderSpec spec = smallSpec();
    spec.layerSpecs[1].window = window;
    return spec;
  }
};

constexpr CacheCase kCacheCases[] = {
    {"F32", CacheType::F32, Precision::Float32, 21, 1},
    {"F16", CacheType::F16, Precision::Default, 0, 1},
    {"F16Windowed", CacheType::F16, Precision::Default, 21, 1},
    {"Q8", CacheType::Q8, Precision::Default, 0, 1},
    {"Q4Windowed", CacheType::Q4, Precision::Default, 21, 1},
    {"Q8Sparse", CacheType::Q8, Precision::Default, 21, 0.4f},
};
}  // namespace spillway::fixture
