#include "Matmul.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A block takes 256 outputs of a row.
__global__ void scaleProductsKernel(const float* products, size_t stride, const float* factors, uint32_t outputs,
                                    const float* bias, float* output, size_t outputStride) {
  const size_t row = blockIdx.y, column = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= outputs) return;
  const float total = products[row * stride + column] * factors[row];
  output[row * outputStride + column] = bias == nullptr ? total : total + bias[column];
}

}  // namespace

void scaleProducts(cudaStream_t stream, const float* products, size_t stride, const float* factors, size_t rows,
                   uint32_t outputs, const float* bias, float* output, size_t outputStride) {
  launch("scaleProducts", scaleProductsKernel, dim3(divideUp(outputs, kThreads), static_cast<unsigned>(rows)), kThreads,
         0, stream, products, stride, factors, outputs, bias, output, outputStride);
}

}  // namespace spillway::cuda
