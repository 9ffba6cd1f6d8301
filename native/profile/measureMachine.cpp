#include "measureMachine.h"

#include <algorithm>

#include "Measurement.h"

namespace spillway {

namespace {

constexpr double kMostSeconds = 20;    // at a budget of 1; the first round is made in any case
constexpr double kMostGpuSeconds = 8;  // beside it

std::vector<std::unique_ptr<Measurement>> allOf(Workbench& bench) {
  const ProfileOptions& options = bench.options();
  std::vector<std::unique_ptr<Measurement>> measurements;
  measurements.push_back(measureMemory());
  if (!options.diskFolder.empty()) measurements.push_back(measureDisk());
  for (const std::string& kind : options.weights) measurements.push_back(measureMatmul(kind));
  if (options.speedOnly) return measurements;
  for (const char* kind : {"f16", "q8", "q4"}) measurements.push_back(measureAttention(kind));
  measurements.push_back(measureCacheStore());
  measurements.push_back(measureRows());
  measurements.push_back(measureSampling());
  measurements.push_back(measureTask());
  if (options.gpu) {
    for (auto& each : measureGpu(bench)) measurements.push_back(std::move(each));
  }
  return measurements;
}

}  // namespace

MachineFigures measureMachine(const ProfileOptions& options, ProfileProgress& progress) {
  Workbench bench(options, progress);
  const std::vector<std::unique_ptr<Measurement>> measurements = allOf(bench);
  const size_t rounds = options.budget < 0.5 ? 1 : 3;
  const double most = (kMostSeconds + (options.gpu ? kMostGpuSeconds : 0)) * options.budget;
  const double begin = monotonicSeconds();
  double longest = 0;
  for (size_t round = 0; round < rounds; round++) {
    const double start = monotonicSeconds();
    // A machine that is busy with something else would take minutes.
    if (start - begin + longest > most && round > 0) break;
    for (size_t i = 0; i < measurements.size(); i++) {
      progress.set(round * measurements.size() + i, rounds * measurements.size(), measurements[i]->name());
      bench.check();
      measurements[i]->round(bench);
    }
    longest = std::max(longest, monotonicSeconds() - start);
  }
  progress.set(rounds * measurements.size(), rounds * measurements.size(), "done");
  MachineFigures figures;
  for (const auto& measurement : measurements) measurement->report(figures);
  return figures;
}

}  // namespace spillway
