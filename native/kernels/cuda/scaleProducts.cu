#include "Matmul.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;

// A block takes 256 outputs of a row.
__global__ void scaleProductsKernel(const float* products, size_t stride, const float* factors, uint32_t outputs,
                                    ProductOutput output) {
  const size_t row = blockIdx.y, column = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= outputs) return;
  const float total = products[row * stride + column] * factors[row];
  const float result = output.bias == nullptr ? total : total + output.bias[column];
  float& value = output.values[row * output.stride + column];
  value = output.adds ? value + result : result;
}

}  // namespace

void scaleProducts(cudaStream_t stream, const float* products, size_t stride, const float* factors, size_t rows,
                   uint32_t outputs, const ProductOutput& output) {
  launch("scaleProducts", scaleProductsKernel, dim3(divideUp(outputs, kThreads), static_cast<unsigned>(rows)), kThreads,
         0, stream, products, stride, factors, outputs, output);
}

}  // namespace spillway::cuda
