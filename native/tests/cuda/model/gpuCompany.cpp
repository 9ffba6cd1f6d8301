// On a device, too, a row's result is bitwise the same whatever its company, its chunks and its pages.
#include "gpuFixture.h"

namespace spillway {
namespace gpu_company {

using namespace fixture;

constexpr uint32_t kTokens = 37;

// The row's own scores of one pass.
void append(std::vector<float>& scores, const HeadResult& head, uint32_t row) {
  size_t at = 0;
  for (size_t s = 0; s < head.scored.size(); s += 3) {
    const auto count = size_t(head.scored[s + 2]);
    if (uint32_t(head.scored[s]) == row)
      scores.insert(scores.end(), head.scores.begin() + long(at), head.scores.begin() + long(at + count));
    at += count;
  }
}

SequenceOptions prompted(const std::vector<int32_t>& text, uint32_t promptTokens) {
  SequenceOptions options = sequenceOptions(text, uint32_t(text.size()));
  options.promptTokens = promptTokens;
  return options;
}

std::vector<float> scoreAlone(RuntimeOptions options, const std::vector<int32_t>& text, uint32_t promptTokens,
                              uint32_t chunk) {
  TinyRuntime tiny(std::move(options));
  const uint32_t row = tiny.runtime.createSequence(prompted(text, promptTokens));
  std::vector<float> scores;
  for (uint32_t first = 0; first < kTokens; first += chunk)
    append(scores, *tiny.pass({{row, first, std::min(chunk, kTokens - first), HeadMode::Score, {0, 1, 2}}}), row);
  return scores;
}

// Among five others at other positions, in chunks of 9.
std::vector<float> scoreInCompany(RuntimeOptions options, const std::vector<int32_t>& text, uint32_t promptTokens) {
  TinyRuntime tiny(std::move(options));
  std::vector<uint32_t> others;
  for (unsigned o = 0; o < 5; o++)
    others.push_back(tiny.runtime.createSequence(prompted(randomTokens(kTokens, 67, 100 + o), 5 * o)));
  const uint32_t row = tiny.runtime.createSequence(prompted(text, promptTokens));
  std::vector<float> scores;
  for (uint32_t first = 0; first < kTokens; first += 9) {
    std::vector<Range> ranges;
    for (uint32_t o = 0; o < 5; o++) {
      const int32_t page = int32_t(10 + 4 * o);
      ranges.push_back({others[o],
                        first / 9 * (o + 1),
                        o + 1,
                        o % 2 == 0 ? HeadMode::Score : HeadMode::None,
                        {page, page + 1, page + 2}});
    }
    ranges.insert(ranges.begin() + first / 9,
                  {row, first, std::min(9u, kTokens - first), HeadMode::Score, {50, 6, 41}});
    append(scores, *tiny.pass(ranges), row);
  }
  return scores;
}

void checkIndependence(const DecoderSpec& spec) {
  const TinyModel model(spec, false);
  const std::vector<int32_t> text = randomTokens(kTokens, spec.vocabularySize, 5);
  for (const Precision precision : {Precision::Default, Precision::Float32}) {
    for (const uint32_t promptTokens : {kTokens, 20u}) {
      RuntimeOptions options = onGpu(model.options());
      options.precision = precision;
      options.cacheType = precision == Precision::Default ? CacheType::F16 : CacheType::F32;
      const std::string what = (precision == Precision::Default ? "halves, " : "float32, ") +
                               std::to_string(promptTokens) + " prompt tokens, ";
      const std::vector<float> alone = scoreAlone(options, text, promptTokens, kTokens);
      ASSERT_EQ(alone.size(), kTokens - 1);
      for (const uint32_t chunk : {5u, 16u})
        expectSameBits(scoreAlone(options, text, promptTokens, chunk), alone,
                       what + "chunks of " + std::to_string(chunk));
      expectSameBits(scoreInCompany(options, text, promptTokens), alone, what + "in company");
    }
  }
}

TEST(GpuCompany, ChangesNoBitOfALlama) {
  cuda::underEverySeed([] { checkIndependence(smallSpec()); });
}

TEST(GpuCompany, ChangesNoBitOfAMixture) { checkIndependence(mixtureSpec(6, 3)); }

TEST(GpuCompany, ChangesNoBitOfAWindowedSandwich) { checkIndependence(windowedSandwichSpec()); }

}  // namespace gpu_company
}  // namespace spillway
