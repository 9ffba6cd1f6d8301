// Matrices that a file has as 8-bit floats with scales: what they become, and which are refused.
#include "../../model/float8Rows.h"

#include <cmath>
#include <functional>

#include "../../kernels/cpu/floatFormats.h"
#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

TEST(Float8, EachByteIsWhatTheFormatSays) {
  EXPECT_EQ(float8ToFloat(0x00), 0.0f);
  EXPECT_TRUE(std::signbit(float8ToFloat(0x80)));
  EXPECT_EQ(float8ToFloat(0x01), std::ldexp(1.0f, -9));
  EXPECT_EQ(float8ToFloat(0x07), std::ldexp(7.0f, -9));
  EXPECT_EQ(float8ToFloat(0x08), std::ldexp(1.0f, -6));
  EXPECT_EQ(float8ToFloat(0x38), 1.0f);
  EXPECT_EQ(float8ToFloat(0xbc), -1.5f);
  EXPECT_EQ(float8ToFloat(0x7e), 448.0f);
  EXPECT_EQ(float8ToFloat(0xfe), -448.0f);
  EXPECT_TRUE(std::isnan(float8ToFloat(0x7f)) && std::isnan(float8ToFloat(0xff)));
  for (unsigned byte = 1; byte < 0x7f; byte++) {
    EXPECT_GT(float8ToFloat(static_cast<uint8_t>(byte)), float8ToFloat(static_cast<uint8_t>(byte - 1)));
    EXPECT_EQ(float8ToFloat(static_cast<uint8_t>(byte | 0x80)), -float8ToFloat(static_cast<uint8_t>(byte)));
  }
}

struct Grid {
  WeightType scaleType;
  uint32_t blockRows, blockColumns;
};

class Float8Weights : public testing::TestWithParam<Grid> {
 protected:
  Float8Weights() : model_(smallSpec(), false) {}

  WeightBinding& find(RuntimeOptions& options, int layer, const std::string& role) {
    for (WeightBinding& binding : options.bindings)
      if (binding.layer == layer && binding.role == role) return binding;
    throw std::logic_error("no binding " + role);
  }

  // A file of one tensor, its scales after it, and the same as halves in another.
  struct Files {
    std::string float8, halves;
    WeightBinding binding, plain;
    Files(const Files&) = delete;
    Files(const WeightBinding& given, uint32_t rows, const Grid& grid) : binding(given), plain(given) {
      const uint32_t columns = given.columns;
      const uint32_t across = (columns - 1) / grid.blockColumns + 1, down = (rows - 1) / grid.blockRows + 1;
      std::mt19937 random(5);
      std::vector<float> scales(size_t(across) * down);
      for (float& scale : scales) scale = float(1 + random() % 50) / 1024;  // exact in every type
      std::vector<uint8_t> bytes(size_t(rows) * columns);
      std::vector<uint16_t> values(bytes.size());
      for (size_t i = 0; i < bytes.size(); i++) {
        do bytes[i] = static_cast<uint8_t>(random());
        while ((bytes[i] & 0x7f) == 0x7f);
        const size_t block = i / columns / grid.blockRows * across + i % columns / grid.blockColumns;
        values[i] = floatToHalf(float8ToFloat(bytes[i]) * scales[block]);
      }
      float8 = write([&](FILE* out) {
        std::fwrite("odd", 1, 3, out);
        std::fwrite(bytes.data(), 1, bytes.size(), out);
        for (const float scale : scales) {
          const uint32_t bits = grid.scaleType == WeightType::F32   ? bitsOfFloat(scale)
                                : grid.scaleType == WeightType::F16 ? floatToHalf(scale)
                                                                    : bitsOfFloat(scale) >> 16;
          std::fwrite(&bits, weightRowBytes(grid.scaleType, 1), 1, out);
        }
      });
      halves = write([&](FILE* out) { std::fwrite(values.data(), sizeof(uint16_t), values.size(), out); });
      binding.type = plain.type = WeightType::F16;
      binding.segments = {{1, 3, rows}};
      binding.float8 = Float8Scales{1, 3 + bytes.size(), grid.scaleType, grid.blockRows, grid.blockColumns, 3, rows};
      plain.segments = {{1, 0, rows}};
    }
    ~Files() {
      std::remove(float8.c_str());
      std::remove(halves.c_str());
    }
    static std::string write(const std::function<void(FILE*)>& contents) {
      char path[] = "/tmp/spillway-float8-XXXXXX";
      FILE* out = fdopen(mkstemp(path), "wb");
      contents(out);
      std::fclose(out);
      return path;
    }
  };

  std::vector<float> scores(const WeightBinding& binding, const std::string& file) {
    RuntimeOptions options = model_.options();
    find(options, binding.layer, binding.role) = binding;
    options.files.push_back(file);
    TinyRuntime tiny(std::move(options));
    const uint32_t row = tiny.runtime.createSequence(sequenceOptions({1, 2, 3, 4, 5}, 5));
    return tiny.pass({{row, 0, 5, HeadMode::Score, {0}}})->scores;
  }

  TinyModel model_;
};

TEST_P(Float8Weights, AreTheHalvesNearestToBytesTimesScales) {
  RuntimeOptions options = model_.options();
  for (const char* role : {"q.weight", "down.weight"}) {
    const WeightBinding& given = find(options, 1, role);
    const Files files(given, given.rows, GetParam());
    EXPECT_EQ(scores(files.binding, files.float8), scores(files.plain, files.halves)) << role;
  }
}

TEST_P(Float8Weights, OfRowsOfAFusedTensorHaveTheirOwnScales) {
  RuntimeOptions options = model_.options();
  const WeightBinding& given = find(options, 0, "up.weight");
  Files files(given, given.rows + 37, GetParam());
  // The last rows first.
  files.binding.segments = {{1, 3 + 57 * 48, 60}, {1, 3 + 5 * 48, 20}};
  files.plain.segments = {{1, 57 * 48 * 2, 60}, {1, 5 * 48 * 2, 20}};
  EXPECT_EQ(scores(files.binding, files.float8), scores(files.plain, files.halves));
}

TEST_P(Float8Weights, OfMoreRowsThanAreReadAtATime) {
  RuntimeOptions options = model_.options();
  WeightBinding& given = find(options, -1, "token_embedding");
  given.rows = 50'000;
  model_.spec.vocabularySize = 50'000;
  const Files files(given, given.rows, GetParam());
  EXPECT_EQ(scores(files.binding, files.float8), scores(files.plain, files.halves));
}

TEST_P(Float8Weights, CompressedAreWhatTheirHalvesAre) {
  RuntimeOptions options = model_.options();
  const WeightBinding& given = find(options, 0, "o.weight");  // 64 columns
  Files files(given, given.rows, GetParam());
  for (const WeightType type : {WeightType::Q8_0, WeightType::Q4_G64}) {
    files.binding.compressed = files.plain.compressed = type;
    EXPECT_EQ(scores(files.binding, files.float8), scores(files.plain, files.halves));
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, Float8Weights,
                         testing::Values(Grid{WeightType::F32, 128, 128}, Grid{WeightType::BF16, 16, 32},
                                         Grid{WeightType::F16, 1, 1024}, Grid{WeightType::F32, 100'000, 1024},
                                         Grid{WeightType::BF16, 7, 17}),
                         [](const auto& grid) {
                           return std::string(weightTypeName(grid.param.scaleType)) + "_" +
                                  std::to_string(grid.param.blockRows) + "x" + std::to_string(grid.param.blockColumns);
                         });

using Float8Refusals = Float8Weights;

TEST_F(Float8Refusals, NameWhatIsWrong) {
  RuntimeOptions options = model_.options();
  const WeightBinding given = find(options, 1, "q.weight");
  const Files files(given, given.rows, {WeightType::F32, 16, 16});
  const auto expectRefused = [&](const std::function<void(WeightBinding&)>& change, const std::string& words) {
    WeightBinding binding = files.binding;
    change(binding);
    try {
      scores(binding, files.float8);
      ADD_FAILURE() << "accepted: " << words;
    } catch (const FileError& error) {
      EXPECT_EQ(error.field, "layer 1 q.weight");
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expectRefused([](WeightBinding& b) { b.type = WeightType::BF16; }, "expected a matrix of F16");
  expectRefused([](WeightBinding& b) { b.float8->type = WeightType::Q8_0; }, "scales of Q8_0");
  expectRefused([](WeightBinding& b) { b.float8->file = 2; }, "scales in file 2");
  expectRefused([](WeightBinding& b) { b.float8->blockRows = 0; }, "a scale for 0 rows of 16");
  expectRefused([](WeightBinding& b) { b.float8->blockColumns = 15; }, "a scale for 16 rows of 15");
  expectRefused([](WeightBinding& b) { b.float8->offset += 1; }, "a range within the file's");
  expectRefused([](WeightBinding& b) { b.float8->tensorRows -= 1; }, "rows beside those that have scales");
  expectRefused([](WeightBinding& b) { b.float8->tensorRows = 0; }, "rows beside those that have scales");
  expectRefused([](WeightBinding& b) { b.float8->tensorOffset = 2; }, "rows beside those that have scales");
  expectRefused([](WeightBinding& b) { b.float8->tensorOffset = 3 + 48; }, "rows beside those that have scales");
}

}  // namespace
}  // namespace spillway
