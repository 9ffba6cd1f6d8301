#include "GpuPass.h"

namespace spillway {

void GpuPass::norm(const float* x, const float* weight, const float* bias, size_t rows, float* y) const {
  run([&](cudaStream_t stream) {
    if (spec.norm == NormKind::Rms) cuda::rmsNorm(stream, x, weight, spec.normEpsilon, rows, spec.hiddenSize, y);
    else cuda::layerNorm(stream, x, weight, bias, spec.normEpsilon, rows, spec.hiddenSize, y);
  });
}

void GpuPass::multiply(const ProductJob* products, size_t count, const float* input, size_t rows, size_t columns, bool exactly) const {
  const size_t mark = scratch.used();
  const bool onHalves = !exactly && compute.precision == Precision::Default;
  cuda::HalfRows halves{nullptr, nullptr, rows, columns};
  if (onHalves) {
    halves.values = scratch.take<uint16_t>(rows * cuda::halfColumns(columns));
    halves.factors = scratch.take<float>(rows);
    run([&](cudaStream_t stream) { cuda::prepareRows(stream, input, columns, halves); });
  }
  for (size_t p = 0; p < count && !measuring(); p++) {
    SplitProduct split;
    split.cut(products[p], streamed);
    for (size_t j = 0; j < split.count; j++) {
      const MatmulJob& job = split.jobs[j];
      const cuda::DeviceMatrix matrix{job.weights->type, job.weights->outputs, job.weights->inputs, job.weights->panels};
      if (onHalves) cuda::multiply(link->stream(), matrix, halves, job.bias, job.output, job.outputStride);
      else cuda::multiplyFloat(link->stream(), matrix, input, rows, columns, job.bias, job.output, job.outputStride);
    }
  }
  scratch.release(mark);
}

}  // namespace spillway
