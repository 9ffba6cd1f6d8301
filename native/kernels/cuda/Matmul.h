// y = x Wᵀ + b on the device. Weights lie as they do on the CPU and on disk, in panels of 16 outputs
// (kernels/cpu/panelLayout.h): a panel moves between tiers as it is. All pointers are device memory.
#pragma once
#include "../cpu/WeightType.h"
#include "gpu.h"

namespace spillway::cuda {

// panels: 16-byte aligned.
struct DeviceMatrix {
  WeightType type;
  uint32_t outputs;
  uint32_t inputs;
  const uint8_t* panels;
};

// Rows as the tensor cores take them: halves, and a power of two by which each row was multiplied, so that its largest
// value lies in [2^14, 2^15) and activations of any size keep 11 bits. Columns are filled up with zeros to a multiple
// of 32, and stand in another order within every 32 of them (halfPlace): four lanes have eight columns each, of which
// they take pairs, 0 and 2, 1 and 3, 4 and 6, 5 and 7, which is how 4-bit and 8-bit weights come apart; the lanes'
// pairs of a step of the tensor cores are next to each other.
struct HalfRows {
  uint16_t* values;  // [rows, halfColumns(columns)], 16-byte aligned
  float* factors;    // [rows]: what a product with the row is multiplied by; NaN where the row has a NaN or an infinity
  size_t rows;
  size_t columns;
};
__host__ __device__ constexpr size_t halfColumns(size_t columns) { return (columns + 31) / 32 * 32; }
// Where the pair's first column of lane `part` stands within its 32.
__host__ __device__ constexpr unsigned halfPlace(unsigned pair, unsigned part) { return 8 * pair + 2 * part; }
// Rows [first, first + count) of these.
inline HalfRows rowsOf(const HalfRows& x, size_t first, size_t count) {
  return {x.values + first * halfColumns(x.columns), x.factors + first, count, x.columns};
}

// x: [rows, stride].
void prepareRows(cudaStream_t stream, const float* x, size_t stride, const HalfRows& to);

// What a block of a product's grid takes: rows, and 16 outputs, 32, or 128; by warpgroups (architecture 9.0) 128 of
// both.
enum class ProductBlocks { Rows16, Rows64, Wide64, Wide128, Warpgroups };
constexpr ProductBlocks kProductBlocks[] = {ProductBlocks::Rows16, ProductBlocks::Rows64, ProductBlocks::Wide64,
                                            ProductBlocks::Wide128, ProductBlocks::Warpgroups};
const char* nameOf(ProductBlocks blocks);
// Whether the calling thread's device has them, and this build the kernels for them.
bool areThere(ProductBlocks blocks);
// The fastest by what was measured on an H200. No bit depends on it.
ProductBlocks blocksFor(size_t rows, uint32_t outputs);

// Where a product goes.
struct ProductOutput {
  const float* bias;  // [outputs] or null
  float* values;      // [rows, stride]
  size_t stride;
  bool adds = false;  // to what is there, instead of overwriting it
};

// output[row][o] = factor * Σ weight * value + bias[o], on tensor cores: weights rounded to halves, sums in float:
// four, of every fourth chunk of the inputs each, in order; they are added in order: the same for any number of rows.
// Weights beyond the range of a half (65504) become infinite.
void multiply(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output,
              ProductBlocks blocks);
inline void multiply(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output) {
  multiply(stream, weights, x, output, blocksFor(x.rows, weights.outputs));
}

// The same in float arithmetic, weights exactly as the file's format defines them: for checking, slower. x: [rows,
// stride].
void multiplyFloat(cudaStream_t stream, const DeviceMatrix& weights, const float* x, size_t rows, size_t stride,
                   const ProductOutput& output);

// The parts of a product that another library computes (CublasLtProducts.h): weights as multiply() takes them, and what
// it does to its sums. halves: [outputs, halfColumns(inputs)], 16-byte aligned, columns in the order of HalfRows.
// firstOutput: a multiple of 16; outputs that do not fill a panel are followed by what the rest of it holds.
void unpackHalves(cudaStream_t stream, const DeviceMatrix& weights, uint32_t firstOutput, uint32_t outputs,
                  uint16_t* halves);
// output[row][o] = products[row][o] * factors[row] + bias[o]. products: [rows, stride], up to 65535 of them; the rest
// as with multiply().
void scaleProducts(cudaStream_t stream, const float* products, size_t stride, const float* factors, size_t rows,
                   uint32_t outputs, const ProductOutput& output);

}  // namespace spillway::cuda
