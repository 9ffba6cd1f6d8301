// Products of every type, precision and instruction set against double precision, and bit for bit against each other.
#include "../../kernels/cpu/Matmul.h"
#include "../../kernels/cpu/compressRows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "../../system/Error.h"
#include "../../system/ThreadPool.h"
#include "../tries.h"
#include "matmulCases.h"
#include "instructionSets.h"

namespace spillway {
namespace {

// Those that multiply with 8-bit activations.

struct Product {
  std::vector<float> output;  // [rows, outputs]
};

struct Job {
  const WeightMatrix* weights;
  const float* bias;
};

// All jobs over the first `rows` rows of `values`; outputs lie apart by 5 floats more than needed, which must stay
// untouched.
std::vector<Product> multiply(const Kernels& kernels, unsigned threads, Precision precision,
                              const std::vector<Job>& jobs, const float* values, size_t rows, size_t stride) {
  ThreadPool pool(threads);
  const Compute compute{kernels, pool, precision};
  const size_t columns = jobs[0].weights->inputs;
  QuantisedInput form = QuantisedInput::None;
  for (const Job& job : jobs)
    if (form == QuantisedInput::None) form = quantisedInput(compute, job.weights->type);

  std::vector<std::vector<float>> outputs;
  std::vector<MatmulJob> matmulJobs;
  for (const Job& job : jobs) outputs.emplace_back(rows * (job.weights->outputs + 5), 7777.0f);
  for (size_t j = 0; j < jobs.size(); j++)
    matmulJobs.push_back({jobs[j].weights, jobs[j].bias, outputs[j].data(), jobs[j].weights->outputs + 5});

  // Once with measure-only scratch, which says how much is needed, then with exactly as much.
  Scratch measure(nullptr, 0);
  const auto compile = [&](Scratch& scratch) {
    const MatrixInput input = prepareInput(compute, values, rows, columns, stride, form, scratch);
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

std::vector<Product> multiply(InstructionSet set, unsigned threads, Precision precision, const std::vector<Job>& jobs,
                              const float* values, size_t rows, size_t stride) {
  return multiply(kernelsFor(set), threads, precision, jobs, values, rows, stride);
}

void expectSameBits(const float* a, const float* b, size_t count, const std::string& what) {
  if (count == 0 || std::memcmp(a, b, count * sizeof(float)) == 0) return;
  for (size_t i = 0; i < count; i++)
    ASSERT_EQ(bitsOfFloat(a[i]), bitsOfFloat(b[i])) << what << ", element " << i << ": " << a[i] << " and " << b[i];
}

float largestOf(const float* values, size_t count) {
  float largest = 0;
  for (size_t i = 0; i < count; i++) largest = std::max(largest, std::fabs(values[i]));
  return largest;
}

// Adds what 32 values are when rounded to 8 bits, in steps of `factor` times a power of two; `lost` gets the
// difference.
void addRounded(const float* values, float factor, double* rounded, float* lost) {
  const float largest = largestOf(values, 32);
  float power = largest == 0 ? 1.0f : 0x1p-120f;
  while (factor * power < largest * (1.0f / 127.0f)) power *= 2;
  for (size_t i = 0; i < 32; i++) {
    const float number = std::nearbyint(values[i] * (1.0f / factor / power));
    rounded[i] += static_cast<double>(factor) * power * number;
    lost[i] = std::fma(-number, factor * power, values[i]);
  }
}

// Rounding to 8 bits, as the product does it, in double precision: Σ over groups of scale * Σ value * weight, in two
// steps for a row's large groups. The largest of the others has the scale with which it is rounded best, and that is
// all scales but for powers of two.
std::vector<double> roundedTo8Bits(const float* values, size_t columns) {
  std::vector<double> rounded(columns);
  float over = 0, most = 0, mostOfOthers = 0;
  for (size_t k = 0; k < columns; k += 32) {
    over += largestOf(values + k, 32);
    most = std::max(most, largestOf(values + k, 32));
  }
  over *= 3.0f / static_cast<float>(columns / 32);
  for (size_t k = 0; k < columns; k += 32)
    if (largestOf(values + k, 32) <= over) mostOfOthers = std::max(mostOfOthers, largestOf(values + k, 32));
  float factor = (mostOfOthers > 0 ? mostOfOthers : most) * (1.0f / 127.0f);
  if (factor == 0) factor = 1;
  while (factor < 1) factor *= 2;
  while (factor >= 2) factor /= 2;
  for (size_t k = 0; k < columns; k += 32) {
    float lost[32], ignored[32];
    addRounded(values + k, factor, &rounded[k], lost);
    if (largestOf(values + k, 32) > over) addRounded(lost, factor, &rounded[k], ignored);
  }
  return rounded;
}

// Rounding to 8 bits with one scale a row: that with which the largest of the groups that are not beyond twice
// the mean is 127, unless the row's sum is too large for it. What is beyond has more digits, and the same step.
std::vector<double> roundedEvenly(const float* values, size_t columns) {
  float sum = 0, most = 0, mostOfOthers = 0;
  for (size_t k = 0; k < columns; k += 32) {
    sum += largestOf(values + k, 32);
    most = std::max(most, largestOf(values + k, 32));
  }
  for (size_t k = 0; k < columns; k += 32)
    if (largestOf(values + k, 32) <= sum * (2.0f / static_cast<float>(columns / 32)))
      mostOfOthers = std::max(mostOfOthers, largestOf(values + k, 32));
  const float scale = std::max((mostOfOthers > 0 ? mostOfOthers : most) * (1.0f / 127.0f), sum * (1.0f / kMostEvenSum));
  std::vector<double> rounded(columns);
  for (size_t k = 0; k < columns; k++)
    rounded[k] = scale == 0 ? 0 : static_cast<double>(scale) * std::nearbyint(values[k] * (1.0f / scale));
  return rounded;
}

// Rounding to integers of 16 bits, of which the largest is `most`.
std::vector<double> roundedToWords(const float* values, size_t count, float most) {
  const float largest = largestOf(values, count), inverse = largest == 0 ? 0 : most / largest;
  std::vector<double> rounded(count);
  for (size_t k = 0; k < count; k++)
    rounded[k] = static_cast<double>(largest * (1.0f / most)) * std::nearbyint(values[k] * inverse);
  return rounded;
}

// What a product multiplies with.
enum class Activations { Floats, Groups, Rows, Bfloat16, Words };
Activations activationsOf(InstructionSet set, WeightType type, Precision precision) {
  if (precision == Precision::Float32) return Activations::Floats;
  if (precision == Precision::Words && isFloatType(type)) return Activations::Words;
  if (set == InstructionSet::Amx) return type == WeightType::F32 ? Activations::Floats : Activations::Bfloat16;
  if (panelFormat(type).kind == ScaleKind::Row) return Activations::Rows;
  return isQuantised(type) ? Activations::Groups : Activations::Floats;
}

// Precisions that make a difference to a type.
std::vector<Precision> precisionsOf(WeightType type) {
  if (isFloatType(type)) return {Precision::Default, Precision::Words, Precision::Float32};
  return {Precision::Default, Precision::Float32};
}

// To the nearest bfloat16, ties to even.
float roundedToBfloat16(float value) {
  const uint32_t bits = bitsOfFloat(value);
  return floatFromBits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000);
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
    values = cases::randomFloats(kMostRows * stride, 13);
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
  std::vector<float> run(Precision precision, size_t firstRow, size_t rows, unsigned threads = 1,
                         InstructionSet set = GetParam().set) const {
    return multiply(set, threads, precision, {job()}, values.data() + firstRow * stride, rows, stride)[0].output;
  }

  // Enough for every number of rows that a register tile can end with, and for several tiles. Scalar loops take one row
  // like the other, and are slow. On AMX blocks of over 64 rows go another way, 32 at a time.
  size_t mostRows() const {
    return heavy                                      ? 9
           : GetParam().set == InstructionSet::Scalar ? 10
           : GetParam().set == InstructionSet::Amx    ? kMostRows
                                                      : 70;
  }

  // By day every number that a register tile takes, and of larger ones every seventh: ends of all kinds are among them.
  static size_t stepAfter(size_t rows) { return tries<size_t>(rows < 17 ? 1 : 7, 1); }

  std::vector<std::vector<float>> unpacked() const {
    std::vector<std::vector<float>> weights(shape().outputs, std::vector<float>(shape().inputs));
    for (size_t output = 0; output < shape().outputs; output++)
      unpackRow(matrix.weights, output, weights[output].data());
    return weights;
  }
  // The weights that products on AMX multiply with: products with unit vectors.
  std::vector<std::vector<float>> roundedWeights() const {
    const size_t inputs = shape().inputs, outputs = shape().outputs;
    std::vector<float> units(inputs * inputs);
    for (size_t k = 0; k < inputs; k++) units[k * inputs + k] = 1;
    const std::vector<float> product = multiply(InstructionSet::Amx, 2, Precision::Default,
                                                {{&matrix.weights, nullptr}}, units.data(), inputs, inputs)[0]
                                           .output;
    std::vector<std::vector<float>> weights(outputs, std::vector<float>(inputs));
    for (size_t output = 0; output < outputs; output++)
      for (size_t k = 0; k < inputs; k++) weights[output][k] = product[k * outputs + output];
    return weights;
  }
  static constexpr size_t kMostRows = 130;

  bool heavy = false;
  cases::PackedMatrix matrix;
  std::vector<float> bias, values;
  size_t stride = 0;
};

TEST_P(Matmul, AgreesWithDoublePrecision) {
  const size_t rows = mostRows(), inputs = shape().inputs;
  for (const Precision precision : precisionsOf(shape().type)) {
    const Activations activations = activationsOf(GetParam().set, shape().type, precision);
    const bool quantised = activations == Activations::Groups || activations == Activations::Rows;
    const std::vector<std::vector<float>> stored = activations == Activations::Bfloat16 ? roundedWeights() : unpacked();
    std::vector<std::vector<double>> weights;
    for (const std::vector<float>& each : stored)
      weights.push_back(activations == Activations::Words ? roundedToWords(each.data(), inputs, 2047)
                                                          : std::vector<double>(each.begin(), each.end()));
    const std::vector<float> product = run(precision, 0, rows, 2);
    for (size_t row = 0; row < rows; row += stepAfter(row)) {
      const float* x = values.data() + row * stride;
      std::vector<double> rounded(x, x + inputs);
      if (activations == Activations::Groups) rounded = roundedTo8Bits(x, inputs);
      if (activations == Activations::Rows) rounded = roundedEvenly(x, inputs);
      if (activations == Activations::Words) rounded = roundedToWords(x, inputs, 8191);
      if (activations == Activations::Bfloat16)
        for (double& value : rounded) value = roundedToBfloat16(static_cast<float>(value));
      for (size_t output = 0; output < shape().outputs; output++) {
        double sum = shape().bias ? bias[output] : 0, magnitude = std::fabs(sum);
        const double *activation = rounded.data(), *weight = weights[output].data();
        for (size_t k = 0; k < inputs; k++) {
          const double term = activation[k] * weight[k];
          sum += term;
          magnitude += std::fabs(term);
        }
        // A rounding error of half an ulp for each of the fused operations in a row, of which a group of 8-bit products
        // has at most four, twice; those with offsets round two terms that may cancel, hence the factor.
        const double operations = quantised ? static_cast<double>(inputs) / 32 * 8 + 2 : static_cast<double>(inputs);
        const double bound = 0x1p-24 * (operations + 2) * magnitude * (quantised ? 4 : 1) + 1e-30;
        ASSERT_NEAR(product[row * shape().outputs + output], sum, bound)
            << "row " << row << ", output " << output << (quantised ? ", 8 bits" : ", float");
      }
    }
  }
}

TEST_P(Matmul, ARowAloneAndInCompanyHasTheSameBits) {
  const size_t most = mostRows(), width = shape().outputs;
  for (const Precision precision : precisionsOf(shape().type)) {
    const std::vector<float> all = run(precision, 0, most);
    for (size_t row = 0; row < most; row++) {
      const std::vector<float> alone = run(precision, row, 1);
      expectSameBits(alone.data(), all.data() + row * width, width, "row " + std::to_string(row) + " alone");
    }
    for (size_t rows = 1; rows <= most; rows += stepAfter(rows)) {
      const std::vector<float> some = run(precision, 0, rows);
      expectSameBits(some.data(), all.data(), rows * width, std::to_string(rows) + " rows");
    }
  }
}

TEST_P(Matmul, ThreadsDoNotChangeBits) {
  const size_t rows = mostRows() - 3;
  for (const Precision precision : precisionsOf(shape().type)) {
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
  for (const Precision precision : precisionsOf(shape().type)) {
    const std::vector<float> wide = run(precision, 0, rows);
    const std::vector<float> scalar = run(precision, 0, rows, 1, InstructionSet::Scalar);
    expectSameBits(wide.data(), scalar.data(), scalar.size(), "scalar");
  }
}

// Which of the two is taken is the processor's affair.
TEST_P(MatmulWide, UnpackedOnceAndForEachTileHasTheSameBits) {
  Kernels other = kernelsFor(GetParam().set);
  other.matmul.mostRowsInPlace = other.matmul.mostRowsInPlace == 0 ? kMatmulBlockRows : 0;
  for (const size_t rows : {size_t{5}, heavy ? size_t{6} : size_t{19}}) {
    const std::vector<float> usual = run(Precision::Default, 0, rows);
    const std::vector<Product> otherwise = multiply(other, 2, Precision::Default, {job()}, values.data(), rows, stride);
    expectSameBits(otherwise[0].output.data(), usual.data(), usual.size(), std::to_string(rows) + " rows");
  }
}

class MatmulAmx : public Matmul {};

// 0.7 of a unit in the last place for quantised types, half of one for halves, nothing for bfloat16 and floats.
TEST_P(MatmulAmx, RoundsWeightsToBfloat16) {
  const std::vector<std::vector<float>> exact = unpacked(), rounded = roundedWeights();
  const double most = isQuantised(shape().type) ? 0.7 : shape().type == WeightType::F16 ? 0.5 : 0;
  double sum = 0, magnitude = 0;
  for (size_t output = 0; output < exact.size(); output++) {
    // Scales times the factor before the cut are rounded to float32, and offsets of four bits' numbers to 2^-13 of a
    // scale, of which the largest of a group is 7.5 at least; where scale and offset cancel that is seen.
    const PanelFormat format = panelFormat(shape().type);
    const double lost = (format.bits == 4 && format.offset ? 0x1p-13 / 7.5 : most * 0x1p-19) *
                        largestOf(exact[output].data(), shape().inputs);
    for (size_t k = 0; k < shape().inputs; k++) {
      const float weight = exact[output][k], found = rounded[output][k];
      ASSERT_EQ(shape().type == WeightType::F32 ? 0u : bitsOfFloat(found) & 0xffff, 0u)
          << "output " << output << ", input " << k << ": " << found;
      int exponent;
      std::frexp(weight, &exponent);
      ASSERT_NEAR(found, weight, most * std::ldexp(1.0, exponent - 8) + lost) << "output " << output << ", input " << k;
      sum += std::fabs(found) - std::fabs(weight);
      magnitude += std::fabs(weight);
    }
  }
  EXPECT_NEAR(sum, 0, 5e-4 * magnitude) << "weights grew or shrank on average";
}

TEST_P(Matmul, NotFiniteActivationsTurnIntoNotFiniteOutputsOfTheirRowAlone) {
  const size_t rows = heavy ? 3 : 6, width = shape().outputs;
  const std::vector<float> before = run(Precision::Default, 0, rows);
  const float saved = values[stride];
  for (const float poison : {NAN, INFINITY, -INFINITY}) {
    values[stride] = poison;
    for (const Precision precision : precisionsOf(shape().type)) {
      const std::vector<float> after = run(precision, 0, rows);
      for (size_t output = 0; output < width; output++) {
        const float value = after[width + output];
        const Activations activations = activationsOf(GetParam().set, shape().type, precision);
        const bool mustBeNan =
            (activations != Activations::Floats && activations != Activations::Bfloat16) || std::isnan(poison);
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

// Sums of integers of 32 bits: from rows whose values all add up, over magnitudes that need a second and a third digit,
// to sums that only a larger scale keeps below 2^31.
TEST(EvenProducts, DoNotOverflow) {
  const uint32_t inputs = 32768, outputs = 16;
  std::vector<uint8_t> rows(outputs * weightRowBytes(WeightType::Q8_R, inputs));
  const std::vector<float> ones(inputs, 1.0f);
  for (uint32_t output = 0; output < outputs; output++)
    compressRow(WeightType::Q8_R, ones.data(), inputs, rows.data() + output * weightRowBytes(WeightType::Q8_R, inputs));
  const cases::PackedMatrix matrix = cases::packMatrix(WeightType::Q8_R, outputs, inputs, rows.data());
  for (const InstructionSet set : kInstructionSets) {
    if (!machineHas(set) || set == InstructionSet::Amx) continue;
    for (const float outlier : {1.0f, 1e2f, 1e4f, 1e6f, 1e9f, -1e9f}) {
      std::vector<float> values(inputs, 1.0f);
      for (size_t k = 0; k < 32; k++) values[320 + k] = outlier;
      const double sum = static_cast<double>(inputs) - 32 + 32.0 * outlier;
      const float product =
          multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, values.data(), 1, inputs)[0].output[3];
      const double step = std::max(std::fabs(outlier), 1.0f) * static_cast<double>(inputs) / kMostEvenSum;
      EXPECT_NEAR(product, sum, 2e-3 * std::fabs(sum) + (std::fabs(outlier) > 1e4f ? step : 0))
          << instructionSetName(set) << ", " << outlier;
    }
  }
}

// Higher digits: of one row and of several of a tile, of the first and last groups of blocks, of two places. Each row's
// bits are those of the same row alone, whatever digits the others have, and of every instruction set.
TEST(EvenProducts, HigherDigitsOfAnyRowsAndGroups) {
  const uint32_t inputs = 3072, outputs = 11 * kPanelOutputs;  // blocks of 32 groups of six panels, three and two
  const size_t rows = 11;
  const cases::PackedMatrix matrix = cases::randomMatrix({"Q8_R", WeightType::Q8_R, outputs, inputs, false}, 4);
  std::vector<float> values = cases::randomFloats(rows * inputs, 5);
  const auto enlarge = [&](size_t row, size_t group, float times) {
    for (size_t i = 0; i < kGroupInputs; i += 3) values[row * inputs + group * kGroupInputs + i] *= times;
  };
  for (const size_t group : {0, 31, 32, 33, 63, 64, 95}) enlarge(1, group, 20.0f);
  for (const size_t row : {0, 2, 3}) enlarge(row, 40, 30.0f);
  enlarge(3, 41, 1e3f);
  enlarge(0, 41, 1e5f);
  for (size_t group = 0; group < 20; group++) enlarge(9, group, group % 2 == 0 ? 1e4f : 50.0f);
  std::vector<float> expected;
  for (const InstructionSet set : kInstructionSets) {
    if (!machineHas(set) || set == InstructionSet::Amx) continue;
    const auto product = [&](size_t first, size_t count) {
      return multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, &values[first * inputs], count,
                      inputs)[0]
          .output;
    };
    const std::vector<float> all = product(0, rows);
    for (size_t row = 0; row < rows; row++)
      expectSameBits(product(row, 1).data(), &all[row * outputs], outputs,
                     std::string(instructionSetName(set)) + ", row " + std::to_string(row) + " alone");
    if (expected.empty()) expected = all;
    expectSameBits(all.data(), expected.data(), all.size(), instructionSetName(set));
  }
  // And they are the sums that they stand for.
  for (const size_t row : {0, 1, 3, 9}) {
    const std::vector<double> rounded = roundedEvenly(&values[row * inputs], inputs);
    for (uint32_t output = 0; output < outputs; output += 7) {
      std::vector<float> weights(inputs);
      unpackRow(matrix.weights, output, weights.data());
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < inputs; k++) {
        sum += rounded[k] * static_cast<double>(weights[k]);
        magnitude += std::fabs(rounded[k] * static_cast<double>(weights[k]));
      }
      EXPECT_NEAR(expected[row * outputs + output], sum, 1e-6 * magnitude) << "row " << row << ", output " << output;
    }
  }
}

// Panels are taken several at a time; those that are left at a matrix's end, fewer.
TEST(EvenProducts, AreTheSameHoweverManyPanelsAreLeft) {
  const uint32_t inputs = 256, most = 12 * kPanelOutputs;
  const size_t rows = 7;
  const cases::PackedMatrix matrix = cases::randomMatrix({"Q8_R", WeightType::Q8_R, most, inputs, false}, 4);
  const std::vector<float> values = cases::randomFloats(rows * inputs, 5);
  for (const InstructionSet set : kInstructionSets) {
    if (!machineHas(set)) continue;
    const auto products = [&](uint32_t outputs) {
      WeightMatrix first = matrix.weights;
      first.outputs = outputs;
      return multiply(set, 1, Precision::Default, {{&first, nullptr}}, values.data(), rows, inputs)[0].output;
    };
    const std::vector<float> all = products(most);
    for (uint32_t outputs = kPanelOutputs; outputs < most; outputs += kPanelOutputs) {
      const std::vector<float> some = products(outputs);
      for (size_t row = 0; row < rows; row++)
        expectSameBits(some.data() + row * outputs, all.data() + row * most, outputs,
                       std::string(instructionSetName(set)) + ", " + std::to_string(outputs) + " outputs");
    }
  }
}

// The largest integers of both, all of one sign: the sum of a span is as large as it gets.
TEST(WordProducts, DoNotOverflow) {
  const uint32_t inputs = 1300, outputs = 16;
  const std::vector<float> ones(size_t{outputs} * inputs, 1.0f);
  const cases::PackedMatrix matrix =
      cases::packMatrix(WeightType::F32, outputs, inputs, reinterpret_cast<const uint8_t*>(ones.data()));
  for (const InstructionSet set : kInstructionSets) {
    if (!machineHas(set)) continue;
    for (const float value : {3.0f, -3.0f}) {
      const std::vector<float> values(inputs, value);
      const float product =
          multiply(set, 1, Precision::Words, {{&matrix.weights, nullptr}}, values.data(), 1, inputs)[0].output[3];
      EXPECT_NEAR(product, value * inputs, 1e-2) << instructionSetName(set);
    }
  }
}

// A row that cannot be rounded shows in its outputs alone, and so does an output whose weights cannot.
TEST(WordProducts, WhatIsNotFiniteShows) {
  const uint32_t inputs = 96, outputs = 20;
  std::vector<float> weights = cases::randomFloats(size_t{outputs} * inputs, 3),
                     values = cases::randomFloats(size_t{9} * inputs, 4);
  weights[3 * inputs + 7] = INFINITY;
  values[4 * inputs + 9] = NAN;
  for (size_t k = 0; k < inputs; k++) values[5 * inputs + k] *= 1e-33f;
  const cases::PackedMatrix matrix =
      cases::packMatrix(WeightType::F32, outputs, inputs, reinterpret_cast<const uint8_t*>(weights.data()));
  for (const InstructionSet set : kInstructionSets) {
    if (!machineHas(set)) continue;
    const std::vector<float> product =
        multiply(set, 1, Precision::Words, {{&matrix.weights, nullptr}}, values.data(), 9, inputs)[0].output;
    for (size_t row = 0; row < 9; row++)
      for (size_t output = 0; output < outputs; output++)
        EXPECT_EQ(std::isnan(product[row * outputs + output]), row == 4 || output == 3)
            << instructionSetName(set) << ", row " << row << ", output " << output;
  }
}

std::vector<Setting> settings(const std::vector<InstructionSet>& sets) {
  std::vector<Setting> all;
  for (const cases::MatmulCase& shape : cases::kMatmulCases)
    for (const InstructionSet set : sets) all.push_back({shape, set});
  return all;
}

void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.shape.name << ", " << instructionSetName(setting.set);
}

std::string nameOf(const testing::TestParamInfo<Setting>& info) {
  std::string name = std::string(info.param.shape.name) + "_" + instructionSetName(info.param.set);
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Cases, Matmul, testing::ValuesIn(settings(allSets())), nameOf);
INSTANTIATE_TEST_SUITE_P(Cases, MatmulAmx, testing::ValuesIn(settings({InstructionSet::Amx})), nameOf);
INSTANTIATE_TEST_SUITE_P(Cases, MatmulWide, testing::ValuesIn(settings(vectorSets())), nameOf);

TEST(MatmulCases, HaveOneOfEveryType) {
  for (const WeightType type : kWeightTypes) {
    const auto hasType = [type](const cases::MatmulCase& each) { return each.type == type; };
    EXPECT_TRUE(std::any_of(std::begin(cases::kMatmulCases), std::end(cases::kMatmulCases), hasType))
        << weightTypeName(type);
  }
}

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
  for (size_t j = 0; j < std::size(shapes); j++)
    jobs.push_back({&matrices[j].weights, shapes[j].bias ? bias.data() : nullptr});
  const std::vector<float> values = cases::randomFloats(300 * 256, 7);
  for (const Precision precision : {Precision::Default, Precision::Words, Precision::Float32})
    for (const InstructionSet set : allSets())
      for (const size_t rows : {1, 5, 64, 129, 300}) {
        if (!machineHas(set)) continue;
        const std::vector<Product> together = multiply(set, 2, precision, jobs, values.data(), rows, 256);
        for (size_t j = 0; j < jobs.size(); j++) {
          const std::vector<Product> alone = multiply(set, 1, precision, {jobs[j]}, values.data(), rows, 256);
          expectSameBits(together[j].output.data(), alone[0].output.data(), alone[0].output.size(), shapes[j].name);
        }
      }
}

// Values that quantised products meet and random numbers do not: the extremes of every type against the extremes of
// activations.
TEST(MatmulExtremes, NoSumOverflows) {
  for (const WeightType type : kWeightTypes) {
    if (!isQuantised(type)) continue;
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
        for (const InstructionSet set : allSets()) {
          if (!machineHas(set)) continue;
          const double relative =
              set == InstructionSet::Amx ? 0.7 * 0x1p-7 : 1e-5;  // all weights may be rounded the same way
          const std::vector<Product> product =
              multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, values.data(), 1, inputs);
          EXPECT_NEAR(product[0].output[0], sum, relative * std::fabs(sum) + 1e-3)
              << weightTypeName(type) << " filled with " << fill << ", " << instructionSetName(set);
        }
      }
    }
  }
}

// A row whose values are all of one size but for one channel: rounded in one step, the others of that channel's group
// would be lost.
TEST(MatmulRefinement, KeepsSmallValuesBesideALargeOne) {
  const cases::PackedMatrix matrix = cases::randomMatrix({"", WeightType::Q4_1, 32, 576, false}, 3);
  std::vector<float> values(576, 0.0f), weights(576);
  for (size_t k = 0; k < values.size(); k++) values[k] = k % 2 == 0 ? 1.0f : -1.0f;
  values[64] = 500;  // a step of 500 / 127 would round its neighbours to 0
  for (const InstructionSet set : kSets) {
    if (!machineHas(set)) continue;
    const std::vector<float> product =
        multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, values.data(), 1, 576)[0].output;
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

// What 8 bits with a scale cannot hold shows in all outputs of its row, and in no other row.
TEST(MatmulRefinement, ARowThatCannotBeRoundedIsNaN) {
  const cases::PackedMatrix matrix = cases::randomMatrix({"", WeightType::Q4_0, 32, 96, false}, 4);
  const std::vector<float> usual = cases::randomFloats(size_t{6} * 96, 2);
  for (const InstructionSet set : kSets) {
    if (!machineHas(set)) continue;
    const auto product = [&](const std::vector<float>& values) {
      return multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, values.data(), 6, 96)[0].output;
    };
    const std::vector<float> expected = product(usual);
    for (const float odd : {NAN, -INFINITY, INFINITY, 2e33f})
      for (const size_t row : {size_t{1}, size_t{5}}) {
        std::vector<float> values = usual;
        values[row * 96 + 70] = odd;
        const std::vector<float> found = product(values);
        for (size_t i = 0; i < found.size(); i++) {
          if (i / 32 == row)
            EXPECT_TRUE(std::isnan(found[i])) << odd << ", " << instructionSetName(set);
          else
            EXPECT_EQ(bitsOfFloat(found[i]), bitsOfFloat(expected[i])) << odd << ", " << instructionSetName(set);
        }
      }
    // The largest that is held, and rows of zeros and of the smallest numbers.
    for (const float scale : {9e32f, 0.0f, 1e-31f}) {
      std::vector<float> values = usual;
      const float largest = largestOf(&values[96], 96);
      for (size_t i = 96; i < 192; i++) values[i] *= scale / largest;
      const std::vector<float> found = product(values);
      for (size_t i = 32; i < 64; i++) EXPECT_TRUE(std::isfinite(found[i])) << scale << ", " << instructionSetName(set);
    }
  }
}

// A group of a tile is refined for all four rows if one of them needs it, and infinity times nothing is NaN.
TEST(MatmulRefinement, AnInfiniteScaleIsNaNInAnyCompany) {
  constexpr uint32_t kOutputs = 32, kInputs = 512;
  // Where in a block, and in which block of a row, a half is made infinite: scales and offsets.
  struct Odd {
    WeightType type;
    size_t block, at;
  };
  for (const auto& [type, block, at] :
       {Odd{WeightType::Q8_0, 5, 0}, Odd{WeightType::Q4_0, 5, 0}, Odd{WeightType::Q4_1, 5, 0},
        Odd{WeightType::Q4_1, 5, 2}, Odd{WeightType::Q4_K, 1, 0}, Odd{WeightType::Q4_K, 1, 2},
        Odd{WeightType::Q6_K, 1, 208}}) {
    std::vector<uint8_t> rows = cases::randomFileRows(type, kOutputs, kInputs, 4);
    const size_t rowBytes = weightRowBytes(type, kInputs), blockBytes = weightBlockBytes(type);
    constexpr uint16_t kInfinity = 0x7c00;
    std::memcpy(&rows[3 * rowBytes + block * blockBytes + at], &kInfinity, sizeof kInfinity);
    const cases::PackedMatrix matrix = cases::packMatrix(type, kOutputs, kInputs, rows.data());
    std::vector<float> values = cases::randomFloats(size_t{4} * kInputs, 2);
    // The third row is large where the odd block is.
    for (size_t i = block * weightBlockElements(type); i < (block + 1) * weightBlockElements(type); i++)
      values[2 * kInputs + i] *= 20;
    for (const InstructionSet set : kSets) {
      if (!machineHas(set)) continue;
      const auto product = [&](const float* from, size_t count) {
        return multiply(set, 1, Precision::Default, {{&matrix.weights, nullptr}}, from, count, kInputs)[0].output;
      };
      const std::vector<float> together = product(values.data(), 4);
      for (size_t row = 0; row < 4; row++) {
        const std::vector<float> alone = product(&values[row * kInputs], 1);
        EXPECT_TRUE(std::isnan(alone[3])) << weightTypeName(type) << ", " << instructionSetName(set);
        for (size_t i = 0; i < kOutputs; i++)
          EXPECT_EQ(bitsOfFloat(alone[i]), bitsOfFloat(together[row * kOutputs + i]))
              << weightTypeName(type) << ", " << instructionSetName(set) << ", row " << row << ", output " << i;
      }
    }
  }
}

// Of both factors, and exactly: the model has no use for them, and the processor's products have none for anything
// else.
TEST(MatmulDenormals, AreZerosToAmx) {
  if (!machineHas(InstructionSet::Amx)) GTEST_SKIP() << "this machine has no amx";
  const auto product = [](float weight, float value) {
    const uint16_t bits = static_cast<uint16_t>(bitsOfFloat(weight) >> 16);
    const cases::PackedMatrix matrix =
        cases::packMatrix(WeightType::BF16, 1, 1, reinterpret_cast<const uint8_t*>(&bits));
    return multiply(InstructionSet::Amx, 1, Precision::Default, {{&matrix.weights, nullptr}}, &value, 1, 1)[0]
        .output[0];
  };
  const float denormal = 0x1p-127f, normal = 0x1p-126f;
  EXPECT_EQ(product(denormal, 0x1p60f), 0.0f);
  EXPECT_EQ(product(0x1p60f, denormal), 0.0f);
  EXPECT_EQ(product(normal, 0x1p60f), 0x1p-66f);
  EXPECT_EQ(product(0x1p60f, normal), 0x1p-66f);
}

// One and two rows are multiplied without tiles. Numbers of every exponent, denormals and zeros among them, so that
// products and sums underflow, cancel and are rounded in every way; a NaN may be any.
TEST(MatmulFewRows, HaveTheBitsOfTilesWhateverTheNumbers) {
  if (!machineHas(InstructionSet::Amx)) GTEST_SKIP() << "this machine has no amx";
  const uint32_t outputs = 40, inputs = 331;
  std::mt19937 random(17);
  // A sign, an exponent within `spread` of `middle`, a mantissa that often is short.
  const auto drawn = [&](int middle, int spread) {
    const int exponent = std::min(
        254, std::max(0, middle + static_cast<int>(random() % (2 * static_cast<unsigned>(spread) + 1)) - spread));
    const uint32_t mantissa = (random() & 0x7f) >> (random() % 8) << 16;
    return (random() & 1) << 31 | static_cast<uint32_t>(exponent) << 23 | mantissa;
  };
  size_t denormals = 0;
  for (const int sum : {254, 127, 110, 250,
                        300})  // of the exponents of a product, the bias counted twice: around 127 products underflow
    for (const int spread : {1, 12, 60}) {
      std::vector<uint16_t> file(size_t{outputs} * inputs);
      std::vector<float> values(size_t{19} * inputs);
      for (uint16_t& bits : file) bits = static_cast<uint16_t>(drawn(sum / 2, spread) >> 16);
      for (float& value : values) {
        value = floatFromBits(drawn(sum - sum / 2, spread));
        denormals += value != 0 && std::fabs(value) < 0x1p-126f;
      }
      const cases::PackedMatrix matrix =
          cases::packMatrix(WeightType::BF16, outputs, inputs, reinterpret_cast<const uint8_t*>(file.data()));
      const auto run = [&](size_t first, size_t rows) {
        return multiply(InstructionSet::Amx, 1, Precision::Default, {{&matrix.weights, nullptr}},
                        &values[first * inputs], rows, inputs)[0]
            .output;
      };
      const std::vector<float> all = run(0, 19);
      for (const size_t rows : {1, 2})
        for (size_t first = 0; first + rows <= 19; first++) {
          const std::vector<float> few = run(first, rows);
          for (size_t i = 0; i < few.size(); i++) {
            const float found = few[i], expected = all[first * outputs + i];
            if (std::isnan(expected))
              ASSERT_TRUE(std::isnan(found)) << "sum " << sum << ", spread " << spread;
            else
              ASSERT_EQ(bitsOfFloat(found), bitsOfFloat(expected))
                  << found << " and " << expected << ", sum " << sum << ", spread " << spread;
          }
        }
    }
  EXPECT_GT(denormals, 0u);
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
  EXPECT_THROW(prepareInput(compute, values.data(), 1, 33, 33, QuantisedInput::Groups, scratch), Error);
  EXPECT_THROW(matmul(compute, &job, 1,
                      prepareInput(compute, values.data(), 1, 96, 96, QuantisedInput::Groups, scratch), scratch),
               Error);
  EXPECT_THROW(
      matmul(compute, &job, 1, prepareInput(compute, values.data(), 1, 64, 64, QuantisedInput::None, scratch), scratch),
      Error);
  EXPECT_NO_THROW(matmul(compute, &job, 1,
                         prepareInput(compute, values.data(), 0, 64, 64, QuantisedInput::Groups, scratch), scratch));
}

}  // namespace
}  // namespace spillway
