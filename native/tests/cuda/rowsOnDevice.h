// Rows of the CPU's attention tests on the device: pages that the CPU has written, and attention over them there.
#pragma once
#include <algorithm>

#include "../../kernels/cuda/QuantisedPages.h"
#include "../../kernels/cuda/SparseAttention.h"
#include "../kernels/attention_fixture.h"
#include "fixture.h"

namespace spillway::cuda {

// Several rows' pages, tokens and queries on the device.
class RowsOnDevice {
 public:
  RowsOnDevice(const AttentionCase& c, std::vector<TestRow>& rows) : case_(c) {
    const size_t pageBytes = cachePageBytes(c.layout);
    for (TestRow& row : rows) {
      row.store(kernelsFor(bestInstructionSet()), row.tokens);
      std::vector<const uint8_t*> table;
      for (const uint8_t* page : row.pages) {
        pages.emplace_back(std::vector<uint8_t>(page, page + pageBytes));
        table.push_back(pages.back().get());
      }
      tables.emplace_back(table);
      if (isQuantised(c.layout.type)) addHalves(table.size());
    }
  }
  // Of what prefillAttention() takes.
  CacheLayout rangeLayout() const { return isQuantised(case_.layout.type) ? plainLayout(case_.layout) : case_.layout; }
  const uint8_t* const* table(size_t row) const { return tables[row].get(); }

  // Outputs of tokens [first, first + count) of each row, rows one after another.
  struct Part {
    size_t row;
    uint32_t first, count;
  };
  // Tokens that have their first keys in common: their places among all tokens.
  struct Bundle {
    std::vector<uint32_t> members;
    uint32_t keys;
  };
  std::vector<float> attend(std::vector<TestRow>& rows, const std::vector<Part>& parts, bool ranges,
                            bool inPlace = false, const std::vector<Bundle>& bundles = {}) const {
    std::vector<AttentionToken> tokens;
    std::vector<AttentionRange> spans;
    std::vector<float> queries;
    uint32_t longest = 0, last = 0;
    const size_t width = rows[0].queryWidth;
    for (const Part& part : parts) {
      spans.push_back({static_cast<uint32_t>(tokens.size()), part.count});
      longest = std::max(longest, part.count);
      last = std::max(last, part.first + part.count - 1);
      const auto* table = ranges && isQuantised(case_.layout.type) ? halves[part.row].get() : tables[part.row].get();
      for (uint32_t i = 0; i < part.count; i++) tokens.push_back({table, part.first + i});
      const auto from = rows[part.row].queries.begin() + static_cast<long>(part.first * width);
      queries.insert(queries.end(), from, from + static_cast<long>(part.count * width));
    }
    const std::vector<float> slopeValues = case_.slopes();
    const DeviceArray<float> slopes(slopeValues), sinks(sinksOf(case_)), in(queries), out(queries.size());
    const DeviceArray<AttentionToken> tokenArray(tokens);
    const AttentionShape shape = {case_.heads,   1.0f / std::sqrt(static_cast<float>(case_.layout.headDim)),
                                  case_.window,  case_.alibi ? slopes.get() : nullptr,
                                  case_.rounded, case_.keep,
                                  case_.softCap, case_.sunk ? sinks.get() : nullptr};
    float* to = inPlace ? in.get() : out.get();
    if (ranges) {
      const DeviceArray<AttentionRange> rangeArray(spans);
      prefillAttention(testStream(), rangeLayout(), shape, tokenArray.get(), rangeArray.get(), spans.size(), longest,
                       in.get(), width, to, width);
      check(cudaStreamSynchronize(testStream()), "synchronize");
    } else {
      const uint32_t partCount = attentionParts(last);
      const DeviceArray<AttentionPartial> weights(tokens.size() * case_.heads * partCount);
      const DeviceArray<float> values(tokens.size() * case_.heads * partCount * case_.layout.headDim);
      AttentionPartials partials = {weights.get(), values.get(), partCount};
      partials.sinks = shape.sinks;
      std::vector<AttentionBundle> bundleList;
      std::vector<uint32_t> memberList, keysInCommon(tokens.size());
      uint32_t mostKeys = 0;
      for (const Bundle& bundle : bundles) {
        bundleList.push_back(
            {static_cast<uint32_t>(memberList.size()), static_cast<uint32_t>(bundle.members.size()), bundle.keys});
        memberList.insert(memberList.end(), bundle.members.begin(), bundle.members.end());
        for (const uint32_t member : bundle.members) keysInCommon[member] = bundle.keys;
        mostKeys = std::max(mostKeys, bundle.keys);
      }
      const DeviceArray<AttentionBundle> bundleArray(bundleList);
      const DeviceArray<uint32_t> memberArray(memberList), keysArray(keysInCommon);
      CommonKeys common;
      if (!bundles.empty())
        common = {bundleArray.get(), memberArray.get(), keysArray.get(), static_cast<uint32_t>(bundles.size()),
                  attentionParts(mostKeys - 1)};
      if (case_.keep < 1) {
        const DeviceArray<float> scores(tokens.size() * case_.heads * (last + 1));
        const DeviceArray<AttentionCut> cuts(tokens.size() * case_.heads);
        scoreKeys(testStream(), case_.layout, shape, tokenArray.get(), tokens.size(), in.get(), width, partCount,
                  {scores.get(), last + 1}, common);
        selectKeys(testStream(), shape, tokenArray.get(), tokens.size(), {scores.get(), last + 1}, cuts.get());
        attendKept(testStream(), case_.layout, shape, tokenArray.get(), tokens.size(), {scores.get(), last + 1},
                   cuts.get(), partials);
        combineSplits(testStream(), partials, tokens.size(), case_.heads, case_.layout.headDim, to, width);
        check(cudaStreamSynchronize(testStream()), "synchronize");
        return (inPlace ? in : out).values();
      }
      if (bundles.empty()) {
        decodeAttention(testStream(), case_.layout, shape, tokenArray.get(), tokens.size(), in.get(), width, to, width,
                        partials);
      } else {
        attendParts(testStream(), case_.layout, shape, tokenArray.get(), tokens.size(), in.get(), width, partials,
                    common);
        combineSplits(testStream(), partials, tokens.size(), case_.heads, case_.layout.headDim, to, width);
      }
      check(cudaStreamSynchronize(testStream()), "synchronize");
    }
    return (inPlace ? in : out).values();
  }

 private:
  // Of the row that was added last: its pages as halves.
  void addHalves(size_t count) {
    std::vector<const uint8_t*> table;
    std::vector<uint8_t*> targets;
    for (size_t i = 0; i < count; i++) {
      pages.emplace_back(cachePageBytes(rangeLayout()));
      table.push_back(pages.back().get());
      targets.push_back(pages.back().get());
    }
    halves.emplace_back(table);
    const DeviceArray<uint8_t*> to(targets);
    dequantisePages(testStream(), case_.layout, tables.back().get(), to.get(), count);
    check(cudaStreamSynchronize(testStream()), "synchronize");
  }

  AttentionCase case_;
  std::vector<DeviceArray<uint8_t>> pages;
  std::vector<DeviceArray<const uint8_t*>> tables, halves;
};

inline std::vector<float> slice(const std::vector<float>& all, size_t first, size_t count) {
  return {all.begin() + static_cast<long>(first), all.begin() + static_cast<long>(first + count)};
}

}  // namespace spillway::cuda
