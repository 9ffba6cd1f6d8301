// Packing and unpacking against what the gguf package says the files mean (golden/make_weight_types.py), bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "../../kernels/cpu/compressRows.h"
#include "instructionSets.h"
#include "matmulCases.h"

namespace spillway {
namespace {

std::vector<WeightType> fileTypes() {
  std::vector<WeightType> types;
  for (const WeightType type : kWeightTypes)
    if (static_cast<int>(type) < kFirstOwnWeightType) types.push_back(type);
  return types;
}

struct Golden {
  uint32_t rows = 0, inputs = 0, rowBytes = 0;
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};

Golden readGolden(WeightType type) {
  // Not beside __FILE__, which is relative to the build's folder where a cache of compiled files is in use.
  std::ifstream file(SPILLWAY_TESTS_FOLDER "/kernels/golden/" + std::string(weightTypeName(type)) + ".bin",
                     std::ios::binary);
  Golden golden;
  uint32_t header[3] = {};
  file.read(reinterpret_cast<char*>(header), sizeof header);
  golden.rows = header[0];
  golden.inputs = header[1];
  golden.rowBytes = header[2];
  golden.bytes.resize(size_t{golden.rows} * golden.rowBytes);
  golden.values.resize(size_t{golden.rows} * golden.inputs);
  file.read(reinterpret_cast<char*>(golden.bytes.data()), static_cast<std::streamsize>(golden.bytes.size()));
  file.read(reinterpret_cast<char*>(golden.values.data()),
            static_cast<std::streamsize>(golden.values.size() * sizeof(float)));
  EXPECT_TRUE(file.good()) << "golden file of " << weightTypeName(type);
  return golden;
}

class Packing : public testing::TestWithParam<WeightType> {};

TEST_P(Packing, KeepsExactlyWhatTheFileMeans) {
  const WeightType type = GetParam();
  const Golden golden = readGolden(type);
  ASSERT_GT(golden.rows, 0u);
  EXPECT_EQ(golden.rowBytes, weightRowBytes(type, golden.inputs));
  // The golden rows at several places of a matrix of two panels, the second one partly empty.
  for (const uint32_t outputs : {golden.rows, 16u, 21u}) {
    std::vector<uint8_t> fileRows;
    for (uint32_t i = 0; i < outputs; i++) {
      const auto row = golden.bytes.begin() + static_cast<long>(i % golden.rows * golden.rowBytes);
      fileRows.insert(fileRows.end(), row, row + golden.rowBytes);
    }
    const cases::PackedMatrix matrix = cases::packMatrix(type, outputs, golden.inputs, fileRows.data());
    std::vector<float> unpacked(golden.inputs);
    for (uint32_t i = 0; i < outputs; i++) {
      unpackRow(matrix.weights, i, unpacked.data());
      for (uint32_t k = 0; k < golden.inputs; k++)
        ASSERT_EQ(bitsOfFloat(unpacked[k]), bitsOfFloat(golden.values[i % golden.rows * golden.inputs + k]))
            << "row " << i << ", input " << k;
    }
  }
}

TEST_P(Packing, UnpacksAFilesRow) {
  const WeightType type = GetParam();
  const Golden golden = readGolden(type);
  std::vector<float> unpacked(golden.inputs);
  for (uint32_t i = 0; i < golden.rows; i++) {
    unpackFileRow(type, golden.bytes.data() + i * golden.rowBytes, golden.inputs, unpacked.data());
    for (uint32_t k = 0; k < golden.inputs; k++)
      ASSERT_EQ(bitsOfFloat(unpacked[k]), bitsOfFloat(golden.values[i * golden.inputs + k]))
          << "row " << i << ", input " << k;
  }
}

// A product with a unit vector at float precision is one column of the weights: what the kernels unpack is what the
// file means, too.
TEST_P(Packing, KernelsUnpackTheSameFloats) {
  const WeightType type = GetParam();
  const Golden golden = readGolden(type);
  const cases::PackedMatrix matrix = cases::packMatrix(type, golden.rows, golden.inputs, golden.bytes.data());
  const cases::AlignedBytes workspace = cases::alignedBytes(kMatmulWorkspaceBytes);
  for (const InstructionSet set : allSets()) {
    if (!machineHas(set)) continue;  // matmul_test.cpp reports the sets that are missing
    for (uint32_t k = 0; k < golden.inputs; k++) {
      std::vector<float> unit(golden.inputs), output(golden.rows);
      unit[k] = 1;
      MatmulBlock block{};
      block.type = type;
      block.inputs = golden.inputs;
      block.panels = matrix.weights.panels;
      block.panelBytes = panelBytes(type, golden.inputs);
      block.outputs = golden.rows;
      block.rows = 1;
      block.values = unit.data();
      block.valueStride = golden.inputs;
      block.output = output.data();
      block.outputStride = golden.rows;
      kernelsFor(set).matmul.multiplyFloat(block, workspace.get());
      for (uint32_t i = 0; i < golden.rows; i++)
        ASSERT_EQ(output[i], golden.values[i * golden.inputs + k])
            << instructionSetName(set) << " row " << i << ", input " << k;
    }
  }
}

// Memory: a packed matrix takes the file's bytes, but for the K types' 6-bit scales, which take a byte each, and for
// the panels' rounding up.
TEST_P(Packing, TakesTheBytesOfTheFile) {
  const WeightType type = GetParam();
  const size_t outputs = 64, inputs = 4096;
  const double file = static_cast<double>(outputs * weightRowBytes(type, inputs));
  const double packed = static_cast<double>(packedBytes(type, outputs, inputs));
  EXPECT_GE(packed, file);
  EXPECT_LE(packed / file, type == WeightType::Q3_K                               ? 1.037
                           : type == WeightType::Q4_K || type == WeightType::Q5_K ? 1.03
                           : type == WeightType::IQ4_XS                           ? 1.015
                                                                                  : 1.0);
}

INSTANTIATE_TEST_SUITE_P(Types, Packing, testing::ValuesIn(fileTypes()),
                         [](const auto& info) { return weightTypeName(info.param); });

TEST(WeightTypes, OnlyTheKnownNumbersAreTypes) {
  size_t known = 0;
  for (int number = -1; number < 300; number++) known += isWeightType(number) ? 1 : 0;
  EXPECT_EQ(known, fileTypes().size() + 2) << "the types of files, Q4_G64 and Q8_R";
  for (const WeightType type : kWeightTypes) EXPECT_TRUE(isWeightType(static_cast<int>(type)));
}

// What a matrix is after compression, from the floats that it was.
std::vector<float> compressed(WeightType type, const std::vector<float>& values) {
  const auto inputs = static_cast<uint32_t>(values.size());
  std::vector<uint8_t> row(weightRowBytes(type, inputs));
  compressRows(WeightType::F32, reinterpret_cast<const uint8_t*>(values.data()), 1, inputs, type, row.data());
  const cases::PackedMatrix matrix = cases::packMatrix(type, 1, inputs, row.data());
  std::vector<float> result(inputs);
  unpackRow(matrix.weights, 0, result.data());
  return result;
}

TEST(Compression, EightBitsAreOffByHalfAStepAtMost) {
  for (const float shift : {0.0f, 3.0f, -5.0f}) {
    std::vector<float> values = cases::randomFloats(320, 9);
    for (float& value : values) value += shift;
    const std::vector<float> result = compressed(WeightType::Q8_0, values);
    for (size_t g = 0; g < values.size(); g += 32) {
      const auto [least, most] =
          std::minmax_element(values.begin() + static_cast<long>(g), values.begin() + static_cast<long>(g + 32));
      const float size = std::max(std::fabs(*least), std::fabs(*most));
      // The scale is rounded to half precision, 1 part in 2048; at the far end 127 of its errors add up.
      for (size_t i = g; i < g + 32; i++)
        EXPECT_NEAR(result[i], values[i], 0.5f * size / 127 + size * 0x1.8p-10f) << "input " << i;
    }
  }
}

TEST(Compression, EightBitsOfARowHaveOneScale) {
  std::vector<float> values = cases::randomFloats(320, 9);
  values[77] = -9;
  const std::vector<float> result = compressed(WeightType::Q8_R, values);
  for (size_t i = 0; i < values.size(); i++)
    EXPECT_NEAR(result[i], values[i], 0.5f * 9 / 127 + 9 * 0x1.8p-10f) << "input " << i;
  const float step = halfToFloat(floatToHalf(9.0f / 127));
  for (const float value : result) EXPECT_EQ(value, step * std::nearbyint(value / step));
}

// What a group of 64 loses when its whole range is cut into 15 steps, in double precision.
double lossOfWholeRange(const float* values) {
  const auto [least, most] = std::minmax_element(values, values + 64);
  const double step = (static_cast<double>(*most) - *least) / 15;
  double loss = 0;
  for (size_t i = 0; i < 64; i++)
    loss += std::pow(*least + step * std::nearbyint((values[i] - *least) / step) - values[i], 2);
  return loss;
}

TEST(Compression, FourBitsLoseLessThanStepsOverTheWholeRange) {
  for (const float shift : {0.0f, 3.0f, -5.0f}) {
    std::vector<float> values = cases::randomFloats(640, 9);
    for (float& value : values) value += shift;
    const std::vector<float> result = compressed(WeightType::Q4_G64, values);
    double all = 0, plain = 0;
    for (size_t g = 0; g < values.size(); g += 64) {
      double loss = 0;
      for (size_t i = g; i < g + 64; i++) loss += std::pow(static_cast<double>(result[i]) - values[i], 2);
      const double whole = lossOfWholeRange(&values[g]);
      // Never worse in any group, up to the rounding of scale and minimum to halves.
      EXPECT_LE(loss, whole * 1.02 + 64 * std::pow((std::fabs(shift) + 2) * 0x1p-11, 2))
          << "shift " << shift << ", group " << g / 64;
      all += loss;
      plain += whole;
    }
    EXPECT_LT(all, 0.93 * plain) << "shift " << shift;
  }
}

TEST(Compression, KeepsConstantsAndZerosAndShowsWhatIsNotFinite) {
  for (const WeightType type : {WeightType::Q4_G64, WeightType::Q8_0, WeightType::Q8_R}) {
    for (const float constant : {0.0f, 0.5f, -2.0f})
      for (const float value : compressed(type, std::vector<float>(64, constant)))
        EXPECT_NEAR(value, constant, std::fabs(constant) * 0x1p-11f);
    for (const float poison : {NAN, INFINITY, -INFINITY, 1e30f}) {
      std::vector<float> values = cases::randomFloats(64, 10);
      values[5] = poison;
      EXPECT_FALSE(std::isfinite(compressed(type, values)[5])) << weightTypeName(type) << ", " << poison;
    }
  }
}

TEST(Compression, TakesEveryTypeOfFile) {
  for (const WeightType from : fileTypes()) {
    const uint32_t inputs = 512, outputs = 5;
    const std::vector<uint8_t> rows = cases::randomFileRows(from, outputs, inputs, 4);
    const cases::PackedMatrix matrix = cases::packMatrix(from, outputs, inputs, rows.data());
    std::vector<uint8_t> all(outputs * weightRowBytes(WeightType::Q4_G64, inputs)),
        one(weightRowBytes(WeightType::Q4_G64, inputs));
    compressRows(from, rows.data(), outputs, inputs, WeightType::Q4_G64, all.data());
    std::vector<float> values(inputs);
    for (uint32_t output = 0; output < outputs; output++) {
      unpackRow(matrix.weights, output, values.data());
      compressRow(WeightType::Q4_G64, values.data(), inputs, one.data());
      EXPECT_EQ(std::memcmp(one.data(), all.data() + output * one.size(), one.size()), 0) << weightTypeName(from);
    }
  }
}

TEST(FloatFormats, HalvesGoThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = halfToFloat(half);
    if (value != value)
      EXPECT_EQ(floatToHalf(value), half | 0x200);  // quiet
    else
      EXPECT_EQ(floatToHalf(value), half);
  }
  EXPECT_EQ(floatToHalf(65519.99f), 0x7bff);
  EXPECT_EQ(floatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(floatToHalf(1.0f + 0x1p-11f), 0x3c00);  // a tie goes to the even neighbour
  EXPECT_EQ(floatToHalf(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(floatToHalf(0x1p-25f), 0);
  EXPECT_EQ(floatToHalf(0x1.8p-25f), 1);
}

}  // namespace
}  // namespace spillway
