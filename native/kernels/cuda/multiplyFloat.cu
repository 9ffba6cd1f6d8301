#include "Matmul.h"
#include "panel.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kSlices = 16;  // of the inputs: a thread takes every 16th
constexpr unsigned kBlockRows = 8;
constexpr unsigned kThreads = kSlices * kPanelOutputs;

// A block takes a panel and eight rows; a thread one output and one slice of the inputs. Slices are added in order.
template <WeightType Type>
__global__ __launch_bounds__(kThreads) void multiplyFloatKernel(DeviceMatrix weights, size_t panelBytes, const float* x,
                                                                size_t rows, size_t stride, ProductOutput output) {
  float* partials = sharedAs<float>();  // [kSlices][kBlockRows][kPanelOutputs]
  const unsigned own = threadIdx.x % kPanelOutputs, slice = threadIdx.x / kPanelOutputs;
  const uint8_t* panel = weights.panels + blockIdx.x * panelBytes;
  const size_t firstRow = size_t{blockIdx.y} * kBlockRows;
  float sums[kBlockRows] = {};
  for (size_t input = slice; input < weights.inputs; input += kSlices) {
    const float weight = weightAt<Type>(panel, weights.inputs, own, input);
#pragma unroll
    for (unsigned row = 0; row < kBlockRows; row++)
      if (firstRow + row < rows) sums[row] = fmaf(weight, x[(firstRow + row) * stride + input], sums[row]);
  }
#pragma unroll
  for (unsigned row = 0; row < kBlockRows; row++)
    partials[(slice * kBlockRows + row) * kPanelOutputs + own] = sums[row];
  __syncthreads();
  const size_t row = firstRow + slice, column = blockIdx.x * kPanelOutputs + own;
  if (slice >= kBlockRows || row >= rows || column >= weights.outputs) return;
  float total = output.bias == nullptr ? 0.0f : output.bias[column];
#pragma unroll
  for (unsigned other = 0; other < kSlices; other++)
    total += partials[(other * kBlockRows + slice) * kPanelOutputs + own];
  float& value = output.values[row * output.stride + column];
  value = output.adds ? value + total : total;
}

}  // namespace

void multiplyFloat(cudaStream_t stream, const DeviceMatrix& weights, const float* x, size_t rows, size_t stride,
                   const ProductOutput& output) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const dim3 grid(divideUp(weights.outputs, kPanelOutputs), divideUp(rows, kBlockRows));
    launch("multiplyFloat", multiplyFloatKernel<kType>, grid, kThreads, kThreads * kBlockRows * sizeof(float), stream,
           weights, panelStride<kType>(weights.inputs), x, rows, stride, output);
  });
}

}  // namespace spillway::cuda
