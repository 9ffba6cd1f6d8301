#include "GpuPass.h"

#include <algorithm>

#include "productRuns.h"

namespace spillway {

namespace {

// Room for what cuBLASLt works on, of any of these products.
uint8_t* takeWorkspace(const GpuPass& pass, const ProductJob* products, size_t count, size_t rows) {
  size_t bytes = 0;
  for (size_t p = 0; p < count; p++)
    bytes = std::max(
        bytes, cuda::CublasLtProducts::workspaceBytes(products[p].weights->outputs, products[p].weights->inputs, rows));
  auto* data = pass.scratch.take<uint8_t>(bytes + cuda::MemoryPool::kAlignment);
  return reinterpret_cast<uint8_t*>(cuda::MemoryPool::aligned(reinterpret_cast<uintptr_t>(data)));
}

}  // namespace

void GpuPass::norm(const float* x, const float* weight, const float* bias, size_t rows, float* y) const {
  run([&](cudaStream_t stream) {
    if (spec.norm == NormKind::Rms)
      cuda::rmsNorm(stream, x, weight, spec.normEpsilon, rows, spec.hiddenSize, y);
    else
      cuda::layerNorm(stream, x, weight, bias, spec.normEpsilon, rows, spec.hiddenSize, y);
  });
}

void GpuPass::multiply(const ProductJob* products, size_t count, const float* input, size_t rows, size_t columns,
                       ProductOf of) const {
  const size_t mark = scratch.used(), hostMark = host.used();
  const bool onHalves = of != ProductOf::Exact && compute.precision == Precision::Default;
  const bool shared = onHalves && of == ProductOf::Tokens && library.wanted;
  cuda::HalfRows halves{nullptr, nullptr, rows, columns};
  if (onHalves) {
    halves.values = scratch.take<uint16_t>((rows + (shared ? cuda::CublasLtProducts::kRowUnit - 1 : 0)) *
                                           cuda::halfColumns(columns));
    halves.factors = scratch.take<float>(rows);
    run([&](cudaStream_t stream) { cuda::prepareRows(stream, input, columns, halves); });
  }
  uint8_t* workspace = shared ? takeWorkspace(*this, products, count, rows) : nullptr;
  cuda::RowRun* runMemory = shared ? host.take<cuda::RowRun>(2 * batch.ranges.size()) : nullptr;
  const ProductRuns runs = shared && !measuring() && library.found != nullptr
                               ? listProductRuns(batch, library.longPromptTokens, runMemory)
                               : ProductRuns{};
  for (size_t p = 0; p < count && !measuring(); p++) {
    const uint32_t outputs = products[p].weights->outputs;
    const bool divided = runs.longCount != 0 && library.found->serves(outputs, static_cast<uint32_t>(columns));
    SplitProduct split;
    split.cut(products[p], streamed);
    for (size_t j = 0; j < split.count; j++) {
      const MatmulJob& job = split.jobs[j];
      const cuda::DeviceMatrix matrix{job.weights->type, job.weights->outputs, job.weights->inputs,
                                      job.weights->panels};
      if (!onHalves) {
        cuda::multiplyFloat(link->stream(), matrix, input, rows, columns, job.bias, job.output, job.outputStride);
      } else if (!divided) {
        cuda::multiply(link->stream(), matrix, halves, job.bias, job.output, job.outputStride);
      } else {
        library.found->multiply(link->stream(), outputs, matrix, halves, runs.ofLong, runs.longCount, job.bias,
                                job.output, job.outputStride, workspace);
        for (const cuda::RowRun* run = runs.ofOthers; run != runs.ofOthers + runs.otherCount; run++)
          cuda::multiply(link->stream(), matrix, cuda::rowsOf(halves, run->first, run->count), job.bias,
                         job.output + run->first * job.outputStride, job.outputStride);
      }
    }
  }
  scratch.release(mark);
  host.release(hostMark);
}

}  // namespace spillway
