// Random rows of queries, keys and values with a paged cache each, and attention over them: by the kernels, and by a
// plain reference.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../../kernels/cpu/Attention.h"
#include "../../system/ThreadPool.h"
#include "cachedNumbers.h"

namespace spillway {

constexpr CacheType kCacheTypes[] = {CacheType::F32, CacheType::F16, CacheType::Q8, CacheType::Q4};

inline const char* cacheTypeName(CacheType type) {
  switch (type) {
    case CacheType::F32: return "f32";
    case CacheType::F16: return "f16";
    case CacheType::Q8: return "q8";
    default: return "q4";
  }
}

struct AttentionCase {
  CacheLayout layout;
  uint32_t heads;
  uint32_t window;
  bool alibi;
  bool rounded;
  float keep = 1.0f;
  uint32_t denseBefore = 0;
  Precision precision = Precision::Float32;
  float softCap = 0;
  bool sunk = false;

  std::string name() const {
    return std::string(cacheTypeName(layout.type)) + " heads " + std::to_string(heads) + "/" +
           std::to_string(layout.kvHeads) + " of " + std::to_string(layout.headDim) + ", pages of " +
           std::to_string(layout.pageTokens) + ", window " + std::to_string(window) +
           (alibi ? rounded ? ", rounded alibi" : ", alibi" : "") +
           (softCap > 0 ? ", capped at " + std::to_string(softCap) : "") + (sunk ? ", sinks" : "") +
           (keep < 1 ? ", keeping " + std::to_string(keep) : "") +
           (precision == Precision::Float32 ? "" : ", default precision");
  }
  std::vector<float> slopes() const {
    std::vector<float> values;
    for (uint32_t head = 0; head < heads; head++)
      values.push_back(std::exp2(-8.0f * static_cast<float>(head + 1) / static_cast<float>(heads)));
    return values;
  }
};

inline std::vector<float> sinksOf(const AttentionCase& c) {
  std::vector<float> values;
  for (uint32_t head = 0; head < c.heads && c.sunk; head++)
    values.push_back(static_cast<float>((head * 5 + 3) % 7) - 3.0f);
  return values;
}

inline std::vector<float> randomNumbers(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// One row: all of its queries, keys and values, and pages that begin as all ones, which is NaN in every type.
class TestRow {
 public:
  TestRow(const AttentionCase& c, uint32_t tokens, unsigned seed)
      : tokens(tokens),
        queryWidth(c.heads * c.layout.headDim),
        keyWidth(c.layout.kvHeads * c.layout.headDim),
        denseBefore(c.denseBefore),
        layout_(c.layout) {
    queries = randomNumbers(tokens * queryWidth, 3 * seed);
    keys = randomNumbers(tokens * keyWidth, 3 * seed + 1);
    values = randomNumbers(tokens * keyWidth, 3 * seed + 2);
    clear();
  }
  // Forgets what is stored.
  void clear() {
    memory_.clear();
    pages.clear();
    stored_ = 0;
    const size_t bytes = cachePageBytes(layout_);
    for (uint32_t i = 0; i * layout_.pageTokens < tokens; i++) {
      memory_.emplace_back(new uint8_t[bytes]);
      std::memset(memory_.back().get(), 0xff, bytes);
      pages.push_back(memory_.back().get());
    }
  }
  void store(const Kernels& kernels, uint32_t upTo) {
    for (; stored_ < upTo; stored_++)
      cacheStore(kernels, layout_, memory_[stored_ / layout_.pageTokens].get(), stored_ % layout_.pageTokens,
                 &keys[stored_ * keyWidth], &values[stored_ * keyWidth]);
  }
  AttentionRow range(uint32_t first, uint32_t count, float* outputs) const {
    return {&queries[first * queryWidth], outputs, first, count, pages.data(), denseBefore};
  }

  uint32_t tokens;
  size_t queryWidth, keyWidth;
  uint32_t denseBefore;
  std::vector<float> queries, keys, values;
  std::vector<const uint8_t*> pages;

 private:
  CacheLayout layout_;
  uint32_t stored_ = 0;
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
};

// attend() with exactly the scratch memory that it announces, filled with NaN.
inline void runAttention(InstructionSet set, unsigned threads, const AttentionCase& c,
                         const std::vector<AttentionRow>& rows, size_t queryStride, size_t outputStride) {
  ThreadPool pool(threads);
  const std::vector<float> slopes = c.slopes(), sinks = sinksOf(c);
  const AttentionShape shape = {c.heads,   1.0f / std::sqrt(static_cast<float>(c.layout.headDim)),
                                c.window,  c.alibi ? slopes.data() : nullptr,
                                c.rounded, c.keep,
                                c.softCap, c.sunk ? sinks.data() : nullptr};
  size_t longest = 0;
  for (const AttentionRow& row : rows) longest = std::max<size_t>(longest, row.firstPosition + row.tokens);
  const size_t bytes = attentionScratchBytes(c.layout, c.heads, rows.size(), threads, c.keep < 1 ? longest : 0);
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::vector<Line> block(bytes / 64);
  std::memset(static_cast<void*>(block.data()), 0xff, bytes);
  Scratch scratch(block.data(), bytes);
  attend({kernelsFor(set), pool, c.precision}, c.layout, shape, rows.data(), rows.size(), queryStride, outputStride,
         scratch);
}

// The whole row in one go.
inline std::vector<float> attendWhole(InstructionSet set, unsigned threads, const AttentionCase& c, TestRow& row) {
  row.store(kernelsFor(set), row.tokens);
  std::vector<float> outputs(row.queries.size(), std::numeric_limits<float>::quiet_NaN());
  runAttention(set, threads, c, {row.range(0, row.tokens, outputs.data())}, row.queryWidth, row.queryWidth);
  return outputs;
}

inline float nearestHalf(float x) {
  const float spacing = std::max(std::ldexp(1.0f, x == 0 ? -24 : std::ilogb(x) - 10), std::ldexp(1.0f, -24));
  return std::nearbyint(x / spacing) * spacing;
}

inline double nearestBfloat16(double x) {
  if (x == 0) return 0;
  const double spacing = std::ldexp(1.0, std::ilogb(x) - 7);
  return std::nearbyint(x / spacing) * spacing;
}

struct CachedNumbers {
  std::vector<float> keys, values;
};

// What the cache holds of a row: any number of tokens. Of 8 and 4 bits, what the kernels' bytes say; whether they say
// the right thing is tested apart.
inline CachedNumbers asCached(const CacheLayout& layout, const TestRow& row) {
  CachedNumbers cached{row.keys, row.values};
  if (layout.type == CacheType::F16)
    for (std::vector<float>* side : {&cached.keys, &cached.values})
      for (float& number : *side) number = nearestHalf(number);
  if (!isQuantised(layout.type)) return cached;
  std::vector<uint8_t> page(cachePageBytes(layout));
  for (size_t token = 0; token < row.tokens; token++) {
    float *keys = &cached.keys[token * row.keyWidth], *values = &cached.values[token * row.keyWidth];
    cacheStore(kernelsFor(InstructionSet::Scalar), layout, page.data(), 0, keys, values);
    for (uint32_t head = 0; head < layout.kvHeads; head++) {
      for (size_t first = 0; first < layout.headDim; first += kCacheGroup) {
        const size_t n = std::min<size_t>(kCacheGroup, layout.headDim - first);
        const std::vector<double> group = keyGroupAt(layout, page.data(), head, 0, first, n);
        for (size_t i = 0; i < n; i++) keys[head * layout.headDim + first + i] = static_cast<float>(group[i]);
      }
      for (size_t d = 0; d < layout.headDim; d++)
        values[head * layout.headDim + d] = static_cast<float>(valueAt(layout, page.data(), head, 0, d).value);
    }
  }
  return cached;
}

// A query as 4-bit keys meet it, at default precision: turned, and in each group rounded to 127 steps of the largest.
// Here turned back again.
inline std::vector<double> queryAsMet(const AttentionCase& c, const float* query) {
  const uint32_t headDim = c.layout.headDim;
  if (c.layout.type != CacheType::Q4 || c.precision != Precision::Default) return {query, query + headDim};
  std::vector<double> met;
  for (size_t first = 0; first < headDim; first += kCacheGroup) {
    const size_t n = std::min<size_t>(kCacheGroup, headDim - first);
    std::vector<float> turned(query + first, query + first + n);
    transform(turned);
    float most = 0;
    for (const float x : turned) most = std::max(most, std::fabs(x));
    std::vector<double> rounded;
    for (const float x : turned) rounded.push_back(std::nearbyint(x * (127.0f / most)) * (most / 127.0f));
    const auto size = static_cast<double>(transform(rounded));
    for (const double x : rounded) met.push_back(x / size);
  }
  return met;
}

// Whether keys, values and queries are rounded to 16-bit integers for a query at that position.
inline bool isRounded(const AttentionCase& c, uint32_t position) {
  return c.layout.type == CacheType::F16 && c.precision == Precision::Default && position < c.denseBefore;
}

// Numbers as integers times what makes the largest of each `n` of them `most`; in floats, so that what lies between two
// integers goes the same way as in the kernels.
inline std::vector<double> roundedTo(float most, const float* numbers, size_t count, size_t n) {
  std::vector<double> rounded;
  for (size_t first = 0; first < count; first += n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) largest = std::max(largest, std::fabs(numbers[first + i]));
    const float inverse = most / largest;
    for (size_t i = 0; i < n; i++)
      rounded.push_back(static_cast<double>(std::nearbyint(numbers[first + i] * inverse)) *
                        static_cast<double>(largest) / static_cast<double>(most));
  }
  return rounded;
}

// One token of the row, all heads, from keys and values as cached: definition of attention in double precision.
inline std::vector<double> referenceAttention(const AttentionCase& c, const TestRow& row,
                                              const std::vector<float>& keys, const std::vector<float>& values,
                                              uint32_t position) {
  const uint32_t headDim = c.layout.headDim, group = c.heads / c.layout.kvHeads;
  const double scale = 1.0f / std::sqrt(static_cast<float>(headDim));
  const std::vector<float> slopes = c.slopes(), sinks = sinksOf(c);
  const bool rounded = isRounded(c, position);
  const float most = static_cast<float>(std::floor(std::sqrt(2147483647.0 / (headDim + headDim % 2))));
  const size_t seen = (position + 1) * row.keyWidth;
  const std::vector<double> keysMet =
      rounded ? roundedTo(most, keys.data(), seen, headDim) : std::vector<double>(keys.data(), keys.data() + seen);
  const std::vector<double> valuesMet =
      rounded ? roundedTo(511, values.data(), seen, headDim) : std::vector<double>(values.data(), values.data() + seen);
  std::vector<double> outputs;
  for (uint32_t head = 0; head < c.heads; head++) {
    const uint32_t first = c.window != 0 && position + 1 > c.window ? position + 1 - c.window : 0;
    const float* own = &row.queries[position * row.queryWidth + head * headDim];
    const std::vector<double> query = rounded ? roundedTo(most, own, headDim, headDim) : queryAsMet(c, own);
    std::vector<double> weights;
    double maximum = -1e300, sum = 0;
    for (uint32_t t = first; t <= position; t++) {
      double score = 0;
      const double *asked = query.data(), *key = &keysMet[t * row.keyWidth + head / group * headDim];
      for (uint32_t d = 0; d < headDim; d++) score += asked[d] * key[d];
      if (c.alibi && c.rounded)
        score = (score + nearestBfloat16(nearestBfloat16(slopes[head]) * nearestBfloat16(t))) * scale;
      else
        score = score * scale + (c.alibi ? slopes[head] * (static_cast<double>(t) - position) : 0.0);
      if (c.softCap > 0) score = c.softCap * std::tanh(score / static_cast<double>(c.softCap));
      weights.push_back(score);
      maximum = std::max(maximum, score);
    }
    if (c.keep < 1 && position >= c.denseBefore) {
      // The newest, and of the others the best: of equal ones the later.
      std::vector<size_t> order(weights.size() - 1);
      std::iota(order.begin(), order.end(), size_t{0});
      std::sort(order.begin(), order.end(),
                [&weights](size_t a, size_t b) { return weights[a] != weights[b] ? weights[a] > weights[b] : a > b; });
      const double share = std::round(static_cast<double>(c.keep) * 1e6) / 1e6;
      const size_t kept =
          std::max<size_t>(1, static_cast<size_t>(std::ceil(share * static_cast<double>(weights.size()) - 1e-9)));
      for (size_t i = kept - 1; i < order.size(); i++) weights[order[i]] = -std::numeric_limits<double>::infinity();
      maximum = *std::max_element(weights.begin(), weights.end());
    }
    for (double& weight : weights) weight = std::exp(weight - maximum), sum += weight;
    if (c.sunk) sum += std::exp(sinks[head] - maximum);
    for (uint32_t d = 0; d < headDim; d++) {
      double total = 0;
      const double *weight = weights.data(), *value = &valuesMet[head / group * headDim + d];
      for (uint32_t t = first; t <= position; t++) total += weight[t - first] * value[t * row.keyWidth];
      outputs.push_back(total / sum);
    }
  }
  return outputs;
}

}  // namespace spillway
