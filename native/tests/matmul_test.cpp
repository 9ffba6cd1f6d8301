// Products of every type, precision and instruction set against double precision, and bit for bit against each other.
#include "../kernels/cpu/Matmul.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../runtime/Error.h"
#include "../runtime/ThreadPool.h"
#include "matmulCases.h"

namespace spillway {
namespace {

constexpr InstructionSet kSets[] = {InstructionSet::Scalar, InstructionSet::Avx2, InstructionSet::Avx512};

struct Product {
  std::vector<float> output;  // [rows, outputs]
};

struct Job {
  const WeightMatrix* weights;
  const float* bias;
};

// All jobs over the first `rows` rows of `values`; outputs lie apart by 5 floats more than needed, which must stay untouched.
std::vector<Product> multiply(InstructionSet set, unsigned threads, Precision precision, const std::vector<Job>& jobs, const float* values, size_t rows,
                              size_t stride) {
  ThreadPool pool(threads);
  const Compute compute{kernelsFor(set), pool, precision};
  const size_t columns = jobs[0].weights->inputs;
  bool quantise = false;
  for (const Job& job : jobs) quantise = quantise || usesQuantisedInput(job.weights->type, precision);

  std::vector<std::vector<float>> outputs;
  std::vector<MatmulJob> matmulJobs;
  for (const Job& job : jobs) outputs.emplace_back(rows * (job.weights->outputs + 5), 7777.0f);
  for (size_t j = 0; j < jobs.size(); j++) matmulJobs.push_back({jobs[j].weights, jobs[j].bias, outputs[j].data(), jobs[j].weights->outputs + 5});

  // Once with measure-only scratch, which says how much is needed, then with exactly as much.
  Scratch measure(nullptr, 0);
  const auto compile = [&](Scratch& scratch) {
    const MatrixInput input = prepareInput(compute, values, rows, columns, stride, quantise, scratch);
    matmul(compute, matmulJobs.data(), matmulJobs.size(), input, scratch);
  };
  compile(measure);
  const cases::AlignedBytes block = cases::alignedBytes(measure.peak());
  Scratch scratch(block.get(), measure.peak());
  compile(scratch);

  std::vector<Product> products;
  for (size_t j = 0; j < jobs.size(); j++) {
    const size_t width = jobs[j].weights->outputs;
    Product product;
    for (size_t row = 0; row < rows; row++) {
      const float* at = outputs[j].data() + row * (width + 5);
      product.output.insert(product.output.end(), at, at + width);
      for (size_t i = width; i < width + 5; i++) EXPECT_EQ(at[i], 7777.0f) << "beyond the row's outputs";
    }
    products.push_back(std::move(product));
  }
  return products;
}

void expectSameBits(const float* a, const float* b, size_t count, const std::string& what) {
  for (size_t i = 0; i < count; i++) ASSERT_EQ(bitsOfFloat(a[i]), bitsOfFloat(b[i])) << what << ", element " << i << ": " << a[i] << " and " << b[i];
}

float largestOf(const float* values, size_t count) {
  float largest = 0;
  for (size_t i = 0; i < count; i++) largest = std::max(largest, std::fabs(values[i]));
  return largest;
}

// Adds what 32 values are when rounded to 8 bits; `lost` gets the difference.
void addRounded(const float* values, double* rounded, float* lost) {
  const float largest = largestOf(values, 32);
  for (size_t i = 0; i < 32; i++) {
    const float number = largest == 0 ? 0.0f : std::nearbyint(values[i] * (127.0f / largest));
    rounded[i] += static_cast<double>(largest) / 127 * number;
    lost[i] = std::fma(-number, largest * (1.0f / 127.0f), values[i]);
  }
}

// Rounding to 8 bits, as the product does it, in double precision: Σ over groups of scale * Σ value * weight, in two steps for a row's large groups.
std::vector<double> roundedTo8Bits(const float* values, size_t columns) {
  std::vector<double> rounded(columns);
  float over = 0;
  for (size_t k = 0; k < columns; k += 32) over += largestOf(values + k, 32);
  over *= 3.0f / static_cast<float>(columns / 32);
  for (size_t k = 0; k < columns; k += 32) {
    float lost[32], ignored[32];
    addRounded(values + k, &rounded[k], lost);
    if (largestOf(values + k, 32) > over) addRounded(lost, &rounded[k], ignored);
  }
  return rounded;
}

struct Setting {
  cases::MatmulCase shape;
  InstructionSet set;
};

class Matmul : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (!machineHas(GetParam().set)) GTEST_SKIP() << "this machine has no " << instructionSetName(GetParam().set);
    // Large shapes are here for their numbers of panels and groups; a few rows of them do.
    heavy = size_t{shape().outputs} * shape().inputs > 300000;
    matrix = cases::randomMatrix(shape(), 11);
    bias = cases::randomFloats(shape().outputs, 12);
    stride = shape().inputs + 3;
    values = cases::randomFloats(70 * stride, 13);
    for (size_t k = 0; k < std::min<size_t>(32, shape().inputs); k++) values[2 * stride + k] = 0;  // a group of zeros
    values[3 * stride] = 3e4f;                                                                     // and an outlier
  }
  // The head of a model, cut down: its many outputs are the benchmark's business.
  static cases::MatmulCase shape() {
    cases::MatmulCase shape = GetParam().shape;
    shape.outputs = std::min(shape.outputs, 5000u);
    return shape;
  }
  Job job() const { return {&matrix.weights, shape().bias ? bias.data() : nullptr}; }
  std::vector<float> run(Precision precision, size_t firstRow, size_t rows, unsigned threads = 1, InstructionSet set = GetParam().set) const {
    return multiply(set, threads, precision, {job()}, values.data() + firstRow * stride, rows, stride)[0].output;
  }

  // Enough for every number of rows that a register tile can end with, and for several tiles. Scalar loops take one row like the other, and are slow.
  size_t mostRows() const { return heavy ? 9 : GetParam().set == InstructionSet::Scalar ? 10 : 70; }

  bool heavy = false;
  cases::PackedMatrix matrix;
  std::vector<float> bias, values;
  size_t stride = 0;
};

TEST_P(Matmul, AgreesWithDoublePrecision) {
  const size_t rows = mostRows(), inputs = shape().inputs;
  std::vector<std::vector<float>> weights(shape().outputs, std::vector<float>(inputs));
  for (size_t output = 0; output < shape().outputs; output++) unpackRow(matrix.weights, output, weights[output].data());
  for (const Precision precision : {Precision::Default, Precision::Float32}) {
    const bool quantised = usesQuantisedInput(shape().type, precision);
    const std::vector<float> product = run(precision, 0, rows, 2);
    for (size_t row = 0; row < rows; row++) {
      const float* x = values.data() + row * stride;
      const std::vector<double> rounded = quantised ? roundedTo8Bits(x, inputs) : std::vector<double>(x, x + inputs);
      for (size_t output = 0; output < shape().outputs; output++) {
        double sum = shape().bias ? bias[output] : 0, magnitude = std::fabs(sum);
        for (size_t k = 0; k < inputs; k++) {
          const double term = rounded[k] * weights[output][k];
          sum += term;
          magnitude += std::fabs(term);
        }
        // A rounding error of half an ulp for each of the fused operations in a row, of which a group of 8-bit products has at most six, twice; those with
        // offsets round two terms that may cancel, hence the factor.
        const double operations = quantised ? static_cast<double>(inputs) / 32 * 12 : static_cast<double>(inputs);
        const double bound = 0x1p-24 * (operations + 2) * magnitude * (quantised ? 4 : 1) + 1e-30;
        ASSERT_NEAR(product[row * shape().outputs + output], sum, bound) << "row " << row << ", output " << output << (quantised ? ", 8 bits" : ", float");
      }
    }
  }
}

TEST_P(Matmul, ARowAloneAndInCompanyHasTheSameBits) {
  const size_t most = mostRows(), width = shape().outputs;
  for (const Precision precision : {Precision::Default, Precision::Float32}) {
    const std::vector<float> all = run(precision, 0, most);
    for (size_t row = 0; row < most; row++) {
      const std::vector<float> alone = run(precision, row, 1);
      expectSameBits(alone.data(), all.data() + row * width, width, "row " + std::to_string(row) + " alone");
    }
    for (size_t rows = 1; rows <= most; rows++) {
      const std::vector<float> some = run(precision, 0, rows);
      expectSameBits(some.data(), all.data(), rows * width, std::to_string(rows) + " rows");
    }
  }
}

TEST_P(Matmul, ThreadsDoNotChangeBits) {
  const size_t rows = mostRows() - 3;
  for (const Precision precision : {Precision::Default, Precision::Float32}) {
    const std::vector<float> one = run(precision, 1, rows, 1);
    for (const unsigned threads : {2u, 3u, 7u}) {
      const std::vector<float> several = run(precision, 1, rows, threads);
      expectSameBits(several.data(), one.data(), one.size(), std::to_string(threads) + " threads");
    }
  }
}

class MatmulWide : public Matmul {};

TEST_P(MatmulWide, HasTheBitsOfScalar) {
  const size_t rows = heavy ? 1 : 9;
  for (const Precision precision : {Precision::Default, Precision::Float32}) {
    const std::vector<float> wide = run(precision, 0, rows);
    const std::vector<float> scalar = run(precision, 0, rows, 1, InstructionSet::Scalar);
    expectSameBits(wide.data(), scalar.data(), scalar.size(), "scalar");
  }
}

TEST_P(Matmul, NotFiniteActivationsTurnIntoNotFiniteOutputsOfTheirRowAlone) {
  const size_t rows = heavy ? 3 : 6, width = shape().outputs;
  const std::vector<float> before = run(Precision::Default, 0, rows);
  const float saved = values[stride];
  for (const float poison : {NAN, INFINITY, -INFINITY}) {
    values[stride] = poison;
    for (const Precision precision : {Precision::Default, Precision::Float32}) {
      const std::vector<float> after = run(precision, 0, rows);
      for (size_t output = 0; output < width; output++) {
        const float value = after[width + output];
        const bool mustBeNan = usesQuantisedInput(shape().type, precision) || std::isnan(poison);
        ASSERT_TRUE(mustBeNan ? std::isnan(value) : !std::isfinite(value)) << "output " << output << " is " << value;
      }
      if (precision == Precision::Default) {
        expectSameBits(after.data(), before.data(), width, "the row before");
        expectSameBits(after.data() + 2 * width, before.data() + 2 * width, width, "the row after");
      }
    }
  }
  values[stride] = saved;
}

std::vector<Setting> settings(std::initializer_list<InstructionSet> sets) {
  std::vector<Setting> all;
  for (const cases::MatmulCase& shape : cases::kMatmulCases)
    for (const InstructionSet set : sets) all.push_back({shape, set});
  return all;
}

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.shape.name << ", " << instructionSetName(setting.set); }

std::string nameOf(const testing::TestParamInfo<Setting>& info) {
  std::string name = std::string(info.param.shape.name) + "_" + instructionSetName(info.param.set);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Matmul, testing::ValuesIn(settings({InstructionSet::Scalar, InstructionSet::Avx2, InstructionSet::Avx512})), nameOf);
INSTANTIATE_TEST_SUITE_P(Cases, MatmulWide, testing::ValuesIn(settings({InstructionSet::Avx2, InstructionSet::Avx512})), nameOf);

// Several jobs of different types and sizes in one loop, more rows than one block holds: the same bits as one by one.
TEST(MatmulJobs, SeveralAtOnceHaveTheSameBits) {
  const cases::MatmulCase shapes[] = {{"q", WeightType::Q4_1, 200, 256, true},
                                      {"k", WeightType::Q6_K, 72, 256, false},
                                      {"v", WeightType::F16, 33, 256, true},
                                      {"g", WeightType::Q8_0, 1030, 256, true}};
  std::vector<cases::PackedMatrix> matrices;
  std::vector<Job> jobs;
  const std::vector<float> bias = cases::randomFloats(1030, 5);
  for (const cases::MatmulCase& shape : shapes) matrices.push_back(cases::randomMatrix(shape, 6));
  for (size_t j = 0; j < std::size(shapes); j++) jobs.push_back({&matrices[j].weights, shapes[j].bias ? bias.data() : nullptr});
  const std::vector<float> values = cases::randomFloats(300 * 256, 7);
  for (const Precision precision : {Precision::Default, Precision::Float32})
    for (const size_t rows : {1, 5, 129, 300}) {
      const std::vector<Product> together = multiply(bestInstructionSet(), 2, precision, jobs, values.data(), rows, 256);
      for (size_t j = 0; j < jobs.size(); j++) {
        const std::vector<Product> alone = multiply(bestInstructionSet(), 1, precision, {jobs[j]}, values.data(), rows, 256);
        expectSameBits(together[j].output.data(), alone[0].output.data(), alone[0].output.size(), shapes[j].name);
      }
    }
}

// Values that quantised products meet and random numbers do not: the extremes of every type against the extremes of activations.
TEST(MatmulExtremes, NoSumOverflows) {
  for (const WeightType type : {WeightType::Q4_0, WeightType::Q4_1, WeightType::Q4_G64, WeightType::Q5_0, WeightType::Q5_1, WeightType::Q8_0, WeightType::Q2_K, WeightType::Q3_K,
                                WeightType::Q4_K, WeightType::Q5_K, WeightType::Q6_K})
    for (const int fill : {0x00, 0xff, 0x80, 0x7f}) {
      const uint32_t inputs = 512, outputs = 16;
      std::vector<uint8_t> rows(outputs * weightRowBytes(type, inputs), static_cast<uint8_t>(fill));
      const cases::HalvesOfBlock halves = cases::halvesOfBlock(type);
      for (size_t at = 0; at < rows.size(); at += weightBlockBytes(type))
        for (const int offset : {halves.first, halves.second}) {
          const uint16_t one = 0x3c00;
          if (offset >= 0) std::memcpy(&rows[at + static_cast<size_t>(offset)], &one, 2);
        }
      const cases::PackedMatrix matrix = cases::packMatrix(type, outputs, inputs, rows.data());
      std::vector<float> weights(inputs);
      unpackRow(matrix.weights, 0, weights.data());
      for (const float sign : {1.0f, -1.0f}) {
        const std::vector<float> values(inputs, sign * 127);  // exact in 8 bits
        double sum = 0;
        for (size_t k = 0; k < inputs; k++) sum += static_cast<double>(values[k]) * weights[k];
        for (const InstructionSet set : kSets) {
          if (!machineHas(set)) continue;
          const std::vector<Product> product = multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, values.data(), 1, inputs);
          EXPECT_NEAR(product[0].output[0], sum, 1e-5 * std::fabs(sum) + 1e-3) << weightTypeName(type) << " filled with " << fill << ", " << instructionSetName(set);
        }
      }
    }
}

// A row whose values are all of one size but for one channel: rounded in one step, the others of that channel's group would be lost.
TEST(MatmulRefinement, KeepsSmallValuesBesideALargeOne) {
  const cases::PackedMatrix matrix = cases::randomMatrix({"", WeightType::Q4_1, 32, 576, false}, 3);
  std::vector<float> values(576, 0.0f), weights(576);
  for (size_t k = 0; k < values.size(); k++) values[k] = k % 2 == 0 ? 1.0f : -1.0f;
  values[64] = 500;  // a step of 500 / 127 would round its neighbours to 0
  for (const InstructionSet set : kSets) {
    if (!machineHas(set)) continue;
    const std::vector<float> product = multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, values.data(), 1, 576)[0].output;
    for (size_t output = 0; output < 32; output++) {
      unpackRow(matrix.weights, output, weights.data());
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < 576; k++) {
        sum += static_cast<double>(values[k]) * weights[k];
        if (k != 64) magnitude += std::fabs(weights[k]);
      }
      EXPECT_NEAR(product[output], sum, 0.003 * magnitude) << instructionSetName(set) << ", output " << output;
    }
  }
}

TEST(MatmulErrors, AreTyped) {
  const cases::PackedMatrix matrix = cases::randomMatrix({"", WeightType::Q4_0, 16, 64, false}, 1);
  ThreadPool pool(1);
  const Compute compute{kernelsFor(InstructionSet::Scalar), pool, Precision::Default};
  const std::vector<float> values(200);
  const cases::AlignedBytes block = cases::alignedBytes(1 << 20);
  Scratch scratch(block.get(), 1 << 20);
  std::vector<float> output(100);
  const MatmulJob job{&matrix.weights, nullptr, output.data(), 16};
  EXPECT_THROW(prepareInput(compute, values.data(), 1, 33, 33, true, scratch), Error);
  EXPECT_THROW(matmul(compute, &job, 1, prepareInput(compute, values.data(), 1, 96, 96, true, scratch), scratch), Error);
  EXPECT_THROW(matmul(compute, &job, 1, prepareInput(compute, values.data(), 1, 64, 64, false, scratch), scratch), Error);
  EXPECT_NO_THROW(matmul(compute, &job, 1, prepareInput(compute, values.data(), 0, 64, 64, true, scratch), scratch));
}

}  // namespace
}  // namespace spillway
