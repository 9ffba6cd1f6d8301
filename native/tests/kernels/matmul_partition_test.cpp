#include "../../kernels/cpu/matmulPartition.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "../../system/ThreadPool.h"
#include "instructionSets.h"

namespace spillway {
namespace {

struct Drawn {
  std::vector<WeightMatrix> weights;
  std::vector<MatmulJob> jobs;
};

// Up to three jobs of one input, now and then of different types, gated, or with an epilogue.
Drawn drawJobs(std::mt19937& random) {
  constexpr WeightType kTypes[] = {WeightType::Q4_0, WeightType::Q4_1, WeightType::Q8_0,
                                   WeightType::Q6_K, WeightType::F16,  WeightType::F32};
  constexpr uint32_t kOutputs[] = {1, 15, 16, 48, 106, 576, 1536, 11008};
  Drawn drawn;
  const size_t count = 1 + random() % 3;
  for (size_t j = 0; j < count; j++)
    drawn.weights.push_back(
        {kTypes[random() % std::size(kTypes)], kOutputs[random() % std::size(kOutputs)], 512, nullptr});
  for (const WeightMatrix& each : drawn.weights) {
    MatmulJob job{&each, nullptr, nullptr, each.outputs};
    if (random() % 2 == 0) job.epilogue = random() % 2 == 0 ? Epilogue::Add : Epilogue::Activate;
    if (job.epilogue == Epilogue::Activate) job.factor = &each;
    drawn.jobs.push_back(job);
  }
  return drawn;
}

class MatmulPartitions : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (!machineHas(GetParam())) GTEST_SKIP() << "this machine has no " << instructionSetName(GetParam());
  }
};

TEST_P(MatmulPartitions, EveryOutputOfEveryRowIsInOneItem) {
  std::mt19937 random(1);
  for (int drawing = 0; drawing < 300; drawing++) {
    const Drawn drawn = drawJobs(random);
    ThreadPool pool(1 + random() % 9);
    const Compute compute{kernelsFor(GetParam()), pool, Precision::Default};
    const size_t rows = 1 + random() % 700;
    const MatmulPartition partition(compute, drawn.jobs.data(), drawn.jobs.size(), rows);
    std::vector<std::vector<uint8_t>> seen;
    for (const WeightMatrix& each : drawn.weights) seen.emplace_back(rows * ceilDivide(each.outputs, kPanelOutputs));
    for (size_t i = 0; i < partition.items(); i++) {
      const Item item = partition.item(i);
      const size_t job = static_cast<size_t>(item.job - drawn.jobs.data()),
                   panels = ceilDivide(item.job->weights->outputs, kPanelOutputs);
      const MatmulPath path = pathOf(compute, item.job->weights->type);
      ASSERT_LE(item.rows, path.mostRows());
      ASSERT_EQ(item.firstRow % path.rowsTogether(), 0u);
      ASSERT_LE((matricesOf(*item.job) * item.rows * (item.panels | 1) * kPanelOutputs) * sizeof(float),
                hasAccumulators(*item.job, path) ? kAccumulatorBytes : SIZE_MAX);
      for (size_t row = item.firstRow; row < item.firstRow + item.rows; row++)
        for (size_t panel = item.firstPanel; panel < std::min(panels, item.firstPanel + item.panels); panel++)
          seen[job][row * panels + panel]++;
      if (i + 1 < partition.items()) {
        const Item next = partition.item(i + 1);
        const bool same =
            next.job == item.job && next.firstPanel == item.firstPanel && next.firstRow == item.firstRow + item.rows;
        // With one thread there is one part; beyond the end of a part another thread begins.
        if (item.samePanelsNext || pool.threads() == 1) {
          ASSERT_EQ(item.samePanelsNext, same);
        }
      }
    }
    for (const std::vector<uint8_t>& each : seen)
      for (const uint8_t times : each) ASSERT_EQ(times, 1);
  }
}

TEST_P(MatmulPartitions, NoJobsMakeNoItems) {
  ThreadPool pool(2);
  const Compute compute{kernelsFor(GetParam()), pool, Precision::Default};
  EXPECT_EQ(MatmulPartition(compute, nullptr, 0, 7).items(), 0u);
}

TEST_P(MatmulPartitions, ThreadsBeginWithRowsOfTheirOwn) {
  if (kernelsFor(GetParam()).matmul.quantised == QuantisedInput::Bfloat16)
    GTEST_SKIP() << "on AMX all threads take the same rows";
  const WeightMatrix weights{WeightType::Q4_0, 1536, 576, nullptr};
  const MatmulJob job{&weights, nullptr, nullptr, weights.outputs};
  {  // of many threads several take the same rows
    ThreadPool pool(32);
    const Compute compute{kernelsFor(GetParam()), pool, Precision::Default};
    const MatmulPartition partition(compute, &job, 1, 512);
    for (size_t i = 0; i < partition.items(); i++) EXPECT_EQ(partition.item(i).rows, 256u);
  }
  for (const unsigned threads : {2u, 3u, 8u}) {
    ThreadPool pool(threads);
    const Compute compute{kernelsFor(GetParam()), pool, Precision::Default};
    const MatmulPartition partition(compute, &job, 1, threads * 64);
    ASSERT_EQ(partition.items() % threads, 0u);
    for (size_t i = 0; i < partition.items(); i++)
      EXPECT_EQ(partition.item(i).firstRow / 64, i / (partition.items() / threads));
    // Of few rows all threads share the weights instead.
    const MatmulPartition few(compute, &job, 1, 32);
    for (size_t i = 0; i < few.items(); i++) EXPECT_EQ(few.item(i).rows, 32u);
  }
}

// Bfloat16 lies in tiles of sixteen rows, also where a product of floats makes it, whose rows lie one by one.
TEST(MatmulPartition, WhatIsRoundedLiesInWholeTiles) {
  Kernels kernels = kernelsFor(InstructionSet::Scalar);
  kernels.matmul.quantised = QuantisedInput::Bfloat16;
  const WeightMatrix weights{WeightType::F32, 1000, 512, nullptr};
  uint8_t rounded = 0;
  MatmulJob job{&weights, nullptr, nullptr, weights.outputs, Epilogue::Activate};
  job.quantised = &rounded;
  for (const unsigned threads : {1u, 2u, 3u})
    for (const size_t rows : {1, 16, 150, 300, 513}) {
      ThreadPool pool(threads);
      const Compute compute{kernels, pool, Precision::Default};
      const MatmulPartition partition(compute, &job, 1, rows);
      for (size_t i = 0; i < partition.items(); i++) ASSERT_EQ(partition.item(i).firstRow % 16, 0u) << rows << " rows";
    }
}

INSTANTIATE_TEST_SUITE_P(Sets, MatmulPartitions, testing::ValuesIn(allSets()),
                         [](const auto& info) { return std::string(instructionSetName(info.param)); });

}  // namespace
}  // namespace spillway
