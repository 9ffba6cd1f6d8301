#include "multiplySteps.h"

namespace spillway::cuda {

namespace {

// What a multiprocessor takes for one block by itself, and for two at once or one after another: microseconds of 4096
// inputs in F16, each kind timed by itself on an H200 (products of 4096 and 16384 outputs, 64 to 2048 rows).
struct BlockCost {
  ProductBlocks blocks;
  unsigned rows, outputs;
  double one, two;
};
constexpr BlockCost kCosts[] = {{ProductBlocks::Rows64, 64, 32, 23.5, 33.6},
                                {ProductBlocks::Wide64, 64, 128, 48.5, 72},
                                {ProductBlocks::Wide128, 128, 128, 70, 141}};

}  // namespace

ProductBlocks blocksFor(size_t rows, uint32_t outputs) {
  constexpr double kMultiprocessors = 132;
  if (rows <= 16) return ProductBlocks::Rows16;
  ProductBlocks best = ProductBlocks::Rows64;
  double least = 0;
  for (const BlockCost& cost : kCosts) {
    const double each =
        static_cast<double>(divideUp(rows, cost.rows)) * divideUp(outputs, cost.outputs) / kMultiprocessors;
    const double time = each <= 1 ? cost.one : cost.two * (each <= 2 ? 1 : each / 2);
    if (least != 0 && time >= least) continue;
    least = time;
    best = cost.blocks;
  }
  return best;
}

void multiply(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias, float* output,
              size_t outputStride, ProductBlocks blocks) {
  switch (blocks) {
    case ProductBlocks::Rows16: return multiplyFew(stream, weights, x, bias, output, outputStride);
    case ProductBlocks::Rows64: return multiplySome(stream, weights, x, bias, output, outputStride);
    case ProductBlocks::Wide64: return multiplyWide(stream, weights, x, bias, output, outputStride, true);
    case ProductBlocks::Wide128: return multiplyWide(stream, weights, x, bias, output, outputStride, false);
  }
}

}  // namespace spillway::cuda
