#include "matmulAmx.h"
#include "multiplyTiles.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// Rounded to the nearest, ties to even; denormal floats become zeros, as they would be for the products.
__m512i roundedPairs(f32x16 first, f32x16 second) {
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second.v, first.v));
}

void quantiseRows(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* tile) {
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

void multiplyQuantised(const MatmulBlock& block, uint8_t* workspace) {
  withWeightType(block.type, [&](auto type) {
    constexpr WeightType T = decltype(type)::value;
    if constexpr (isQuantised(T))
      multiplyTypesOf<panelFormat(T).bits == 4>(block, workspace);
    else if constexpr (T != WeightType::F32)  // which quantisedFor() excludes
      multiplyBlock<HalfUnpacker<T>>(block, workspace);
  });
}

}  // namespace

const MatmulKernels& matmulKernels(const MatmulKernels& wide) {
  static const MatmulKernels kernels{
      QuantisedInput::Bfloat16, 0, quantiseRows, nullptr, multiplyQuantised, wide.multiplyFloat, wide.multiplyWords};
  return kernels;
}

}  // namespace spillway::SPILLWAY_ISA
