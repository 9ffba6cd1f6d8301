// Matrices and vectors whose rows lie otherwise in a file than one after another: what is read of them, and which are
// refused.
#include "../../model/fileRows.h"

#include <algorithm>
#include <functional>

#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

// A file of bytes that follow from a seed.
class RandomFile {
 public:
  explicit RandomFile(size_t size) : bytes(size) {
    std::mt19937 random(7);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    char name[] = "/tmp/spillway-rows-XXXXXX";
    FILE* out = fdopen(mkstemp(name), "wb");
    std::fwrite(bytes.data(), 1, bytes.size(), out);
    std::fclose(out);
    path = name;
    files.emplace_back(path);
  }
  ~RandomFile() { std::remove(path.c_str()); }
  RandomFile(const RandomFile&) = delete;

  std::vector<uint8_t> rows(const WeightBinding& binding) const {
    std::vector<uint8_t> read(binding.rows * binding.fileRowBytes());
    readFileRows(binding, binding.segments.at(0), files, read.data());
    return read;
  }

  std::string path;
  std::vector<uint8_t> bytes;
  std::vector<File> files;
};

WeightBinding matrix(WeightType type, uint32_t rows, uint32_t columns, WeightSegment segment) {
  WeightBinding binding;
  binding.role = "up.weight";
  binding.layer = 0;
  binding.type = type;
  binding.rows = rows;
  binding.columns = columns;
  binding.segments = {segment};
  return binding;
}

TEST(FileRows, EveryThirdOfMoreThanAPiece) {
  const RandomFile file(3 << 20);
  const uint32_t columns = 300, rows = 700;
  const std::vector<uint8_t> read = file.rows(matrix(WeightType::F32, rows, columns, {0, 11, rows, 3}));
  for (size_t row = 0; row < rows; row++)
    for (size_t i = 0; i < columns * 4; i++)
      ASSERT_EQ(read[row * columns * 4 + i], file.bytes[11 + row * 3 * columns * 4 + i]) << row << " " << i;
}

TEST(FileRows, OfAFileWithARowForEachInput) {
  const RandomFile file(1 << 20);
  const uint32_t columns = 96, rows = 40, inputRow = 2 * rows + 5;
  WeightBinding binding = matrix(WeightType::BF16, rows, columns, {0, 13 + 2, rows, 2});
  binding.inputRow = inputRow;
  const std::vector<uint8_t> read = file.rows(binding);
  for (size_t row = 0; row < rows; row++)
    for (size_t column = 0; column < columns; column++)
      for (size_t i = 0; i < 2; i++)
        ASSERT_EQ(read[(row * columns + column) * 2 + i], file.bytes[15 + (column * inputRow + 2 * row) * 2 + i]);
}

// Elements keep their order, blocks their scales; the tensor's other rows have scales, too.
TEST(FileRows, OfBlocksAndScalesApart) {
  const RandomFile file(2 << 20);
  const uint32_t columns = 2048, rows = 150;
  const uint64_t tensor = 21, first = 3, scales = 1 << 20;
  for (const uint32_t step : {1u, 2u}) {
    WeightBinding binding = matrix(WeightType::MXFP4, rows, columns, {0, tensor + first * columns / 2, rows, step});
    binding.blockScales = BlockScales{0, scales, tensor};
    const std::vector<uint8_t> read = file.rows(binding);
    for (size_t row = 0; row < rows; row++) {
      for (size_t block = 0; block < columns / 32; block++) {
        const uint8_t* found = &read[(row * columns / 32 + block) * 17];
        const size_t at = (first + row * step) * columns / 32 + block;
        ASSERT_EQ(found[0], file.bytes[scales + at]);
        for (size_t i = 0; i < 32; i++) {
          const int stored = file.bytes[tensor + at * 16 + i / 2] >> (i % 2 * 4) & 15;
          ASSERT_EQ(found[1 + i % 16] >> (i / 16 * 4) & 15, stored) << row << " " << block << " " << i;
        }
      }
    }
  }
}

// Few of a long row's columns are read by themselves, others with what lies between them.
TEST(FileRows, SomeColumnsOfEachRow) {
  const RandomFile file(4 << 20);
  for (const uint32_t rowColumns : {300u, 16'384u}) {
    const uint32_t first = 64, columns = 96, rows = 20;
    for (const uint32_t step : {1u, 3u}) {
      WeightBinding binding = matrix(WeightType::F32, rows, columns, {0, 11 + first * 4, rows, step});
      binding.rowColumns = rowColumns;
      EXPECT_EQ(binding.spannedBytes(binding.segments[0]), (uint64_t(rows - 1) * step * rowColumns + columns) * 4);
      const std::vector<uint8_t> read = file.rows(binding);
      for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < columns * 4; i++)
          ASSERT_EQ(read[row * columns * 4 + i], file.bytes[11 + (row * step * rowColumns + first) * 4 + i]);
    }
  }
}

TEST(FileRows, SomeColumnsOfBlocksAndScalesApart) {
  const RandomFile file(2 << 20);
  const uint32_t columns = 64, rowColumns = 256, first = 96, rows = 50;
  const uint64_t tensor = 21, scales = 1 << 20;
  WeightBinding binding = matrix(WeightType::MXFP4, rows, columns, {0, tensor + first / 2, rows});
  binding.rowColumns = rowColumns;
  binding.blockScales = BlockScales{0, scales, tensor};
  const std::vector<uint8_t> read = file.rows(binding);
  for (size_t row = 0; row < rows; row++) {
    for (size_t block = 0; block < columns / 32; block++) {
      const uint8_t* found = &read[(row * columns / 32 + block) * 17];
      const size_t at = (row * rowColumns + first) / 32 + block;
      ASSERT_EQ(found[0], file.bytes[scales + at]);
      for (size_t i = 0; i < 32; i++)
        ASSERT_EQ(found[1 + i % 16] >> (i / 16 * 4) & 15, file.bytes[tensor + at * 16 + i / 2] >> (i % 2 * 4) & 15);
    }
  }
}

TEST(FileRows, AreWhatAModelComputesWith) {
  const TinyModel model(smallSpec());
  RuntimeOptions plain = model.options(), turned = model.options();
  WeightBinding& binding = *std::find_if(turned.bindings.begin(), turned.bindings.end(), [](const WeightBinding& each) {
    return each.layer == 1 && each.role == "down.weight";
  });
  // The same numbers in a file with a row for each input, every output beside a number that is nobody's.
  const reference::Tensor& tensor = model.weights.at({1, "down.weight"});
  char path[] = "/tmp/spillway-rows-XXXXXX";
  FILE* out = fdopen(mkstemp(path), "wb");
  for (size_t column = 0; column < tensor.columns; column++)
    for (size_t row = 0; row < tensor.rows; row++) {
      const float pair[] = {tensor.values[row * tensor.columns + column], 1e9f};
      std::fwrite(pair, sizeof(float), 2, out);
    }
  std::fclose(out);
  turned.files.push_back(path);
  binding.segments = {{1, 0, binding.rows, 2}};
  binding.inputRow = 2 * binding.rows;
  const auto scores = [](RuntimeOptions options) {
    TinyRuntime tiny(std::move(options));
    const uint32_t row = tiny.runtime.createSequence(sequenceOptions({1, 2, 3, 4, 5}, 5));
    return tiny.pass({{row, 0, 5, HeadMode::Score, {0}}})->scores;
  };
  EXPECT_EQ(scores(turned), scores(plain));
  // The last pair's second number is not read, so it need not be there.
  EXPECT_EQ(truncate(path, static_cast<off_t>((tensor.values.size() * 2 - 1) * sizeof(float))), 0);
  EXPECT_EQ(scores(turned), scores(plain));
  EXPECT_EQ(truncate(path, static_cast<off_t>((tensor.values.size() * 2 - 2) * sizeof(float))), 0);
  EXPECT_THROW(scores(turned), FileError);
  std::remove(path);
}

// More rows than one thread reads at a time, in segments of which the second one begins in the middle of such a unit.
TEST(FileRows, OfManyUnits) {
  TinyModel model(smallSpec(), false);
  constexpr uint32_t kRows = 50'000, kFirst = 12'345, kColumns = 48;
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  std::vector<float> values(size_t(kRows) * kColumns);
  for (float& value : values) value = normal(random);
  const auto write = [](const std::vector<float>& numbers) {
    char path[] = "/tmp/spillway-rows-XXXXXX";
    FILE* out = fdopen(mkstemp(path), "wb");
    std::fwrite(numbers.data(), sizeof(float), numbers.size(), out);
    std::fclose(out);
    return std::string(path);
  };
  std::vector<float> apart(3 * values.size(), 1e9f), turned(2 * values.size(), 1e9f);
  for (size_t row = 0; row < kRows; row++)
    for (size_t column = 0; column < kColumns; column++) {
      const float value = values[row * kColumns + column];
      apart[3 * row * kColumns + column] = value;
      turned[column * 2 * kRows + 2 * row + 1] = value;
    }
  const std::string paths[] = {write(values), write(apart), write(turned)};
  model.spec.vocabularySize = kRows;
  const auto scores = [&](const std::string& path, std::vector<WeightSegment> segments, uint32_t inputRow) {
    RuntimeOptions options = model.options();
    options.files.push_back(path);
    for (WeightBinding& binding : options.bindings) {
      if (binding.role != "token_embedding") continue;
      binding.rows = kRows;
      binding.segments = std::move(segments);
      binding.inputRow = inputRow;
    }
    // Tied, so that every row has its say.
    options.bindings.erase(std::remove_if(options.bindings.begin(), options.bindings.end(),
                                          [](const WeightBinding& each) { return each.role.rfind("head.", 0) == 0; }),
                           options.bindings.end());
    TinyRuntime tiny(std::move(options));
    const uint32_t row = tiny.runtime.createSequence(sequenceOptions({1, 23'456, 49'999, 4, 5}, 5));
    return tiny.pass({{row, 0, 5, HeadMode::Score, {0}}})->scores;
  };
  const std::vector<float> expected = scores(paths[0], {{1, 0, kRows}}, 0);
  const uint32_t rest = kRows - kFirst;
  EXPECT_EQ(scores(paths[1], {{1, 0, kFirst, 3}, {1, uint64_t(kFirst) * 3 * kColumns * 4, rest, 3}}, 0), expected);
  EXPECT_EQ(scores(paths[2], {{1, 4, kFirst, 2}, {1, 4 + uint64_t(kFirst) * 2 * 4, rest, 2}}, 2 * kRows), expected);
  for (const std::string& path : paths) std::remove(path.c_str());
}

TEST(FileRows, RefusalsNameWhatIsWrong) {
  const TinyModel model(smallSpec());
  const auto expectRefused = [&](const std::function<void(WeightBinding&)>& change, const std::string& words) {
    RuntimeOptions options = model.options();
    for (WeightBinding& binding : options.bindings)
      if (binding.layer == 1 && binding.role == "q.weight") change(binding);
    try {
      TinyRuntime tiny(std::move(options));
      ADD_FAILURE() << "accepted: " << words;
    } catch (const FileError& error) {
      EXPECT_EQ(error.field, "layer 1 q.weight");
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expectRefused([](WeightBinding& b) { b.segments[0].step = 0; }, "every 0th row");
  expectRefused([](WeightBinding& b) { b.segments[0].step = 17; }, "expected 1 to 16");
  expectRefused([](WeightBinding& b) { b.segments[0].step = 16; }, "a range within the file's");
  expectRefused([](WeightBinding& b) { b.inputRow = b.segments[0].rows - 1; }, "as many as an input has");
  expectRefused([](WeightBinding& b) { b.inputRow = 1u << 24; }, "a range within the file's");
  expectRefused([](WeightBinding& b) { b.blockScales = BlockScales{}; }, "scales of blocks of F32");
  expectRefused([](WeightBinding& b) { b.rowColumns = b.columns - 1; }, "as many as a row has");
  expectRefused([](WeightBinding& b) { b.rowColumns = 1u << 28; }, "a range within the file's");
  expectRefused([](WeightBinding& b) { b.rowColumns = b.inputRow = 4096; }, "a row for each output");
  const auto blocks = [](WeightBinding& b) {
    b.type = WeightType::MXFP4;
    b.columns = 64;
    b.segments = {{0, 0, b.rows}};
    b.blockScales = BlockScales{0, 0, 0};
  };
  // smallSpec()'s matrices have 48 inputs, no whole number of blocks.
  expectRefused(blocks, "expected matrix [64, 48]");
  DecoderSpec wide = smallSpec();
  wide.hiddenSize = wide.embeddingSize = 64;
  const TinyModel other(wide);
  const auto expectBlocksRefused = [&](const std::function<void(WeightBinding&)>& change, const std::string& words) {
    RuntimeOptions options = other.options();
    for (WeightBinding& binding : options.bindings)
      if (binding.layer == 1 && binding.role == "q.weight") blocks(binding), change(binding);
    try {
      TinyRuntime tiny(std::move(options));
      ADD_FAILURE() << "accepted: " << words;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  expectBlocksRefused([](WeightBinding& b) { b.blockScales->file = 1; }, "scales in file 1");
  expectBlocksRefused([](WeightBinding& b) { b.blockScales->tensorOffset = 1; }, "rows beside those that have scales");
  expectBlocksRefused([](WeightBinding& b) { b.segments[0].offset = 31; }, "rows beside those that have scales");
  expectBlocksRefused([](WeightBinding& b) { b.blockScales->offset = 1u << 30; }, "a range within the file's");
  expectBlocksRefused([](WeightBinding& b) { b.inputRow = 64; }, "a matrix of F32, F16 or BF16");
}

}  // namespace
}  // namespace spillway
