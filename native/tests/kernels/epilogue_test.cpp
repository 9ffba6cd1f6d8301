// Products with an epilogue against the same steps one after another, bit for bit: sums, gated activations, rows
// rounded for the next product.
#include <gtest/gtest.h>

#include <cstring>

#include "../../kernels/cpu/Matmul.h"
#include "../../system/Error.h"
#include "../../system/ThreadPool.h"
#include "matmulCases.h"
#include "instructionSets.h"

namespace spillway {
namespace {

constexpr size_t kInputs = 608;  // 19 tiles: more than AMX takes at a time, and no multiple of what it takes

// Memory for what `compute` takes from scratch: asked first, then given exactly.
template <typename Body>
void withScratch(const Body& compute) {
  Scratch measure(nullptr, 0);
  compute(measure);
  const cases::AlignedBytes block = cases::alignedBytes(measure.peak());
  Scratch scratch(block.get(), measure.peak());
  compute(scratch);
}

struct Bench {
  Bench(InstructionSet set, WeightType type, uint32_t outputs, size_t rows)
      : pool(2),
        compute{kernelsFor(set), pool, Precision::Default},
        first(cases::randomMatrix({"first", type, outputs, kInputs, false}, 1)),
        second(cases::randomMatrix({"second", type, outputs, kInputs, false}, 2)),
        rows(rows),
        outputs(outputs),
        values(cases::randomFloats(rows * kInputs, 3)),
        bias(cases::randomFloats(outputs, 4)),
        form(quantisedInput(compute, type)) {}

  std::vector<float> run(MatmulJob job, std::vector<float> output) {
    withScratch([&](Scratch& scratch) {
      const MatrixInput input = prepareInput(compute, values.data(), rows, kInputs, kInputs, form, scratch);
      job.output = output.data();
      job.outputStride = outputs;
      matmul(compute, &job, 1, input, scratch);
    });
    return output;
  }
  std::vector<float> product(const cases::PackedMatrix& matrix, const float* plus) {
    return run({&matrix.weights, plus, nullptr, 0}, std::vector<float>(rows * outputs));
  }
  MatmulJob gated() {
    MatmulJob job{&first.weights,     nullptr,          nullptr,         0,
                  Epilogue::Activate, Activation::Silu, &second.weights, bias.data()};
    return job;
  }
  std::vector<float> activated() {
    std::vector<float> gate = product(first, nullptr);
    const std::vector<float> up = product(second, bias.data());
    for (size_t row = 0; row < rows; row++)
      compute.kernels.rows.activate(Activation::Silu, &gate[row * outputs], &up[row * outputs], outputs);
    return gate;
  }

  ThreadPool pool;
  Compute compute;
  cases::PackedMatrix first, second;
  size_t rows, outputs;
  std::vector<float> values, bias;
  QuantisedInput form;
};

bool sameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <typename Body>
void forCases(const Body& body) {
  for (const InstructionSet set : allSets()) {
    if (!machineHas(set)) continue;  // matmul_test.cpp reports the sets that are missing
    for (const WeightType type : {WeightType::Q4_1, WeightType::Q8_0, WeightType::F16, WeightType::F32})
      for (const size_t rows : {1, 5, 64, 65, 150}) {
        // Scalar loops take one row like the other, and are slow.
        if (set == InstructionSet::Scalar && rows != 5 && rows != 65) continue;
        SCOPED_TRACE(std::string(instructionSetName(set)) + " " + weightTypeName(type) + ", " + std::to_string(rows) +
                     " rows");
        body(set, type, rows);
      }
  }
}

TEST(Epilogue, AddsToWhatIsThere) {
  forCases([](InstructionSet set, WeightType type, size_t rows) {
    Bench bench(set, type, 200, rows);
    const std::vector<float> before = cases::randomFloats(rows * bench.outputs, 5),
                             product = bench.product(bench.first, bench.bias.data());
    std::vector<float> expected = before;
    for (size_t i = 0; i < expected.size(); i++) expected[i] = before[i] + product[i];
    EXPECT_TRUE(
        sameBits(bench.run({&bench.first.weights, bench.bias.data(), nullptr, 0, Epilogue::Add}, before), expected));
  });
}

TEST(Epilogue, ActivatesGatedProducts) {
  forCases([](InstructionSet set, WeightType type, size_t rows) {
    Bench bench(set, type, 200, rows);
    EXPECT_TRUE(sameBits(bench.run(bench.gated(), std::vector<float>(rows * bench.outputs)), bench.activated()));
    MatmulJob plain = bench.gated();
    plain.factor = nullptr;
    plain.activation = Activation::Relu;
    std::vector<float> expected = bench.product(bench.first, nullptr);
    for (size_t row = 0; row < rows; row++)
      bench.compute.kernels.rows.activate(Activation::Relu, &expected[row * bench.outputs], nullptr, bench.outputs);
    EXPECT_TRUE(sameBits(bench.run(plain, std::vector<float>(rows * bench.outputs)), expected));
  });
}

// 1000 outputs are several items; the last tile of 32 is not full.
TEST(Epilogue, RoundsForTheNextProduct) {
  if (!machineHas(InstructionSet::Amx))
    GTEST_SKIP() << "this machine has no AMX: other instruction sets round whole rows";
  for (const auto& [type, rows] : std::initializer_list<std::pair<WeightType, size_t>>{{WeightType::Q4_1, 1},
                                                                                       {WeightType::Q4_1, 16},
                                                                                       {WeightType::Q4_1, 70},
                                                                                       {WeightType::Q4_1, 150},
                                                                                       {WeightType::F32, 150},
                                                                                       {WeightType::F32, 300}}) {
    Bench bench(InstructionSet::Amx, type, 1000, rows);
    const std::vector<float> activated = bench.activated();
    withScratch([&](Scratch& scratch) {
      const MatrixInput expected = prepareInput(bench.compute, activated.data(), rows, bench.outputs, bench.outputs,
                                                QuantisedInput::Bfloat16, scratch);
      const MatrixInput quantised = allocateQuantised(QuantisedInput::Bfloat16, rows, bench.outputs, scratch);
      const MatrixInput input =
          prepareInput(bench.compute, bench.values.data(), rows, kInputs, kInputs, bench.form, scratch);
      MatmulJob job = bench.gated();
      job.quantised = const_cast<uint8_t*>(quantised.quantised);
      matmul(bench.compute, &job, 1, input, scratch);
      if (expected.quantised == nullptr) return;  // scratch only counts
      EXPECT_EQ(std::memcmp(expected.quantised, quantised.quantised,
                            quantisedBytes(QuantisedInput::Bfloat16, rows, bench.outputs)),
                0)
          << rows << " rows";
    });
  }
}

TEST(Epilogue, RowsAreRoundedAsTheyAreMade) {
  if (!machineHas(InstructionSet::Amx))
    GTEST_SKIP() << "this machine has no AMX: other instruction sets round whole rows";
  Bench bench(InstructionSet::Amx, WeightType::Q4_1, 16, 83);
  const RowMaker maker{[](const void* context, size_t row, float* to) {
                         std::memcpy(to, static_cast<const float*>(context) + row * kInputs, kInputs * sizeof(float));
                       },
                       bench.values.data()};
  withScratch([&](Scratch& scratch) {
    const MatrixInput expected = prepareInput(bench.compute, bench.values.data(), bench.rows, kInputs, kInputs,
                                              QuantisedInput::Bfloat16, scratch);
    const MatrixInput made =
        prepareQuantised(bench.compute, maker, bench.rows, kInputs, QuantisedInput::Bfloat16, scratch);
    EXPECT_EQ(made.values, nullptr);
    if (expected.quantised == nullptr) return;
    EXPECT_EQ(
        std::memcmp(expected.quantised, made.quantised, quantisedBytes(QuantisedInput::Bfloat16, bench.rows, kInputs)),
        0);
  });
}

TEST(Epilogue, RefusesAFactorUnlikeTheMatrix) {
  Bench bench(InstructionSet::Scalar, WeightType::Q4_1, 48, 2);
  const cases::PackedMatrix smaller = cases::randomMatrix({"smaller", WeightType::Q4_1, 32, kInputs, false}, 1);
  const cases::PackedMatrix exact = cases::randomMatrix({"exact", WeightType::F32, 48, kInputs, false}, 1);
  for (const cases::PackedMatrix* factor : {&smaller, &exact}) {
    MatmulJob job = bench.gated();
    job.factor = &factor->weights;
    EXPECT_THROW(bench.run(job, std::vector<float>(2 * 48)), Error);
  }
}

}  // namespace
}  // namespace spillway
