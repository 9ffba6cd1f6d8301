#include "gpuMeasurements.h"

namespace spillway {

std::vector<std::unique_ptr<Measurement>> measureGpu(Workbench& bench) {
  const auto gpu = std::make_shared<GpuBench>(bench);
  std::vector<std::unique_ptr<Measurement>> measurements;
  measurements.push_back(measureGpuLink(gpu));
  measurements.push_back(measureGpuMemory(gpu));
  for (const std::string& kind : bench.options().weights) measurements.push_back(measureGpuMatmul(gpu, kind));
  measurements.push_back(measureGpuCublasLt(gpu));
  for (const char* kind : {"f16", "q8", "q4"}) measurements.push_back(measureGpuAttention(gpu, kind));
  measurements.push_back(measureGpuCacheStore(gpu));
  measurements.push_back(measureGpuRows(gpu));
  measurements.push_back(measureGpuSampling(gpu));
  measurements.push_back(measureGpuTask(gpu));
  return measurements;
}

}  // namespace spillway
