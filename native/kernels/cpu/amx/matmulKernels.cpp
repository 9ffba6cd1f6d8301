#include "matmulAmx.h"
#include "multiplyTiles.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// Rounded to the nearest, ties to even; denormal floats become zeros, as they would be for the products.
__m512i roundedPairs(f32x16 first, f32x16 second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second.v, first.v));
}

void roundRows(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* tile) {
  for (size_t k = 0; k < columns; k += kAmxInputs) {
    const size_t left = columns - k;
    for (size_t row = 0; row < rows; row++, tile += kAmxRowBytes) {
      const float* at = values + row * stride + k;
      if (left >= kAmxInputs)
        _mm512_storeu_si512(tile, roundedPairs(load(at), load(at + 16)));
      else if (left > 16)
        _mm512_storeu_si512(tile, roundedPairs(load(at), loadPartial(at + 16, left - 16)));
      else
        _mm512_storeu_si512(tile, roundedPairs(loadPartial(at, left), zero()));
    }
  }
}

void multiplyRounded(const MatmulBlock& block, uint8_t* workspace) {
  switch (block.type) {
    case WeightType::F16: return multiplyBlock<HalfUnpacker<WeightType::F16>>(block, workspace);
    case WeightType::BF16: return multiplyBlock<HalfUnpacker<WeightType::BF16>>(block, workspace);
    case WeightType::Q4_0:
    case WeightType::Q4_1:
    case WeightType::Q4_G64:
    case WeightType::Q4_K: return multiplyFourBits(block, workspace);
    default: return multiplyOtherBits(block, workspace);
  }
}

}  // namespace

const MatmulKernels& matmulKernels(const MatmulKernels& wide) {
  static const MatmulKernels kernels{RoundedInput::Bfloat16, false, roundRows, multiplyRounded, wide.multiplyFloat};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
