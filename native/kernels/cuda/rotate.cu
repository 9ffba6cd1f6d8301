#include "RowKernels.h"

namespace spillway::cuda {
namespace {

// A block a row; a thread takes every 256th pair of elements. Products and sums are rounded one by one, as on the CPU.
__global__ void rotateKernel(RotaryPairing pairing, float* x, size_t stride, uint32_t heads, uint32_t headDim,
                             uint32_t dims, const uint32_t* positions, const float* cosines, const float* sines) {
  const uint32_t half = dims / 2;
  const size_t angles = size_t{positions[blockIdx.x]} * half;
  for (uint32_t pair = threadIdx.x; pair < heads * half; pair += blockDim.x) {
    const uint32_t i = pair % half;
    float* head = x + blockIdx.x * stride + size_t{pair / half} * headDim;
    float* first = head + (pairing == RotaryPairing::Pairs ? 2 * i : i);
    float* second = first + (pairing == RotaryPairing::Pairs ? 1 : half);
    const float a = *first, b = *second, cosine = cosines[angles + i], sine = sines[angles + i];
    *first = a * cosine - b * sine;
    *second = b * cosine + a * sine;
  }
}

}  // namespace

void rotate(cudaStream_t stream, RotaryPairing pairing, float* x, size_t rows, size_t stride, uint32_t heads,
            uint32_t headDim, uint32_t dims, const uint32_t* positions, const float* cosines, const float* sines) {
  launch("rotate", rotateKernel, static_cast<unsigned>(rows), 256, 0, stream, pairing, x, stride, heads, headDim, dims,
         positions, cosines, sines);
}

}  // namespace spillway::cuda
