#include "Attention.h"

namespace spillway::cuda {
namespace {

// A block a query. Parts in order, then what comes from elsewhere; each weighs exp(its maximum - the largest of all).
// A sink far above that is infinite, and the outputs are zero.
__global__ void combineSplitsKernel(AttentionPartials partials, uint32_t heads, uint32_t headDim, float* outputs,
                                    size_t outputStride) {
  const size_t query = size_t{blockIdx.x} * heads + blockIdx.y;
  const AttentionPartial* weights = partials.weights + query * partials.parts;
  const float* values = partials.values + query * partials.parts * headDim;
  const bool others = partials.otherWeights != nullptr && partials.otherWeights[query].sum != 0;
  const AttentionPartial other = others ? partials.otherWeights[query] : AttentionPartial{-3.402823466e+38f, 0};
  float maximum = other.maximum, sum = 0;
  for (uint32_t part = 0; part < partials.parts; part++)
    if (weights[part].sum != 0) maximum = fmaxf(maximum, weights[part].maximum);
  for (uint32_t part = 0; part < partials.parts; part++)
    if (weights[part].sum != 0) sum = fmaf(weights[part].sum, expf(weights[part].maximum - maximum), sum);
  if (others) sum = fmaf(other.sum, expf(other.maximum - maximum), sum);
  if (partials.sinks != nullptr) sum += expf(partials.sinks[blockIdx.y] - maximum);
  for (uint32_t d = threadIdx.x; d < headDim; d += blockDim.x) {
    float total = 0;
    for (uint32_t part = 0; part < partials.parts; part++)
      if (weights[part].sum != 0)
        total = fmaf(values[size_t{part} * headDim + d], expf(weights[part].maximum - maximum), total);
    if (others) total = fmaf(partials.otherValues[query * headDim + d], expf(other.maximum - maximum), total);
    outputs[blockIdx.x * outputStride + blockIdx.y * headDim + d] = total / sum;
  }
}

}  // namespace

void combineSplits(cudaStream_t stream, const AttentionPartials& partials, size_t tokens, uint32_t heads,
                   uint32_t headDim, float* outputs, size_t outputStride) {
  launch("combineSplits", combineSplitsKernel, dim3(static_cast<unsigned>(tokens), heads), 128, 0, stream, partials,
         heads, headDim, outputs, outputStride);
}

}  // namespace spillway::cuda
