// A row whose numbers are not finite says so, and changes no bit of those beside it: on the processor and on a device.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstring>

#include "modelFixture.h"

namespace spillway::fixture {

// Writes a number over all of one row of a tensor in the model's file.
inline void overwriteRow(const TinyModel& model, int layer, const std::string& role, uint32_t row, float value) {
  for (const WeightBinding& binding : model.bindings) {
    if (binding.role != role || binding.layer != layer) continue;
    FILE* file = std::fopen(model.file.c_str(), "r+b");
    ASSERT_NE(file, nullptr);
    uint32_t first = 0;
    for (const auto& segment : binding.segments) {
      if (row >= first && row < first + segment.rows) {
        const std::vector<float> values(binding.columns, value);
        std::fseek(file, static_cast<long>(segment.offset + size_t(row - first) * binding.columns * sizeof(float)),
                   SEEK_SET);
        std::fwrite(values.data(), sizeof(float), values.size(), file);
      }
      first += segment.rows;
    }
    std::fclose(file);
    return;
  }
  FAIL() << "no " << role << " in layer " << layer;
}

// A token that no row of these tests samples: of a vocabulary as large as that of oddSpec().
constexpr int32_t kOddToken = 5;
inline DecoderSpec oddSpec() {
  DecoderSpec spec = smallSpec();
  spec.vocabularySize = 500;
  return spec;
}
constexpr uint32_t kPrompt = 8;

// Rows that sample in every way, and two that are scored; of the `odd` ones the prompt holds the odd token, at its end
// or in its middle. Three passes, all of which the rows go on through, and then rows on the same pages that know
// nothing of it.
inline std::vector<std::unique_ptr<HeadResult>> passesWith(const RuntimeOptions& options,
                                                           const std::vector<bool>& odd) {
  TinyRuntime tiny{RuntimeOptions(options)};
  std::vector<std::unique_ptr<HeadResult>> results;
  for (int generation = 0; generation < 2; generation++) {
    std::vector<Range> ranges;
    for (uint32_t r = 0; r < odd.size(); r++) {
      std::vector<int32_t> text = randomTokens(kPrompt, options.decoder.vocabularySize, 10 * unsigned(generation) + r);
      for (int32_t& token : text) token = token == kOddToken ? kOddToken + 1 : token;
      if (odd[r] && generation == 0) text[r % 2 == 0 ? kPrompt - 1 : 3] = kOddToken;
      SequenceOptions row = sequenceOptions(text, 40);
      row.sampling.temperature = r % 4 == 1 ? 0.9f : 0.0f;
      row.sampling.repetitionPenalty = r % 4 == 2 ? 1.3f : 1.0f;
      row.sampling.seed = r;
      row.logprobs = r % 4 == 3 ? 2 : r % 4 == 1 ? 0 : -1;
      const int32_t page = int32_t(3 * r);
      ranges.push_back({tiny.runtime.createSequence(std::move(row)),
                        0,
                        kPrompt,
                        r + 2 < odd.size() ? HeadMode::Sample : HeadMode::Score,
                        {page, page + 1, page + 2}});
    }
    for (int pass = 0; pass < 3; pass++) {
      results.push_back(tiny.pass(ranges));
      if (pass == 0) ranges.resize(odd.size() - 2);
      for (Range& range : ranges) range.first += range.tokens, range.tokens = 1;
    }
    for (const Range& range : ranges) tiny.runtime.freeSequence(range.row);
  }
  return results;
}

inline void expectOddRowsAlone(const RuntimeOptions& options) {
  const std::vector<bool> none(8, false), some = {false, true, true, false, false, true, false, true};
  const auto sound = passesWith(options, none), found = passesWith(options, some);
  const auto sameBits = [](float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  for (size_t p = 0; p < sound.size(); p++) {
    const HeadResult &a = *sound[p], &b = *found[p];
    const bool first = p < 3;
    ASSERT_EQ(a.rows.size(), b.rows.size());
    for (size_t r = 0, top = 0; r < a.rows.size(); top += size_t(a.topCounts[r++])) {
      ASSERT_GE(a.tokens[r], 0) << "pass " << p << ", row " << r;
      if (first && some[r]) {
        EXPECT_LT(b.tokens[r], 0) << "pass " << p << ", row " << r;
        EXPECT_TRUE(std::isnan(b.logprobs[r]));
        continue;
      }
      EXPECT_EQ(a.tokens[r], b.tokens[r]) << "pass " << p << ", row " << r;
      EXPECT_TRUE(sameBits(a.logprobs[r], b.logprobs[r])) << "pass " << p << ", row " << r;
      for (size_t t = top; t < top + size_t(a.topCounts[r]); t++) {
        EXPECT_EQ(a.topTokens[t], b.topTokens[t]);
        EXPECT_TRUE(sameBits(a.topLogprobs[t], b.topLogprobs[t]));
      }
    }
    ASSERT_EQ(a.scores.size(), b.scores.size());
    for (size_t i = 0; i < a.scores.size(); i++) {
      ASSERT_TRUE(std::isfinite(a.scores[i]));
      // The last row holds the odd token at position 3: what comes before is not touched by it.
      const size_t position = i % (kPrompt - 1), row = 6 + i / (kPrompt - 1);
      const bool same = first && some[row] && position >= 3
                            ? std::isnan(b.scores[i])
                            : (first && some[row]) || sameBits(a.scores[i], b.scores[i]);
      EXPECT_TRUE(same) << "pass " << p << ", row " << row << ", position " << position << ": " << b.scores[i];
    }
  }
}

}  // namespace spillway::fixture
