#include "Matmul.h"
#include "halfFloat.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;

// The power of two 2^exponent; exponent from -126 to 127.
__device__ __forceinline__ float powerOfTwo(int exponent) {
  return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
}

// A block a row.
__global__ void prepareRowsKernel(const float* x, size_t stride, HalfRows to, size_t paddedColumns) {
  float* partials = sharedAs<float>();
  const float* from = x + blockIdx.x * stride;
  float largest = 0;
  bool finite = true;
  for (size_t i = threadIdx.x; i < to.columns; i += kThreads) {
    const float size = fabsf(from[i]);
    finite = finite && size < __uint_as_float(0x7f800000u);
    largest = fmaxf(largest, size);
  }
  largest = blockMaximum(finite ? largest : __uint_as_float(0x7f800000u), partials);
  const int exponent =
      static_cast<int>(__float_as_uint(largest) >> 23) - 127;  // -127 for zero and subnormal numbers, 128 for infinity
  // Rows below 2^-112 lose their last bits.
  const int shift = exponent == 128 ? 0 : min(14 - exponent, 126);
  const float factor = powerOfTwo(shift);
  uint16_t* row = to.values + blockIdx.x * paddedColumns;
  for (size_t i = threadIdx.x; i < paddedColumns; i += kThreads) {
    const unsigned column = static_cast<unsigned>(i % 32), ofLane = column % 8;
    const size_t place = i - column + halfPlace(ofLane / 4 * 2 + ofLane % 2, column / 8) + ofLane % 4 / 2;
    row[place] = i < to.columns ? toHalf(from[i] * factor) : uint16_t{0};
  }
  if (threadIdx.x == 0) to.factors[blockIdx.x] = exponent == 128 ? __uint_as_float(0x7fc00000u) : powerOfTwo(-shift);
}

}  // namespace

void prepareRows(cudaStream_t stream, const float* x, size_t stride, const HalfRows& to) {
  launch("prepareRows", prepareRowsKernel, static_cast<unsigned>(to.rows), kThreads, kThreads / kWarp * sizeof(float),
         stream, x, stride, to, halfColumns(to.columns));
}

}  // namespace spillway::cuda
