// Products of one or two rows without tiles, with the bits that tdpbf16ps gives: sixteen rows' worth of a tile register
// would be empty, and weights would go through memory to get there.
//
// tdpbf16ps, of 32 inputs, for each output by itself (Intel SDM, volume 2; confirmed by native/tests): even inputs'
// products are added up from zero in order, by fused multiply-adds; odd inputs' likewise; then even sums + odd sums,
// and that to the total. All of it in float32, rounded to nearest even, denormals being zeros on the way in and out.
// Products of two bfloat16 are exact. The same is sixteen outputs to a register here, and two bits of MXCSR.
#pragma once
#include "../MatmulKernels.h"
#include "tiles.h"
#include "unpackTile.h"

namespace spillway::SPILLWAY_ISA {

constexpr size_t kFusedRows = 2;  // at most

// Denormals are zeros as long as this object lives.
class DenormalsAreZeros {
 public:
  DenormalsAreZeros() : before_(_mm_getcsr()) {
    _mm_setcsr((before_ & ~kRounding) | kFlushToZero | kDenormalsAreZeros);
  }
  ~DenormalsAreZeros() { _mm_setcsr(before_); }
  DenormalsAreZeros(const DenormalsAreZeros&) = delete;
  DenormalsAreZeros& operator=(const DenormalsAreZeros&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZeros = 0x0040, kRounding = 0x6000;
  unsigned before_;
};

// Whether the inputs of so many rows fit into the workspace as floats.
static inline bool takesFused(size_t rows, size_t inputs) {
  return rows <= kFusedRows && quantisedBytes(QuantisedInput::Bfloat16, rows, inputs) * 2 <= kMatmulWorkspaceBytes;
}

// R rows with all panels of the block. inputs: floats [inputs / 32][R][even, odd][16].
template <size_t R, typename Unpacker>
__attribute__((noinline)) static void multiplyFusedRows(const Unpacker& unpacker, const MatmulBlock& block,
                                                        const float* inputs) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const size_t tiles = (block.inputs + kAmxInputs - 1) / kAmxInputs;
  const uint8_t* panel = block.panels;
  for (size_t output = 0; output < block.outputs; output += kPanelOutputs, panel += block.panelBytes) {
    const size_t outputs = block.outputs - output < kPanelOutputs ? block.outputs - output : kPanelOutputs;
    f32x16 accumulators[R];
    for (size_t r = 0; r < R; r++)
      accumulators[r] = block.bias == nullptr ? zero() : loadPartial(block.bias + output, outputs);
    const float* at = inputs;
    for (size_t tile = 0; tile < tiles; tile++, at += R * kAmxInputs) {
      f32x16 even[R], odd[R];
      for (size_t r = 0; r < R; r++) even[r] = odd[r] = zero();
      unpacker.pairs(panel, block.panelBytes, tile,
                     [&](size_t row, f32x16 first, f32x16 second) SPILLWAY_INLINE_LAMBDA {
                       first = {_mm512_castsi512_ps(_mm512_and_si512(asInt(first).v, upper))};
                       second = {_mm512_castsi512_ps(_mm512_and_si512(asInt(second).v, upper))};
                       for (size_t r = 0; r < R; r++) {
                         even[r] = fma(first, set1(at[r * kAmxInputs + row]), even[r]);
                         odd[r] = fma(second, set1(at[r * kAmxInputs + 16 + row]), odd[r]);
                       }
                     });
      for (size_t r = 0; r < R; r++) accumulators[r] = add(accumulators[r], add(even[r], odd[r]));
    }
    for (size_t r = 0; r < R; r++)
      storePartial(block.output + r * block.outputStride + output, accumulators[r], outputs);
  }
}

template <typename Unpacker>
static void multiplyFused(const Unpacker& unpacker, const MatmulBlock& block, uint8_t* workspace) {
  float* inputs = reinterpret_cast<float*>(workspace);
  const size_t pieces =
      quantisedBytes(QuantisedInput::Bfloat16, block.rows, block.inputs) / kAmxRowBytes;  // of 32 inputs of a row
  for (size_t i = 0; i < pieces; i++) {
    const __m512i pairs = _mm512_loadu_si512(block.quantised + i * kAmxRowBytes);
    _mm512_store_si512(inputs + i * kAmxInputs, _mm512_slli_epi32(pairs, 16));
    _mm512_store_si512(inputs + i * kAmxInputs + 16,
                       _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000))));
  }
  const DenormalsAreZeros denormals;
  if (block.rows == 1)
    multiplyFusedRows<1>(unpacker, block, inputs);
  else
    multiplyFusedRows<2>(unpacker, block, inputs);
}

}  // namespace spillway::SPILLWAY_ISA
