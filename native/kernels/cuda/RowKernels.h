// Operations on rows of activations on the device: what kernels/cpu/RowKernels.h says of each holds here too, but for
// rounding (expf and erff are CUDA's; sums are taken in another order, which depends on n alone). All pointers are
// device memory.
#pragma once
#include "../cpu/RowKernels.h"
#include "Matmul.h"
#include "gpu.h"

namespace spillway::cuda {

// y[row] = the matrix's row tokens[row], as floats, exactly as the file's format defines them. tokens: [rows]; y:
// [rows, inputs]. A token that is no row of the matrix gives NaN.
void embed(cudaStream_t stream, const DeviceMatrix& matrix, const int32_t* tokens, size_t rows, float* y);

// x, y: [rows, n]; y may be x. weight, bias: [n]; layerNorm's bias may be null, and there may be several rows of
// weights and biases, which rows take in turn.
void rmsNorm(cudaStream_t stream, const float* x, const float* weight, float epsilon, size_t rows, size_t n, float* y);
void layerNorm(cudaStream_t stream, const float* x, const float* weight, const float* bias, float epsilon, size_t rows,
               size_t n, float* y, unsigned weightRows = 1);

// What they make of x, as prepareRows() has it: x is [to.rows, to.columns].
void prepareRmsNorm(cudaStream_t stream, const float* x, const float* weight, float epsilon, const HalfRows& to);
void prepareLayerNorm(cudaStream_t stream, const float* x, const float* weight, const float* bias, float epsilon,
                      const HalfRows& to);

enum class RotaryPairing : uint8_t { Pairs, Halves };

// Rotates the first `dims` elements of each head in place, dims even. x: [rows, stride], heads * headDim used of each;
// positions: [rows]; cosines, sines: [positions, dims / 2].
void rotate(cudaStream_t stream, RotaryPairing pairing, float* x, size_t rows, size_t stride, uint32_t heads,
            uint32_t headDim, uint32_t dims, const uint32_t* positions, const float* cosines, const float* sines);

// x = activation(x), times `up` elementwise where that is not null. n elements, which may be many rows.
void activate(cudaStream_t stream, Activation activation, float* x, const float* up, size_t n);

// The same, as prepareRows() has it: x and up are [to.rows, to.columns], and stay as they are.
void prepareActivated(cudaStream_t stream, Activation activation, const float* x, const float* up, const HalfRows& to);

// x *= factor
void scale(cudaStream_t stream, float factor, float* x, size_t n);

// x = cap * tanh(x / cap)
void softCap(cudaStream_t stream, float cap, float* x, size_t n);

// y[row] = x[indices[row]], n elements each. indices: [rows].
void gatherRows(cudaStream_t stream, const float* x, const uint32_t* indices, size_t rows, size_t n, float* y);
// y[indices[row]] += scales[row] * x[row], n elements each; no index twice. indices, scales: [rows].
void scatterScaledRows(cudaStream_t stream, const float* x, const float* scales, const uint32_t* indices, size_t rows,
                       size_t n, float* y);

// y += x, and y += scale * x
void add(cudaStream_t stream, const float* x, float* y, size_t n);
void addScaled(cudaStream_t stream, const float* x, float scale, float* y, size_t n);

}  // namespace spillway::cuda
