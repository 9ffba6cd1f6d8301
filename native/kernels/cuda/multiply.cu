#include "multiplySteps.h"

namespace spillway::cuda {

namespace {

// What a multiprocessor takes for one block by itself, and for two at once or one after another: microseconds of 4096
// inputs in F16, each kind timed by itself on an H200 (bench_cudaKernels, "blocks").
struct BlockCost {
  ProductBlocks blocks;
  unsigned rows, outputs;
  double one, two;
};
constexpr BlockCost kCosts[] = {{ProductBlocks::Rows64, 64, 32, 23.5, 33.6},
                                {ProductBlocks::Wide64, 64, 128, 48.5, 72},
                                {ProductBlocks::Wide128, 128, 128, 70, 141},
                                {ProductBlocks::Warpgroups, 128, 128, 37, 75}};

bool hasWarpgroups() {
#if defined(SPILLWAY_CUDA_90A)
  int device, major, minor;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
  return major == 9 && minor == 0;
#elif defined(__CUDACC__)
  return false;
#else
  return true;
#endif
}

}  // namespace

const char* nameOf(ProductBlocks blocks) {
  switch (blocks) {
    case ProductBlocks::Rows16: return "16 rows";
    case ProductBlocks::Rows64: return "64 rows";
    case ProductBlocks::Wide64: return "wide, 64 rows";
    case ProductBlocks::Wide128: return "wide, 128 rows";
    case ProductBlocks::Warpgroups: return "warpgroups";
  }
  return "";
}

bool areThere(ProductBlocks blocks) { return blocks != ProductBlocks::Warpgroups || hasWarpgroups(); }

ProductBlocks blocksFor(size_t rows, uint32_t outputs) {
  constexpr double kMultiprocessors = 132;
  if (rows <= 16) return ProductBlocks::Rows16;
  ProductBlocks best = ProductBlocks::Rows64;
  double least = 0;
  for (const BlockCost& cost : kCosts) {
    if (!areThere(cost.blocks)) continue;
    const double each =
        static_cast<double>(divideUp(rows, cost.rows)) * divideUp(outputs, cost.outputs) / kMultiprocessors;
    const double time = each <= 1 ? cost.one : cost.two * (each <= 2 ? 1 : each / 2);
    if (least != 0 && time >= least) continue;
    least = time;
    best = cost.blocks;
  }
  return best;
}

void multiply(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output,
              ProductBlocks blocks) {
  switch (blocks) {
    case ProductBlocks::Rows16: return multiplyFew(stream, weights, x, output);
    case ProductBlocks::Rows64: return multiplySome(stream, weights, x, output);
    case ProductBlocks::Wide64: return multiplyWide(stream, weights, x, output, true);
    case ProductBlocks::Wide128: return multiplyWide(stream, weights, x, output, false);
    case ProductBlocks::Warpgroups: return multiplyWarpgroups(stream, weights, x, output);
  }
}

}  // namespace spillway::cuda
