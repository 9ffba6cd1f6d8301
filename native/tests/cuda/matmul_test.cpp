// Matrix products of every type against weights that the CPU unpacks, in double precision, over the CPU's table of
// cases.
#include "../kernels/matmulCases.h"

#include <cmath>
#include <limits>
#include <optional>

#include "../../system/ThreadPool.h"
#include "../tries.h"
#include "cublasLtFixture.h"
#include "deviceMatrix.h"
#include "fixture.h"

namespace spillway::cuda {
namespace {

using cases::MatmulCase;

// 138 outputs are nine panels with the last one used in part; more of them would only take longer.
MatmulCase small(MatmulCase shape) {
  shape.outputs = std::min(shape.outputs, 138u);
  return shape;
}

std::string nameOf(const testing::TestParamInfo<MatmulCase>& info) {
  std::string name = info.param.name;
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  return name;
}

enum class Way { OnHalves, InFloat, CublasLt };

class CudaMatmul : public testing::TestWithParam<MatmulCase> {
 protected:
  void SetUp() override {
    matrix = cases::randomMatrix(shape, 31);
    weights.assign(shape.outputs, std::vector<float>(shape.inputs));
    for (size_t output = 0; output < shape.outputs; output++) unpackRow(matrix.weights, output, weights[output].data());
    bias = cases::randomFloats(shape.outputs, 32);
    stride = shape.inputs + 3;
    values = cases::randomFloats(kMostRows * stride, 33);
    for (size_t k = 0; k < shape.inputs; k++) {
      values[1 * stride + k] *= 1e9f;  // far beyond the range of a half
      values[2 * stride + k] *= 1e-30f;
      values[3 * stride + k] = 0;
    }
  }

  // Rows [first, first + rows) of the values; outputs lie apart by five floats more than needed, which must stay as
  // they are.
  std::vector<float> run(Way way, size_t first, size_t rows, CublasLtProducts* products = nullptr,
                         std::optional<ProductBlocks> blocks = {}, bool adds = false) const {
    const MatrixOnDevice device(matrix.weights);
    const DeviceArray<float> x(std::vector<float>(values.begin() + static_cast<long>(first * stride),
                                                  values.begin() + static_cast<long>((first + rows) * stride))),
        b(bias);
    const size_t outputStride = shape.outputs + 5;
    const DeviceArray<float> out(std::vector<float>(rows * outputStride, 7777.0f));
    const ProductOutput output = {shape.bias ? b.get() : nullptr, out.get(), outputStride, adds};
    if (way == Way::CublasLt) {
      multiplyByCublasLt(*products, shape.outputs, device.matrix, x.get(), stride, rows, {{0, rows}}, output);
    } else if (way == Way::InFloat) {
      multiplyFloat(testStream(), device.matrix, x.get(), rows, stride, output);
    } else {
      const DeviceArray<uint16_t> halves(rows * halfColumns(shape.inputs));
      const DeviceArray<float> factors(rows);
      const HalfRows prepared = {halves.get(), factors.get(), rows, shape.inputs};
      prepareRows(testStream(), x.get(), stride, prepared);
      multiply(testStream(), device.matrix, prepared, output, blocks.value_or(blocksFor(rows, shape.outputs)));
      check(cudaStreamSynchronize(testStream()), "synchronize");
    }
    const std::vector<float> all = out.values();
    std::vector<float> result;
    for (size_t row = 0; row < rows; row++) {
      const auto at = all.begin() + static_cast<long>(row * outputStride);
      result.insert(result.end(), at, at + shape.outputs);
      for (size_t i = 0; i < 5; i++)
        EXPECT_EQ(at[static_cast<long>(shape.outputs + i)], 7777.0f) << "beyond the row's outputs";
    }
    return result;
  }

  // Σ |x w| times the error of one term bounds the error of the sum.
  void expectNear(const std::vector<float>& result, size_t first, size_t rows, double termError,
                  const std::vector<float>& other = {}) const {
    for (size_t row = 0; row < rows; row++)
      for (size_t output = 0; output < shape.outputs; output++) {
        double sum = shape.bias ? bias[output] : 0, magnitude = std::fabs(sum);
        const float *value = &values[(first + row) * stride], *weight = weights[output].data();
        for (size_t k = 0; k < shape.inputs; k++) {
          const double term = static_cast<double>(value[k]) * weight[k];
          sum += term;
          magnitude += std::fabs(term);
        }
        const size_t at = row * shape.outputs + output;
        ASSERT_NEAR(result[at], other.empty() ? sum : other[at], termError * magnitude)
            << "row " << first + row << ", output " << output;
      }
  }

  // Kinds of blocks; emulated by day every second one, each with half of the types.
  template <typename Body>
  void forBlocks(const Body& body) const {
#if defined(__CUDACC__)
    constexpr bool all = true;
#else
    constexpr bool all = false;
#endif
    size_t kind = 0;
    for (const ProductBlocks blocks : kProductBlocks)
      if (areThere(blocks) && (inTurn(kind++ % 2, size_t(shape.type), 2) || all)) body(blocks);
  }

  static constexpr size_t kMostRows = 130;  // two blocks of every kind at least
  const MatmulCase shape = small(GetParam());
  cases::PackedMatrix matrix;
  std::vector<std::vector<float>> weights;
  std::vector<float> bias, values;
  size_t stride = 0;
};

// A weight and a value lose 2^-11 each (K types: nothing more, their scales are products in float), offsets are rounded
// with scale * q: 2^-11 of it.
TEST_P(CudaMatmul, AgreesWithDoublePrecisionAndARowAloneHasTheSameBits) {
  constexpr size_t rows = kMostRows;
  const std::vector<float> many = run(Way::OnHalves, 0, rows);
  expectNear(many, 0, rows, std::ldexp(1.0, -9));
  forBlocks(
      [&](ProductBlocks blocks) { expectSame(run(Way::OnHalves, 0, rows, nullptr, blocks), many, nameOf(blocks)); });
  underEverySeed([&] {
    expectSame(run(Way::OnHalves, 0, 5), {many.begin(), many.begin() + static_cast<long>(5 * shape.outputs)},
               "five rows");
    expectSame(run(Way::OnHalves, rows - 1, 1), {many.end() - static_cast<long>(shape.outputs), many.end()},
               "the last row alone");
  });
}

TEST_P(CudaMatmul, IsAddedToWhatIsThere) {
  constexpr size_t rows = 20;
  const auto expectAdded = [&](std::vector<float> result, const std::vector<float>& added, const char* what) {
    for (float& value : result) value += 7777.0f;
    expectSame(added, result, what);
  };
  for (const Way way : {Way::OnHalves, Way::InFloat})
    expectAdded(run(way, 0, rows), run(way, 0, rows, nullptr, {}, true), "multiply");
  const std::vector<float> product = run(Way::OnHalves, 0, rows);
  forBlocks([&](ProductBlocks blocks) {
    expectAdded(product, run(Way::OnHalves, 0, rows, nullptr, blocks, true), nameOf(blocks));
  });
}

TEST_P(CudaMatmul, InFloatAgreesToFloatPrecision) {
  underEverySeed([&] {
    const std::vector<float> many = run(Way::InFloat, 0, 9);
    expectNear(many, 0, 9, 1e-6);
    expectSame(run(Way::InFloat, 8, 1), {many.end() - static_cast<long>(shape.outputs), many.end()},
               "the last row alone");
  });
}

// Of the same halves: what is left is the order of sums in float.
TEST_P(CudaMatmul, ByCublasLtIsTheOwnKernelsButForRoundingAndARowAloneHasTheSameBits) {
#if !defined(__CUDACC__)
  const fake::Library library;
  library->first = fake::kOneSequence;
#endif
  std::string whyNot;
  const std::unique_ptr<CublasLtProducts> products = CublasLtProducts::open(whyNot);
  if (products == nullptr) GTEST_SKIP() << whyNot;
  const size_t rows = 6;
  const std::vector<float> many = run(Way::CublasLt, 0, rows, products.get());
  std::vector<float> added = many;
  for (float& value : added) value += 7777.0f;
  expectSame(run(Way::CublasLt, 0, rows, products.get(), {}, true), added, "added to what is there");
  expectNear(many, 0, rows, 1e-5, run(Way::OnHalves, 0, rows));
  underEverySeed([&] {
    expectSame(run(Way::CublasLt, rows - 1, 1, products.get()),
               {many.end() - static_cast<long>(shape.outputs), many.end()}, "the last row alone");
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, CudaMatmul, testing::ValuesIn(cases::kMatmulCases), nameOf);

TEST(CudaMatmulRows, WhatIsNotFiniteStaysInItsRow) {
  const MatmulCase shape = {"Q4_1", WeightType::Q4_1, 20, 64, false};
  const cases::PackedMatrix matrix = cases::randomMatrix(shape, 34);
  std::vector<float> values = cases::randomFloats(4 * 64, 35);
  values[1 * 64 + 7] = std::numeric_limits<float>::quiet_NaN();
  values[2 * 64 + 63] = -std::numeric_limits<float>::infinity();
  const MatrixOnDevice device(matrix.weights);
  const DeviceArray<float> x(values), factors(4), out(4 * 20);
  const DeviceArray<uint16_t> halves(4 * 64);
  const HalfRows prepared = {halves.get(), factors.get(), 4, 64};
  prepareRows(testStream(), x.get(), 64, prepared);
  multiply(testStream(), device.matrix, prepared, {nullptr, out.get(), 20});
  const std::vector<float> y = out.values();
  for (size_t i = 0; i < y.size(); i++) EXPECT_EQ(std::isfinite(y[i]), i / 20 == 0 || i / 20 == 3) << i;
}

// What a kind of blocks begins a sum with shows in its sign.
TEST(CudaMatmulRows, SumsOfNegativeZerosAreTheSameForEveryKindOfBlocks) {
  constexpr uint32_t outputs = 20, inputs = 256;
  constexpr size_t rows = 130;
  const std::vector<uint8_t> zeros(size_t{outputs} * inputs * sizeof(uint16_t));
  const cases::PackedMatrix matrix = cases::packMatrix(WeightType::F16, outputs, inputs, zeros.data());
  const MatrixOnDevice device(matrix.weights);
  const DeviceArray<float> x(std::vector<float>(rows * inputs, -1.5f)), factors(rows);
  const DeviceArray<uint16_t> halves(rows * inputs);
  const HalfRows prepared = {halves.get(), factors.get(), rows, inputs};
  prepareRows(testStream(), x.get(), inputs, prepared);
  std::vector<float> expected;
  for (const ProductBlocks blocks : kProductBlocks) {
    if (!areThere(blocks)) continue;
    const DeviceArray<float> out(std::vector<float>(rows * outputs, 7777.0f));
    multiply(testStream(), device.matrix, prepared, {nullptr, out.get(), outputs}, blocks);
    const std::vector<float> values = out.values();
    if (expected.empty()) expected = values;
    expectSame(values, expected, nameOf(blocks));
  }
}

}  // namespace
}  // namespace spillway::cuda
