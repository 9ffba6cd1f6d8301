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
static_assert(kRowBytes == kGroupInputs * sizeof(uint16_t));  // a group of the inputs is what rows stand in

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
  static constexpr unsigned kScaleBytes = static_cast<unsigned>(Panel::scaleBytes(kGroups));
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
  ProductOutput to;

  // What becomes of a sum.
  __device__ __forceinline__ void store(size_t row, size_t output, float total) const {
    total *= factors[row];
    if (to.bias != nullptr) total += to.bias[output];
    float& value = to.values[row * to.stride + output];
    value = to.adds ? value + total : total;
  }
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
    scaleBytes = Panel::scaleBytes(groups);
  } else {
    valueBytes = (inputs - first) * kPanelOutputs * Panel::kElementBytes;
  }
  if (valueBytes > Chunk<Type>::kValueBytes) valueBytes = Chunk<Type>::kValueBytes;
  if (scaleBytes > Chunk<Type>::kScaleBytes) scaleBytes = Chunk<Type>::kScaleBytes;
  const uint8_t* values = panel + first / kGroupInputs * Panel::kGroupBytes;
  if constexpr (kTurned<Type>) {
    // Zeros after the last input: a group is read as a whole.
#pragma unroll
    for (unsigned piece = lane; piece < Chunk<Type>::kValueBytes / 16; piece += kWarp) {
      const bool isThere = 16 * piece < valueBytes;
      copy16Async(to + 16 * turnedPlace(piece), isThere ? values + 16 * piece : values, isThere ? 16 : 0);
    }
  } else {
    for (size_t at = 16 * lane; at < valueBytes; at += 16 * kWarp) copy16Async(to + at, values + at);
  }
  if constexpr (Panel::kQuantised) {
    const uint8_t* scales =
        panel + Panel::scalesBegin(inputs) + first / kGroupInputs / Panel::kGroupsPerScales * Panel::kScaleStride;
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

// The steps of a block that takes a sum's splits one after another, `Groups` groups of the inputs each, `Steps` of them
// a chunk; rows and chunks come through rings of so many stages. A split has as many steps as any other: where it ends
// before, its last ones are after the inputs.
template <unsigned Groups, unsigned Steps, unsigned RowStages, unsigned ChunkStages>
struct SplitSteps {
  static constexpr unsigned kInputs = Groups * static_cast<unsigned>(kGroupInputs), kChunkInputs = Steps * kInputs;
  unsigned ofSplit;  // steps
  unsigned split = 0, inSplit = 0, rowStage = 0, chunkStage = 0;

  __device__ __forceinline__ unsigned chunk() const { return split + inSplit / Steps * kSplits; }
  __device__ __forceinline__ unsigned ofChunk() const { return inSplit % Steps; }
  __device__ __forceinline__ unsigned firstInput() const { return chunk() * kChunkInputs + ofChunk() * kInputs; }
  __device__ __forceinline__ bool done() const { return split == kSplits; }
  __device__ __forceinline__ void advance() {
    if (++rowStage == RowStages) rowStage = 0;
    if (++inSplit % Steps == 0 && ++chunkStage == ChunkStages) chunkStage = 0;
    if (inSplit < ofSplit) return;
    inSplit = 0;
    split++;
  }
};
__device__ __forceinline__ unsigned chunksOfSplit(unsigned inputs, unsigned chunkInputs) {
  return ((inputs + chunkInputs - 1) / chunkInputs + kSplits - 1) / kSplits;
}

// What one of `Threads` threads fetches of a step's rows: 16 bytes at a time, those of a row next to each other, the
// same ones of every so many rows. Rows and inputs that are not there become zeros.
template <unsigned Threads, unsigned Rows, unsigned Groups>
struct RowFetcher {
  static constexpr unsigned kOfRow = 4 * Groups, kStep = Threads / kOfRow, kPieces = Rows / kStep;
  static_assert(Rows % kStep == 0 && kStep % 8 == 0);  // all of a thread's rows lie alike
  const uint16_t* from;
  size_t stride;
  unsigned inputs, group, place, there;

  template <WeightType Type>
  __device__ __forceinline__ RowFetcher(const Product<Type>& product, size_t firstRow, unsigned thread)
      : stride(kStep * product.xStride),
        inputs(product.weights.inputs),
        group(thread % kOfRow / 4),
        place(group * Rows * kRowBytes + rowPlace(thread / kOfRow, thread % 4)) {
    const unsigned row = thread / kOfRow;
    const size_t left = product.rows - firstRow < Rows ? product.rows - firstRow : Rows;
    there = left <= row ? 0 : divideUp(left - row, kStep);
    from = product.x + (firstRow + (there == 0 ? 0 : row)) * product.xStride + thread % kOfRow * 8;
  }

  __device__ __forceinline__ void fetch(uint8_t* stage, unsigned first) const {
    uint8_t* to = stage + place;
    const bool inside = first + group * kGroupInputs < inputs;
    const uint16_t* source = from + (inside ? first : 0);
    if (inside && there == kPieces) {
#pragma unroll
      for (unsigned i = 0; i < kPieces; i++) copy16Async(to + i * kStep * kRowBytes, source + i * stride);
      return;
    }
#pragma unroll
    for (unsigned i = 0; i < kPieces; i++) {
      const bool isThere = inside && i < there;
      copy16Async(to + i * kStep * kRowBytes, isThere ? source + i * stride : from, isThere ? 16 : 0);
    }
  }
};

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
    product.store(toRow, toOutput, total);
  }
}

// By blocks of each kind: multiplyFew.cu, multiplySome.cu, multiplyWide.cu (64 or 128 rows), and multiplyWarpgroups.cu,
// for architecture 9.0 alone.
void multiplyFew(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output);
void multiplySome(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output);
void multiplyWide(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output,
                  bool sixtyFour);
void multiplyWarpgroups(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x,
                        const ProductOutput& output);

template <WeightType Type>
Product<Type> productOf(const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output) {
  return {weights, panelStride<Type>(weights.inputs), x.values, halfColumns(x.columns), x.factors, x.rows, output};
}

}  // namespace spillway::cuda
