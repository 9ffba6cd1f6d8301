// Pages on disk change no bit of any result: whatever is where, however prompts are cut, in whatever company.
#include "spillFixture.h"

namespace spillway {
namespace {

using namespace fixture;

void expectSameBits(const std::vector<float>& found, const std::vector<float>& expected, const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << where;
}

// Several rounds with the same runtime, so that pages on disk serve one row after another.
void checkMixtures(const RuntimeOptions& memory, const RuntimeOptions& spilling, unsigned seed, unsigned rounds = 3) {
  std::mt19937 random(seed);
  SpillingRuntime runtime(spilling);
  for (unsigned round = 0; round < rounds; round++) {
    std::vector<SpilledRow> rows = randomRows(spilling, 1 + random() % 6, random);
    scoreSpilling(runtime, rows, random);
    ASSERT_FALSE(runtime.failure) << runtime.failure->message;
    for (size_t r = 0; r < rows.size(); r++) {
      expectSameBits(rows[r].scores, scoreInMemory(memory, rows[r].text), "seed " + std::to_string(seed) + ", round " + std::to_string(round) + ", row " + std::to_string(r));
    }
  }
}

class Spill : public testing::Test {
 protected:
  RuntimeOptions spilling(const RuntimeOptions& options) const {
    RuntimeOptions with = options;
    with.spill = spillOptions(folder_.path());
    return with;
  }
  void check(const DecoderSpec& spec, bool optional = false) {
    const TinyModel model(spec, optional);
    for (unsigned seed = 1; seed <= 2; seed++) checkMixtures(model.options(), spilling(model.options()), seed);
  }
  disktest::Folder folder_;
};

TEST_F(Spill, ALlama) { check(smallSpec()); }

}  // namespace
}  // namespace spillway
