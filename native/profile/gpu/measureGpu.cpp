#include <algorithm>

#include "gpuMeasurements.h"

namespace spillway {

namespace {

// Of K-quants no products are measured here: plans take those of as many bits for them.
std::vector<std::string> kindsOf(const std::vector<std::string>& wanted) {
  std::vector<std::string> kinds;
  for (const std::string& each : wanted) {
    const std::string kind = each == "q4_k" ? "q4" : each == "q6_k" ? "q8" : each;
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  return kinds;
}

}  // namespace

std::vector<std::unique_ptr<Measurement>> measureGpu(Workbench& bench) {
  const auto gpu = std::make_shared<GpuBench>(bench);
  std::vector<std::unique_ptr<Measurement>> measurements;
  measurements.push_back(measureGpuLink(gpu));
  measurements.push_back(measureGpuMemory(gpu));
  for (const std::string& kind : kindsOf(bench.options().weights)) measurements.push_back(measureGpuMatmul(gpu, kind));
  measurements.push_back(measureGpuCublasLt(gpu));
  for (const char* kind : {"f16", "q8", "q4"}) measurements.push_back(measureGpuAttention(gpu, kind));
  measurements.push_back(measureGpuCacheStore(gpu));
  measurements.push_back(measureGpuRows(gpu));
  measurements.push_back(measureGpuSampling(gpu));
  measurements.push_back(measureGpuTask(gpu));
  return measurements;
}

}  // namespace spillway
