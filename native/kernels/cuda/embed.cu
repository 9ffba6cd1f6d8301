#include "RowKernels.h"
#include "panel.h"

namespace spillway::cuda {
namespace {

// A block a row.
template <WeightType Type>
__global__ void embedKernel(DeviceMatrix matrix, size_t stride, const int32_t* tokens, float* y) {
  const int32_t token = tokens[blockIdx.x];
  const bool known = token >= 0 && static_cast<uint32_t>(token) < matrix.outputs;
  const uint8_t* panel = matrix.panels + (known ? token / kPanelOutputs * stride : 0);
  float* to = y + size_t{blockIdx.x} * matrix.inputs;
  for (size_t i = threadIdx.x; i < matrix.inputs; i += blockDim.x)
    to[i] = known ? weightAt<Type>(panel, matrix.inputs, static_cast<unsigned>(token) % kPanelOutputs, i)
                  : __uint_as_float(0x7fc00000u);
}

}  // namespace

void embed(cudaStream_t stream, const DeviceMatrix& matrix, const int32_t* tokens, size_t rows, float* y) {
  withWeightType(matrix.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    launch("embed", embedKernel<kType>, static_cast<unsigned>(rows), 256, 0, stream, matrix,
           panelStride<kType>(matrix.inputs), tokens, y);
  });
}

}  // namespace spillway::cuda
