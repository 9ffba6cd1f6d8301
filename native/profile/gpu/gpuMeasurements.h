// What is measured on a GPU, each with the kernels and the runtime that runs use. All share one bench.
#pragma once
#include <memory>

#include "../Measurement.h"
#include "GpuBench.h"

namespace spillway {

using SharedGpuBench = std::shared_ptr<GpuBench>;

std::unique_ptr<Measurement> measureGpuLink(SharedGpuBench gpu);
std::unique_ptr<Measurement> measureGpuMemory(SharedGpuBench gpu);
// kind: f32, f16, q8 or q4.
std::unique_ptr<Measurement> measureGpuMatmul(SharedGpuBench gpu, const std::string& kind);
// All kinds but f32, of many tokens, by cuBLASLt; left out, with the reason, where there is none.
std::unique_ptr<Measurement> measureGpuCublasLt(SharedGpuBench gpu);
// kind: f16, q8 or q4.
std::unique_ptr<Measurement> measureGpuAttention(SharedGpuBench gpu, const char* kind);
std::unique_ptr<Measurement> measureGpuCacheStore(SharedGpuBench gpu);
std::unique_ptr<Measurement> measureGpuRows(SharedGpuBench gpu);
std::unique_ptr<Measurement> measureGpuSampling(SharedGpuBench gpu);
std::unique_ptr<Measurement> measureGpuTask(SharedGpuBench gpu);

}  // namespace spillway
