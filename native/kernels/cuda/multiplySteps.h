// What the kernels of y = x Wᵀ have in common: which inputs they sum in which order, and how a panel's weights and rows
// come to shared memory. A result is the sum of `kSplits` sums, in order; each is over every kSplits-th chunk of the
// inputs, in order, whatever the kernel: which of them computes a row makes no difference to its bits.
#pragma once
#include "Matmul.h"
#include "asyncCopy.h"
#include "panel.h"
#include "tensorCore.h"

namespace spillway::cuda {

constexpr unsigned kSplits = 4;
constexpr unsigned kRowBytes = kGroupInputs * sizeof(uint16_t);  // of a row's values, in a group

// A chunk is what a warp takes of a panel at a time: 1 or 2 KiB of values, or a super block's, and their scales.
template <WeightType Type>
struct Chunk {
  using Panel = PanelOf<Type>;
  // Types with super blocks need whole ones.
  static constexpr unsigned kGroups = Panel::kSuper                ? kSuperGroups
                                      : Panel::kGroupBytes >= 2048 ? 1
                                      : Panel::kGroupBytes >= 1024 ? 2
                                                                   : 4;
  static_assert(kGroups % Panel::kGroupsPerScales == 0);
  static constexpr unsigned kValueBytes = kGroups * Panel::kGroupBytes;
  static constexpr unsigned kScaleBytes = kGroups / Panel::kGroupsPerScales * Panel::kScaleStride;
  static constexpr unsigned kBytes = kValueBytes + kScaleBytes;
};

template <WeightType Type>
struct Product {
  DeviceMatrix weights;
  size_t panelBytes;
  const uint16_t* x;
  size_t xStride;
  const float* factors;
  size_t rows;
  const float* bias;
  float* output;
  size_t outputStride;
};

// Panels of 16 bits have a row of 16 outputs an input, which ldmatrix turns round. Pieces of 16 bytes lie in an order
// in which the eight rows that it reads at once fall on different banks.
template <WeightType Type>
constexpr bool kTurned = PanelOf<Type>::kElementBytes == 2 && !PanelOf<Type>::kQuantised;
__device__ __forceinline__ unsigned turnedPlace(unsigned piece) { return piece ^ (piece / 16 % 4); }

// The warp's lanes ask for one chunk of the panel.
template <WeightType Type>
__device__ __forceinline__ void fetchChunk(const uint8_t* panel, size_t inputs, unsigned chunk, unsigned lane,
                                           uint8_t* to) {
  using Panel = PanelOf<Type>;
  const size_t first = size_t{chunk} * Chunk<Type>::kGroups * kGroupInputs;
  size_t valueBytes, scaleBytes = 0;
  if constexpr (Panel::kQuantised) {
    const size_t groups = inputs / kGroupInputs - first / kGroupInputs;
    valueBytes = groups * Panel::kGroupBytes;
    scaleBytes = groups / Panel::kGroupsPerScales * Panel::kScaleStride;
  } else {
    valueBytes = (inputs - first) * kPanelOutputs * Panel::kElementBytes;
  }
  if (valueBytes > Chunk<Type>::kValueBytes) valueBytes = Chunk<Type>::kValueBytes;
  if (scaleBytes > Chunk<Type>::kScaleBytes) scaleBytes = Chunk<Type>::kScaleBytes;
  const uint8_t* values = panel + first / kGroupInputs * Panel::kGroupBytes;
  if constexpr (kTurned<Type>) {
    // Zeros behind the last input: a group is read as a whole.
#pragma unroll
    for (unsigned piece = lane; piece < Chunk<Type>::kValueBytes / 16; piece += kWarp) {
      const bool isThere = 16 * piece < valueBytes;
      copy16Async(to + 16 * turnedPlace(piece), isThere ? values + 16 * piece : values, isThere ? 16 : 0);
    }
  } else {
    for (size_t at = 16 * lane; at < valueBytes; at += 16 * kWarp) copy16Async(to + at, values + at);
  }
  if constexpr (Panel::kQuantised) {
    const uint8_t* scales = panel + Panel::scalesBegin(inputs) + size_t{chunk} * Chunk<Type>::kScaleBytes;
    for (size_t at = 16 * lane; at < scaleBytes; at += 16 * kWarp)
      copy16Async(to + Chunk<Type>::kValueBytes + at, scales + at);
  }
}

// By the whole warp, from a chunk in shared memory: words[i] is what this lane holds of the group's weights of outputs
// 8 side + lane / 4, inputs 8 (lane % 4) and on, in the order of HalfRows: b of two steps of the tensor cores.
// inputsLeft: from the group's first on.
template <WeightType Type>
__device__ __forceinline__ void weightsOfGroup(const uint8_t* chunk, unsigned group, unsigned side, unsigned lane,
                                               unsigned inputsLeft, uint32_t words[4]) {
  const uint8_t* values = chunk + group * PanelOf<Type>::kGroupBytes;
  if constexpr (kTurned<Type>) {
    // Lane 8 m + r asks for row r of matrix m. A lane gets rows 2 part and 2 part + 1.
    const unsigned matrix = lane / 8, row = lane % 8;
    const unsigned input = row / 2 * 8 + row % 2 * 2 + matrix % 2 + matrix / 2 * 4;
    loadMatricesTransposed(words, reinterpret_cast<const uint16_t*>(values + 16 * turnedPlace(2 * input + side)));
    if constexpr (Type != WeightType::F16)
#pragma unroll
      for (unsigned i = 0; i < 4; i++)
        words[i] = packHalves(fromBfloat16(static_cast<uint16_t>(words[i] & 0xffff)),
                              fromBfloat16(static_cast<uint16_t>(words[i] >> 16)));
  } else {
    weightsOfPart<Type>(values, chunk + Chunk<Type>::kValueBytes, group, lane / 4 + 8 * side, lane % 4, inputsLeft,
                        words);
  }
}

// Where 16 bytes of a row, one of four, lie in shared memory, [rows][kRowBytes]: the eight rows that ldmatrix reads at
// once fall on different banks.
__device__ __forceinline__ unsigned rowPlace(unsigned row, unsigned piece) {
  return row * kRowBytes + (piece ^ (row / 2 % 4)) * 16;
}

// sums += 16 rows, from shared memory, times a group's weights of 16 outputs.
template <unsigned Panels>
__device__ __forceinline__ void multiplyGroup(const uint8_t* rows, unsigned lane, const uint32_t (&b)[Panels][2][4],
                                              float (&sums)[Panels][2][4]) {
  // Lane 8 m + r asks for row r of matrix m: eight rows, the other eight, both of the next 16 bytes.
  const unsigned place = rowPlace(lane % 8 + lane / 8 % 2 * 8, lane / 16);
#pragma unroll
  for (unsigned step = 0; step < 2; step++) {
    uint32_t a[4];
    loadMatrices(a, reinterpret_cast<const uint16_t*>(rows + (place ^ (32 * step))));
#pragma unroll
    for (unsigned panel = 0; panel < Panels; panel++)
#pragma unroll
      for (unsigned side = 0; side < 2; side++) mma16x8x16(sums[panel][side], a, b[panel][side] + 2 * step);
  }
}

// Of a block whose warps have a split of a panel each: the splits' sums, added in order, by way of shared memory that
// is done with: partials, [Panels][kSplits][16 Tiles][kPanelOutputs].
template <unsigned Tiles, unsigned Panels, WeightType Type>
__device__ __forceinline__ void storeTotals(const Product<Type>& product, const float (&sums)[Tiles][1][2][4],
                                            unsigned panel, unsigned split, size_t firstRow, float* partials) {
  constexpr unsigned kPanelSums = 16 * Tiles * kPanelOutputs, kOutputs = Panels * kPanelOutputs;
  const unsigned lane = threadIdx.x % kWarp;
  __syncthreads();
#pragma unroll
  for (unsigned tile = 0; tile < Tiles; tile++)
#pragma unroll
    for (unsigned side = 0; side < 2; side++)
#pragma unroll
      for (unsigned i = 0; i < 4; i++) {
        const unsigned row = 16 * tile + lane / 4 + 8 * (i / 2), output = 8 * side + 2 * (lane % 4) + i % 2;
        partials[(panel * kSplits + split) * kPanelSums + row * kPanelOutputs + output] = sums[tile][0][side][i];
      }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < Panels * kPanelSums; i += kSplits * Panels * kWarp) {
    const unsigned output = i % kOutputs, row = i / kOutputs;  // outputs of all panels side by side
    const size_t toRow = firstRow + row, toOutput = size_t{blockIdx.x} * kOutputs + output;
    if (toRow >= product.rows || toOutput >= product.weights.outputs) continue;
    const float* of =
        partials + output / kPanelOutputs * kSplits * kPanelSums + row * kPanelOutputs + output % kPanelOutputs;
    float total = of[0];
#pragma unroll
    for (unsigned other = 1; other < kSplits; other++) total += of[other * kPanelSums];
    total *= product.factors[toRow];
    product.output[toRow * product.outputStride + toOutput] =
        product.bias == nullptr ? total : total + product.bias[toOutput];
  }
}

// By blocks of each kind: multiplyFew.cu, multiplySome.cu, multiplyWide.cu (64 or 128 rows), and multiplyWarpgroups.cu,
// for architecture 9.0 alone.
void multiplyFew(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias, float* output,
                 size_t outputStride);
void multiplySome(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias, float* output,
                  size_t outputStride);
void multiplyWide(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias, float* output,
                  size_t outputStride, bool sixtyFour);
void multiplyWarpgroups(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias,
                        float* output, size_t outputStride, bool allSplits);

template <WeightType Type>
Product<Type> productOf(const DeviceMatrix& weights, const HalfRows& x, const float* bias, float* output,
                        size_t outputStride) {
  return {
      weights,     panelStride<Type>(weights.inputs), x.values, halfColumns(x.columns), x.factors, x.rows, bias, output,
      outputStride};
}

}  // namespace spillway::cuda
