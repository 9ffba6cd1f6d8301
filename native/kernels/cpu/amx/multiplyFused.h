// Products of one or two rows without tiles, with the bits that tdpbf16ps gives. Where there is so little to multiply a tile costs more than it saves: its weights go
// through memory, and the processor takes its time to get the unit going.
//
// tdpbf16ps, of 32 inputs, for each output by itself (Intel SDM, volume 2; confirmed by native/tests): even inputs' products are added up from zero in order, by
// fused multiply-adds; odd inputs' likewise; then even sums + odd sums, and that to the total. All of it in float32, rounded to nearest even, denormals
// being zeros on the way in and out. Products of two bfloat16 are exact. The same is sixteen outputs to a register here, and two bits of MXCSR.
#pragma once
#include "../MatmulKernels.h"
#include "tiles.h"
#include "unpackTile.h"

namespace spillway::SPILLWAY_ISA {

constexpr size_t kFusedRows = 2;  // at most

// Denormals are zeros as long as this object lives.
class DenormalsAreZeros {
 public:
  DenormalsAreZeros() : before_(_mm_getcsr()) { _mm_setcsr((before_ & ~kRounding) | kFlushToZero | kDenormalsAreZeros); }
  ~DenormalsAreZeros() { _mm_setcsr(before_); }
  DenormalsAreZeros(const DenormalsAreZeros&) = delete;
  DenormalsAreZeros& operator=(const DenormalsAreZeros&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZeros = 0x0040, kRounding = 0x6000;
  unsigned before_;
};

// R rows with all panels of the block.
template <size_t R, typename Unpacker>
__attribute__((noinline)) static void multiplyFusedRows(const Unpacker& unpacker, const MatmulBlock& block) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  const size_t tiles = (block.inputs + kAmxInputs - 1) / kAmxInputs;
  const uint8_t* panel = block.panels;
  for (size_t first = 0; first < block.outputs; first += kPanelOutputs, panel += block.panelBytes) {
    const size_t outputs = block.outputs - first < kPanelOutputs ? block.outputs - first : kPanelOutputs;
    f32x16 totals[R];
    for (size_t r = 0; r < R; r++) totals[r] = block.bias == nullptr ? zero() : loadPartial(block.bias + first, outputs);
    const uint8_t* rounded = block.rounded;
    for (size_t tile = 0; tile < tiles; tile++, rounded += R * kAmxRowBytes) {
      alignas(64) float inputs[R][2][16];  // even and odd ones, for the products to take them from memory
      f32x16 even[R], odd[R];
      for (size_t r = 0; r < R; r++) {
        const __m512i pairs = _mm512_loadu_si512(rounded + r * kAmxRowBytes);
        _mm512_store_si512(inputs[r][0], _mm512_slli_epi32(pairs, 16));
        _mm512_store_si512(inputs[r][1], _mm512_and_si512(pairs, upper));
        even[r] = odd[r] = zero();
      }
      unpacker.pairs(panel, block.panelBytes, tile, [&](size_t row, f32x16 first, f32x16 second) SPILLWAY_INLINE_LAMBDA {
        first = {_mm512_castsi512_ps(_mm512_and_si512(asInt(first).v, upper))};
        second = {_mm512_castsi512_ps(_mm512_and_si512(asInt(second).v, upper))};
        for (size_t r = 0; r < R; r++) {
          even[r] = fma(first, set1(inputs[r][0][row]), even[r]);
          odd[r] = fma(second, set1(inputs[r][1][row]), odd[r]);
        }
      });
      for (size_t r = 0; r < R; r++) totals[r] = add(totals[r], add(even[r], odd[r]));
    }
    for (size_t r = 0; r < R; r++) storePartial(block.output + r * block.outputStride + first, totals[r], outputs);
  }
}

template <typename Unpacker>
static void multiplyFused(const Unpacker& unpacker, const MatmulBlock& block) {
  const DenormalsAreZeros denormals;
  if (block.rows == 1) multiplyFusedRows<1>(unpacker, block);
  else multiplyFusedRows<2>(unpacker, block);
}

}  // namespace spillway::SPILLWAY_ISA
