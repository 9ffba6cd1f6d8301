// Rows that begin alike on a device: pages in several tables, pages that begin as copies, and attention to what rows
// have in common. Bits are those of rows alone.
#include "../../model/spillFixture.h"
#include "../../tries.h"
#include "gpuFixture.h"

namespace spillway {
namespace gpu_sharing {

using namespace fixture;

// 128 pages in host memory, from 0 on, and 128 on the device, from 128 on.
constexpr int32_t kFirstThere = 128;

RuntimeOptions onBoth(const RuntimeOptions& options) {
  RuntimeOptions both = onGpu(options, uint64_t(32) << 20);
  both.gpu->pages = 128;
  both.pages = uint32_t(kFirstThere);
  return both;
}

// Pages of one row by number, the first so many of them on the device.
std::vector<int32_t> table(const std::vector<int32_t>& numbers, uint32_t onDevice) {
  std::vector<int32_t> pages;
  for (const int32_t number : numbers) pages.push_back(number + (pages.size() < onDevice ? kFirstThere : 0));
  return pages;
}

std::vector<int32_t> numbers(int32_t first, size_t count) {
  std::vector<int32_t> pages;
  for (size_t p = 0; p < count; p++) pages.push_back(first + int32_t(p));
  return pages;
}

// A row that has its first tokens from another one.
struct Sharer {
  std::vector<int32_t> text;
  uint32_t promptTokens, shared;
  std::vector<int32_t> pages;
  uint32_t row = 0, next = 0;
  std::vector<float> scores;  // of the tokens after the shared ones
};

uint32_t createSequence(TinyRuntime& tiny, const std::vector<int32_t>& text, uint32_t promptTokens) {
  SequenceOptions row = sequenceOptions(text, uint32_t(text.size()));
  row.promptTokens = promptTokens;
  return tiny.runtime.createSequence(std::move(row));
}

// What follows token `from`, of a row that shares nothing: its prompt in one go, then token by token.
std::vector<float> scoreAlone(const RuntimeOptions& options, const Sharer& sharer, uint32_t onDevice) {
  TinyRuntime tiny(options);
  const uint32_t row = createSequence(tiny, sharer.text, sharer.promptTokens), end = uint32_t(sharer.text.size());
  std::vector<float> scores;
  for (uint32_t first = 0, tokens; first < end; first += tokens) {
    tokens = first < sharer.promptTokens ? std::min(64u, sharer.promptTokens - first) : 1;
    const auto head =
        tiny.pass({{row, first, tokens, HeadMode::Score, table(numbers(0, sharer.pages.size()), onDevice)}});
    scores.insert(scores.end(), head->scores.begin(), head->scores.end());
  }
  return {scores.begin() + sharer.shared, scores.end()};
}

// All of them, `chunk` tokens of a prompt at a time: pages in common are in all tables, and the one that the common
// tokens end in begins as a copy.
void scoreTogether(TinyRuntime& tiny, std::vector<Sharer>& sharers, const std::vector<int32_t>& donorPages,
                   uint32_t onDevice, uint32_t chunk) {
  const auto left = [](const Sharer& sharer) { return uint32_t(sharer.text.size()) - sharer.next; };
  for (Sharer& sharer : sharers) {
    sharer.row = createSequence(tiny, sharer.text, sharer.promptTokens);
    sharer.next = sharer.shared;
  }
  while (std::any_of(sharers.begin(), sharers.end(), left)) {
    std::vector<Range> ranges;
    uint32_t room = 64;
    for (Sharer& sharer : sharers) {
      const uint32_t prompt = sharer.promptTokens > sharer.next ? sharer.promptTokens - sharer.next : 1,
                     tokens = std::min({prompt, left(sharer), chunk, room});
      if (tokens == 0) continue;
      const size_t page = sharer.next / 16;
      const bool copies = sharer.next == sharer.shared && sharer.shared % 16 != 0;
      ranges.push_back({sharer.row, sharer.next, tokens, HeadMode::Score, table(sharer.pages, onDevice),
                        copies ? table(donorPages, onDevice)[page] : -1});
      sharer.next += tokens;
      room -= tokens;
    }
    const auto head = tiny.pass(ranges);
    size_t at = 0;
    for (size_t s = 0; s < head->scored.size(); s += 3) {
      const auto count = size_t(head->scored[s + 2]);
      for (Sharer& sharer : sharers) {
        if (int32_t(sharer.row) == head->scored[s])
          sharer.scores.insert(sharer.scores.end(), head->scores.begin() + long(at),
                               head->scores.begin() + long(at + count));
      }
      at += count;
    }
  }
}

// Rows that go on from `text` after so many tokens, in different prompts and answers.
std::vector<Sharer> sharersOf(const std::vector<int32_t>& text, const std::vector<int32_t>& donorPages,
                              const std::vector<uint32_t>& shares, uint32_t vocabulary) {
  std::vector<Sharer> sharers;
  int32_t nextPage = 40;
  for (const uint32_t shared : shares) {
    const unsigned own = 11 + 6 * unsigned(sharers.size());
    Sharer sharer{{text.begin(), text.begin() + shared}, shared + own - 5, shared, {}, 0, 0, {}};
    for (const int32_t token : randomTokens(own, vocabulary, 70 + own)) sharer.text.push_back(token);
    sharer.pages.assign(donorPages.begin(), donorPages.begin() + shared / 16);
    while (sharer.pages.size() * 16 < sharer.text.size()) sharer.pages.push_back(nextPage++);
    sharers.push_back(std::move(sharer));
  }
  return sharers;
}

void checkSharing(const RuntimeOptions& options, const std::vector<uint32_t>& shares, uint32_t onDevice, uint32_t chunk,
                  const std::string& what) {
  const std::vector<int32_t> text =
      randomTokens(*std::max_element(shares.begin(), shares.end()) + 3, options.decoder.vocabularySize, 9);
  const std::vector<int32_t> donorPages = numbers(0, text.size() / 16 + 1);
  std::vector<Sharer> sharers = sharersOf(text, donorPages, shares, options.decoder.vocabularySize);
  TinyRuntime tiny(options);
  const uint32_t donor = createSequence(tiny, text, uint32_t(text.size()));
  for (uint32_t first = 0; first < text.size(); first += 50)
    tiny.pass(
        {{donor, first, std::min(50u, uint32_t(text.size()) - first), HeadMode::None, table(donorPages, onDevice)}});
  scoreTogether(tiny, sharers, donorPages, onDevice, chunk);
  for (const Sharer& sharer : sharers)
    expectSameBits(sharer.scores, scoreAlone(options, sharer, onDevice),
                   what + ", " + std::to_string(sharer.shared) + " shared tokens, " + std::to_string(onDevice) +
                       " pages on the device");
}

struct SharingCase {
  const char* name;
  CacheType type;
  Precision precision;
  uint32_t window;
  float keep;
};

class GpuSharing : public testing::TestWithParam<SharingCase> {
 protected:
  DecoderSpec spec(uint32_t contextTokens) const {
    DecoderSpec spec = smallSpec();
    spec.contextTokens = contextTokens;
    spec.layerSpecs[1].window = GetParam().window;
    return spec;
  }
  RuntimeOptions optionsOf(const TinyModel& model) const {
    RuntimeOptions options = onBoth(model.options());
    options.precision = GetParam().precision;
    options.cacheType = GetParam().type;
    options.keepKeys = GetParam().keep;
    return options;
  }
};

TEST_P(GpuSharing, PagesInCommonAndCopiesChangeNoBit) {
  const TinyModel model(spec(96));
  size_t turn = 0;
  for (const uint32_t onDevice : {0u, 1u, 2u, 6u})
    if (inTurn(turn++ % 2, size_t(GetParam().type) + GetParam().window, 2))
      checkSharing(optionsOf(model), {21, 35, 16}, onDevice, onDevice == 2 ? 7 : 40, GetParam().name);
}

// Enough in common for tokens to be looked at together: whole parts, and what is after.
TEST_P(GpuSharing, KeysInCommonAreMetTogetherWithTheSameBits) {
  const TinyModel model(spec(448));
  checkSharing(optionsOf(model), {294, 150, 294, 64}, GetParam().window == 0 ? 17 : 28, 40, GetParam().name);
}

const SharingCase kCases[] = {
    {"Halves", CacheType::F16, Precision::Default, 0, 1},     {"Floats", CacheType::F32, Precision::Float32, 0, 1},
    {"Windowed", CacheType::F16, Precision::Default, 21, 1},  {"Q8", CacheType::Q8, Precision::Default, 0, 1},
    {"Q4Windowed", CacheType::Q4, Precision::Default, 21, 1}, {"Sparse", CacheType::F16, Precision::Default, 0, 0.2f},
    {"SparseQ4", CacheType::Q4, Precision::Default, 0, 0.3f},
};
INSTANTIATE_TEST_SUITE_P(Caches, GpuSharing, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GpuSharingRules, CopiesGoFromTierToTheSameTier) {
  const TinyModel model(smallSpec());
  TinyRuntime tiny(onBoth(model.options()));
  const auto row = int32_t(tiny.runtime.createSequence(sequenceOptions(randomTokens(40, 67, 1), 40)));
  const auto batchOf = [&](const std::vector<int32_t>& pages, int32_t from) {
    tiny.runtime.createBatch({row, 18, 3, 0, 0, int32_t(pages.size()), -1}, pages, {0, from});
  };
  batchOf({130, 131}, 140);
  batchOf({130, 3}, 5);
  expectRefused([&] { batchOf({130, 131}, 5); },
                "copies[0] page: found 5, expected one on the device, where the range's own is");
  expectRefused([&] { batchOf({130, 3}, 140); },
                "copies[0] page: found 140, expected one in memory, where the range's own is");
  expectRefused([&] { batchOf({130, 131}, 256); },
                "copies[0] page: found 256, expected another page than the range's own, under 256");
}

// More entries in tables than there are pages.
TEST(GpuSharingRules, AsManyRowsAsThereIsRoomForShareTheSamePages) {
  const TinyModel model(smallSpec());
  RuntimeOptions options = onGpu(model.options());
  options.gpu->pages = 20;
  TinyRuntime tiny(options);
  const std::vector<int32_t> text = randomTokens(64, 67, 1);
  const uint32_t donor = tiny.runtime.createSequence(sequenceOptions(text, 64));
  tiny.pass({{donor, 0, 64, HeadMode::None, {0, 1, 2, 3}}});
  std::vector<Range> ranges;
  for (int32_t r = 0; r < 16; r++) {
    std::vector<int32_t> own = text;
    own.push_back(int32_t(r));
    ranges.push_back(
        {tiny.runtime.createSequence(sequenceOptions(own, 80)), 64, 1, HeadMode::Sample, {0, 1, 2, 3, 4 + r}});
  }
  EXPECT_EQ(tiny.pass(ranges)->tokens.size(), 16u);
}

// Where a page on disk is begun, a row's tail is what begins as a copy.
TEST(GpuSharingRules, TailsBeginAsCopiesToo) {
  const disktest::Folder folder;
  const TinyModel model(smallSpec());
  RuntimeOptions options = onBoth(model.options());
  options.precision = Precision::Default;
  options.cacheType = CacheType::F16;
  options.spill = spillOptions(folder.path());
  const std::vector<int32_t> text = randomTokens(23, 67, 3);
  std::vector<int32_t> own(text.begin(), text.begin() + 21);
  for (const int32_t token : randomTokens(25, 67, 4)) own.push_back(token);
  const std::vector<int32_t> ownPages = {130, -3, -4};
  const auto scores = [&](bool shares) {
    SpillingRuntime runtime(options);
    const uint32_t donor = runtime.tiny.runtime.createSequence(sequenceOptions(text, 40)),
                   row = runtime.tiny.runtime.createSequence(sequenceOptions(own, 46));
    runtime.pass({{{donor, 0, 23, HeadMode::None, {130, -1, -2}}, 5}});
    std::vector<float> found;
    for (uint32_t first = shares ? 21 : 0; first < 46; first += first == 0 ? 21 : 5) {
      const uint32_t tokens = first == 0 ? 21 : 5;
      Range range{row, first, tokens, HeadMode::Score, ownPages, shares && first == 21 ? 5 : -1};
      if (!shares) range.pages[0] = 131;
      const auto head = runtime.pass({{range, 6}});
      EXPECT_FALSE(runtime.failure) << runtime.failure->message;
      if (head == nullptr) return found;
      if (first >= 21) found.insert(found.end(), head->scores.begin(), head->scores.end());
    }
    return found;
  };
  const std::vector<float> alone = scores(false);
  ASSERT_EQ(alone.size(), 24u);
  expectSameBits(scores(true), alone, "from a tail to a tail");
}

}  // namespace gpu_sharing
}  // namespace spillway
