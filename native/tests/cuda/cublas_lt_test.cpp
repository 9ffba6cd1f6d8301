// Opening cuBLASLt, choosing among its algorithms, and what is done with one that fails. Its products are with all
// others, in matmul_test.cpp.
#include "cublasLtFixture.h"

#include "../kernels/matmulCases.h"
#if defined(__CUDACC__) && __has_include(<cublasLt.h>)
#include <cublasLt.h>
#endif

namespace spillway::cuda {
namespace {

#if defined(__CUDACC__) && __has_include(<cublasLt.h>)
// What CublasLt.h says is what the library's own header says.
static_assert(cublaslt::kSuccess == CUBLAS_STATUS_SUCCESS && cublaslt::kFloat == CUDA_R_32F &&
                  cublaslt::kHalf == CUDA_R_16F,
              "");
static_assert(cublaslt::kComputeInFloat == CUBLAS_COMPUTE_32F && cublaslt::kTransposed == CUBLAS_OP_T, "");
static_assert(int{cublaslt::kTransposeA} == CUBLASLT_MATMUL_DESC_TRANSA, "");
static_assert(int{cublaslt::kMostWorkspaceBytes} == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
                  int{cublaslt::kReductionSchemes} == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
                  int{cublaslt::kAlignmentOfB} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
              "");
static_assert(int{cublaslt::kSplitsOfInputs} == CUBLASLT_ALGO_CONFIG_SPLITK_NUM &&
                  int{cublaslt::kReductionScheme} == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
              "");
static_assert(CUBLASLT_REDUCTION_SCHEME_NONE == 0, "");
static_assert(sizeof(cublaslt::Algorithm) == sizeof(cublasLtMatmulAlgo_t) &&
                  sizeof(cublaslt::Candidate) == sizeof(cublasLtMatmulHeuristicResult_t),
              "");
static_assert(offsetof(cublaslt::Candidate, workspaceBytes) ==
                      offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
                  offsetof(cublaslt::Candidate, state) == offsetof(cublasLtMatmulHeuristicResult_t, state),
              "");
static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cublasComputeType_t) == sizeof(int) &&
                  sizeof(cudaDataType_t) == sizeof(int),
              "");
#endif

#if !defined(__CUDACC__)
std::string reason() {
  std::string whyNot;
  EXPECT_EQ(CublasLtProducts::open(whyNot), nullptr);
  EXPECT_EQ(whyNot.find('\n'), std::string::npos);
  return whyNot;
}

bool finds(CublasLtProducts& products, uint32_t outputs = 20, uint32_t inputs = 64) {
  const DeviceArray<uint8_t> memory(CublasLtProducts::tryBytes(outputs, inputs));
  return products.prepare(testStream(), outputs, inputs, memory.get());
}
std::unique_ptr<CublasLtProducts> opened() {
  std::string whyNot;
  std::unique_ptr<CublasLtProducts> products = CublasLtProducts::open(whyNot);
  EXPECT_NE(products, nullptr) << whyNot;
  EXPECT_EQ(whyNot, "");
  return products;
}

TEST(CublasLtFile, IsUsedOnlyIfAllOfItIsThereAndTheReasonIsSaid) {
  EXPECT_NE(reason().find("SPILLWAY_EMULATED_CUBLASLT"), std::string::npos);
  setenv("SPILLWAY_EMULATED_CUBLASLT", "/nowhere/libcublasLt.so.12", 1);
  EXPECT_NE(reason().find("/nowhere/libcublasLt.so.12"), std::string::npos);
  setenv("SPILLWAY_EMULATED_CUBLASLT", "libm.so.6", 1);
  EXPECT_EQ(reason(), "libm.so.6: found no function cublasLtGetVersion");
  const fake::Library library;
  for (const size_t version : {11601, 12103, 111103, 120805, 130401}) {  // of CUDA 11 in either way of counting
    library->version = version;
    opened();
  }
  for (const size_t version : {10200, 140000, 0}) {
    library->version = version;
    EXPECT_NE(reason().find("found version " + std::to_string(version) + ", expected 11 to 13"), std::string::npos)
        << version;
  }
  library->version = 130401;
  library->createStatus = 1;
  EXPECT_NE(reason().find("cublasLtCreate gives status 1"), std::string::npos);
  EXPECT_EQ(library->libraries, 0u);
  EXPECT_EQ(library->objects, 0u);
}

TEST(CublasLtAlgorithms, OnlyOneThatSumsInOneSequenceIsUsed) {
  const fake::Library library;
  {
    const auto products = opened();
    EXPECT_FALSE(products->serves(20, 64));
    EXPECT_TRUE(finds(*products));
    EXPECT_TRUE(products->serves(20, 64));
    EXPECT_EQ(library->used, fake::kOneSequence);
    const size_t tried = library->products;
    EXPECT_TRUE(finds(*products));
    EXPECT_EQ(library->products, tried) << "chosen once";
  }
  for (int algorithm = 0; algorithm < fake::kOneSequence; algorithm++) {
    library->first = algorithm;
    library->end = algorithm + 1;
    const auto products = opened();
    EXPECT_FALSE(finds(*products)) << algorithm;
    EXPECT_FALSE(products->serves(20, 64)) << algorithm;
  }
  EXPECT_EQ(library->libraries, 0u);
  EXPECT_EQ(library->objects, 0u);
}

TEST(CublasLtAlgorithms, WhatFailsWhenItIsTriedIsNotUsedAndWhatFailsLaterIsAnError) {
  const fake::Library library;
  library->findStatus = 15;
  EXPECT_FALSE(finds(*opened()));
  library->findStatus = 0;
  library->multiplyStatus = 13;
  EXPECT_FALSE(finds(*opened()));
  library->multiplyStatus = 0;
  const auto products = opened();
  ASSERT_TRUE(finds(*products, 16, 32));
  library->multiplyStatus = 13;
  const DeviceArray<uint8_t> panels(std::vector<uint8_t>(16 * 32 * 4)),
      workspace(CublasLtProducts::workspaceBytes(16, 32, 1));
  const DeviceArray<uint16_t> halves(16 * 32);
  const DeviceArray<float> factors(1), out(16);
  const RowRun one = {0, 1};
  try {
    products->multiply(testStream(), 16, {WeightType::F32, 16, 32, panels.get()}, {halves.get(), factors.get(), 1, 32},
                       &one, 1, {nullptr, out.get(), 16}, workspace.get());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Internal);
    EXPECT_STREQ(error.what(), "cuBLASLt: cublasLtMatmul: status 13");
  }
  check(cudaStreamSynchronize(testStream()), "synchronize");
}
#endif

// More rows and more outputs than are taken at a time, a part of a matrix, and rows in between that are left alone: the
// same bits.
TEST(CublasLtRuns, AreWhatTheRowsAndOutputsAreByThemselves) {
#if !defined(__CUDACC__)
  const fake::Library library;
#endif
  std::string whyNot;
  const std::unique_ptr<CublasLtProducts> products = CublasLtProducts::open(whyNot);
  if (products == nullptr) GTEST_SKIP() << whyNot;
  struct Size {
    uint32_t outputs, inputs;
    size_t rows;
  };
  for (const Size& size : {Size{16, 32, 1030}, Size{8210, 32, 3}}) {
    const cases::PackedMatrix matrix = cases::randomMatrix({"", WeightType::Q4_1, size.outputs, size.inputs, true}, 41);
    const std::vector<float> bias = cases::randomFloats(size.outputs, 42),
                             values = cases::randomFloats(size.rows * size.inputs, 43);
    const MatrixOnDevice device(matrix.weights);
    const DeviceArray<float> x(values), b(bias);
    const auto run = [&](const std::vector<RowRun>& runs, uint32_t first, uint32_t count) {
      const DeviceArray<float> out(std::vector<float>(size.rows * size.outputs, 7777.0f));
      const size_t panelBytes = packedBytes(WeightType::Q4_1, 16, size.inputs);
      const DeviceMatrix part = {WeightType::Q4_1, count, size.inputs, device.matrix.panels + first / 16 * panelBytes};
      multiplyByCublasLt(*products, size.outputs, part, x.get(), size.inputs, size.rows, runs,
                         {b.get() + first, out.get() + first, size.outputs});
      return out.values();
    };
    const std::vector<float> all = run({{0, size.rows}}, 0, size.outputs);
    for (size_t row = 0; row < size.rows; row++) {
      // Some outputs against the matrix that the processor unpacks, of all rows.
      std::vector<float> weights(size.inputs);
      const size_t output = row * 7919 % size.outputs;
      unpackRow(matrix.weights, output, weights.data());
      double sum = bias[output], magnitude = std::fabs(sum);
      for (size_t k = 0; k < size.inputs; k++) {
        sum += static_cast<double>(weights[k]) * values[row * size.inputs + k];
        magnitude += std::fabs(static_cast<double>(weights[k]) * values[row * size.inputs + k]);
      }
      ASSERT_NEAR(all[row * size.outputs + output], sum, std::ldexp(magnitude, -9))
          << "row " << row << ", output " << output;
    }
    const size_t last = size.rows - 1;
    const uint32_t from = size.outputs > 16 ? 4096 : 0, count = size.outputs - from;
    const std::vector<float> some = run({{0, 1}, {last, 1}}, from, count);
    for (size_t row = 0; row < size.rows; row++)
      for (uint32_t output = 0; output < size.outputs; output++) {
        const bool computed = (row == 0 || row == last) && output >= from;
        ASSERT_EQ(some[row * size.outputs + output], computed ? all[row * size.outputs + output] : 7777.0f)
            << "row " << row << ", output " << output;
      }
  }
}

}  // namespace
}  // namespace spillway::cuda
