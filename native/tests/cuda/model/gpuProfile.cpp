// Measuring a GPU: what comes out is sane and complete, memory comes back, errors are told. The emulated device's
// figures say nothing.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "../../../profile/Measurement.h"
#include "../../../profile/Workbench.h"
#include "../../../profile/gpu/gpuMeasurements.h"
#include "../../../profile/measureMachine.h"
#include "gpuFixture.h"
#if !defined(SPILLWAY_CUDA_RUNTIME)
#include "../fakeCublasLt.h"
#endif

namespace {
using namespace spillway;
using namespace spillway::fixture;

ProfileOptions quick(uint64_t memoryBytes = uint64_t{64} << 20) {
  ProfileOptions options;
  options.threads = 1;
  options.instructionSets = {bestInstructionSet()};
  options.tokenCounts = {1};
  options.memoryBytes = kLeastProfileMemory;
  options.budget = 0.001;
  options.gpu = GpuProfileOptions{0, memoryBytes};
  return options;
}

// One round of all that is measured on the GPU.
MachineFigures measured(const ProfileOptions& options) {
  ProfileProgress progress;
  Workbench bench(options, progress);
  MachineFigures figures;
  for (const auto& each : measureGpu(bench)) {
    EXPECT_NE(each->name().find("GPU"), std::string::npos);
    each->round(bench);
    each->report(figures);
  }
  return figures;
}

TEST(GpuProfile, HasEveryFigureAndGivesItsMemoryBack) {
  const uint64_t taken = takenBytes();
  const MachineFigures figures = measured(quick());
  EXPECT_LE(takenBytes(), taken + kCountedBytes);
  std::map<std::string, size_t> seen;
  std::set<std::string> points;
  for (const Figure& figure : figures.figures) {
    EXPECT_TRUE(std::isfinite(figure.perSecond) && figure.perSecond > 0) << figure.what << " " << figure.kind;
    EXPECT_TRUE(std::isfinite(figure.spread) && figure.spread >= 0) << figure.what << " " << figure.kind;
    EXPECT_GE(figure.samples, 1u) << figure.what;
    EXPECT_EQ(figure.threads, 0u);
    EXPECT_EQ(figure.instructionSet, "");
    seen[figure.what]++;
    const bool isNew = points
                           .insert(figure.what + " " + figure.kind + " " + std::to_string(figure.tokens) + " " +
                                   std::to_string(figure.inputs) + " " + std::to_string(figure.groupHeads) + " " +
                                   std::to_string(figure.requestBytes))
                           .second;
    EXPECT_TRUE(isNew) << figure.what << " " << figure.kind << " " << figure.tokens;
  }
  const std::map<std::string, size_t> expected = {{"link-up", 2},
                                                  {"link-down", 2},
                                                  {"gpu-memory-copy", 1},
                                                  {"gpu-matmul", 16},
                                                  {"gpu-attention-decode", 6},
                                                  {"gpu-attention-short", 1},
                                                  {"gpu-attention-prefill", 1},
                                                  {"gpu-cache-store", 3},
                                                  {"gpu-rows", 1},
                                                  {"gpu-sample-greedy", 1},
                                                  {"gpu-sample-top-p", 1},
                                                  {"gpu-task", 1}};
  seen.erase("gpu-matmul-cublaslt");  // of a device that has it
  EXPECT_EQ(seen, expected);
}

TEST(GpuProfile, OfKQuantsHasWhatStandsInForThem) {
  ProfileOptions options = quick();
  options.weights = {"q4_k", "q6_k"};
  std::set<std::string> kinds;
  for (const Figure& figure : measured(options).figures)
    if (figure.what == "gpu-matmul") kinds.insert(figure.kind);
  EXPECT_EQ(kinds, (std::set<std::string>{"q4", "q8"}));
}

TEST(GpuProfile, RefusesWhatIsNotThere) {
  const auto codeOf = [](const ProfileOptions& options) {
    try {
      ProfileProgress progress;
      measureMachine(options, progress);
      return ErrorCode::Internal;
    } catch (const Error& error) {
      return error.code();
    }
  };
  ProfileOptions second = quick();
  second.gpu->device = 99;
  EXPECT_EQ(codeOf(second), ErrorCode::InvalidArgument);
  EXPECT_EQ(codeOf(quick(kLeastGpuProfileMemory - 1)), ErrorCode::InvalidArgument);
}

TEST(GpuProfile, StopsInTheMiddle) {
  const uint64_t taken = takenBytes();
  ProfileProgress progress;
  ProfileOptions options = quick();
  size_t at = 0;
  progress.changed = [&] {
    size_t done, total;
    std::string what;
    progress.get(done, total, what);
    if (what.find("GPU's memory") == std::string::npos) return;
    at = done;
    progress.stopped.store(true);
  };
  try {
    measureMachine(options, progress);
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Cancelled);
  }
  EXPECT_GT(at, 0u);
  EXPECT_LE(takenBytes(), taken + kCountedBytes);
}

#if !defined(SPILLWAY_CUDA_RUNTIME)
TEST(GpuProfile, MeasuresCublasLtOrSaysWhyNot) {
  const auto measuredAlone = [] {
    ProfileProgress progress;
    const ProfileOptions options = quick();
    Workbench bench(options, progress);
    const auto measurement = measureGpuCublasLt(std::make_shared<GpuBench>(bench));
    measurement->round(bench);
    MachineFigures figures;
    measurement->report(figures);
    return figures;
  };
  const auto count = [](const MachineFigures& figures) {
    return std::count_if(figures.figures.begin(), figures.figures.end(), [](const Figure& figure) {
      return figure.what == "gpu-matmul-cublaslt" && figure.tokens == 16 && figure.perSecond > 0;
    });
  };
  const MachineFigures without = measuredAlone();
  EXPECT_EQ(count(without), 0);
  ASSERT_EQ(without.leftOut.size(), 1u);
  EXPECT_EQ(without.leftOut[0].what, "cuBLASLt");
  EXPECT_NE(without.leftOut[0].reason.find("no libcublasLt was found"), std::string::npos);
  const fake::Library library;
  library->first = fake::kOneSequence;
  const MachineFigures with = measuredAlone();
  EXPECT_EQ(count(with), 3);
  EXPECT_TRUE(with.leftOut.empty());
  library->end = fake::kOneSequence;
  EXPECT_NE(measuredAlone().leftOut.at(0).reason.find("found no algorithm"), std::string::npos);
}

TEST(GpuProfile, ADeviceThatFailsOrHasNoMemoryIsToldOf) {
  const auto failure = [](const ProfileOptions& options) {
    try {
      measured(options);
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  emulator::setDeviceBytes(size_t{60} << 20);
  EXPECT_NE(failure(quick()).find("67108864"), std::string::npos);
  emulator::setDeviceBytes(size_t{1} << 30);
  for (const size_t kernel : {0u, 40u}) {
    emulator::breakAt(kernel);
    EXPECT_NE(failure(quick()).find("CUDA"), std::string::npos) << kernel;
    emulator::breakAt(SIZE_MAX);
  }
  EXPECT_EQ(failure(quick()), "");
}

// Without being told to hurry it finds out by itself that this device is slow, and takes little.
TEST(GpuProfile, ASlowDeviceIsMeasuredWithLittle) {
  ProfileOptions options = quick(uint64_t{64} << 20);
  options.budget = 0.3;
  for (const Figure& figure : measured(options).figures) {
    EXPECT_LE(figure.tokens, 64u) << figure.what;
    EXPECT_LE(figure.requestBytes, size_t{64} << 10) << figure.what;
  }
}
#else
// What the emulation is too slow for: everything in its full size.
TEST(GpuProfile, ARealDeviceIsMeasuredInFull) {
  ProfileOptions options = quick(uint64_t{1} << 30);
  options.budget = 0.3;
  size_t most = 0;
  for (const Figure& figure : measured(options).figures) {
    EXPECT_TRUE(std::isfinite(figure.perSecond) && figure.perSecond > 0) << figure.what << " " << figure.kind;
    if (figure.what == "gpu-matmul") most = std::max(most, figure.tokens);
  }
  EXPECT_EQ(most, 1024u);
}
#endif

}  // namespace
