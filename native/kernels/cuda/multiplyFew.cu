#include "multiplySteps.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = kSplits * kWarp, kRows = 16;

// A stage of a warp's ring is a chunk, with the rows of its groups: [group][kRows][kRowBytes].
template <WeightType Type>
struct Ring {
  static constexpr unsigned kRowsBytes = Chunk<Type>::kGroups * kRows * kRowBytes;
  static constexpr unsigned kStages = PanelOf<Type>::kQuantised ? 2 : 3;
  static constexpr unsigned kBytes = kStages * (kRowsBytes + Chunk<Type>::kBytes);
  static constexpr size_t kPartialBytes = kSplits * kRows * kPanelOutputs * sizeof(float);
  static constexpr size_t kSharedBytes = kSplits * kBytes > kPartialBytes ? kSplits * kBytes : kPartialBytes;
  static_assert(kSharedBytes <= 99 * 1024);
};

// A block takes a panel and up to 16 rows; its warps, a split each, work by themselves. A chunk at a time, so that what
// one of its groups waits for is another's work.
template <WeightType Type>
__global__ __launch_bounds__(kThreads) void multiplyFewKernel(Product<Type> product) {
  constexpr unsigned kGroups = Chunk<Type>::kGroups, kStages = Ring<Type>::kStages;
  constexpr unsigned kChunkInputs = kGroups * static_cast<unsigned>(kGroupInputs), kRowPieces = 4 * kGroups;
  const unsigned split = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned inputs = product.weights.inputs, chunks = (inputs + kChunkInputs - 1) / kChunkInputs;
  const uint8_t* panel = product.weights.panels + blockIdx.x * product.panelBytes;
  const size_t firstRow = size_t{blockIdx.y} * kRows;
  const unsigned rows = product.rows - firstRow < kRows ? static_cast<unsigned>(product.rows - firstRow) : kRows;
  uint8_t* rowRing = sharedAs<uint8_t>() + split * Ring<Type>::kBytes;
  uint8_t* chunkRing = rowRing + kStages * Ring<Type>::kRowsBytes;

  // Rows that are not there are zeros, and stay so.
  for (unsigned piece = lane; piece < kStages * Ring<Type>::kRowsBytes / 16; piece += kWarp)
    if (piece / 4 % kRows >= rows) *reinterpret_cast<uint4*>(rowRing + 16 * piece) = uint4{0, 0, 0, 0};
  const auto fetch = [&](unsigned turn) {
    const unsigned chunk = split + turn * kSplits, first = chunk * kChunkInputs;
    if (chunk < chunks) {
      fetchChunk<Type>(panel, inputs, chunk, lane, chunkRing + turn % kStages * Chunk<Type>::kBytes);
      uint8_t* to = rowRing + turn % kStages * Ring<Type>::kRowsBytes;
      const uint16_t* from = product.x + firstRow * product.xStride + first;
#pragma unroll
      for (unsigned i = 0; i < kRows * kRowPieces / kWarp; i++) {
        const unsigned piece = i * kWarp + lane, row = piece / kRowPieces, group = piece % kRowPieces / 4;
        if (row < rows && first + group * kGroupInputs < inputs)
          copy16Async(to + group * kRows * kRowBytes + rowPlace(row, piece % 4),
                      from + row * product.xStride + piece % kRowPieces * 8);
      }
    }
    commitCopies();
  };

  float sums[1][1][2][4] = {};
#pragma unroll
  for (unsigned turn = 0; turn + 1 < kStages; turn++) fetch(turn);
  for (unsigned turn = 0; split + turn * kSplits < chunks; turn++) {
    waitForCopies<kStages - 2>();
    __syncwarp();  // all lanes' copies are there, and all lanes are done with the stage that is filled next
    fetch(turn + kStages - 1);
    const uint8_t* chunk = chunkRing + turn % kStages * Chunk<Type>::kBytes;
    const uint8_t* rowsOfChunk = rowRing + turn % kStages * Ring<Type>::kRowsBytes;
    const unsigned left = inputs - (split + turn * kSplits) * kChunkInputs;
#pragma unroll
    for (unsigned group = 0; group < kGroups; group++) {
      if (group * kGroupInputs >= left) continue;
      uint32_t b[1][2][4];
#pragma unroll
      for (unsigned side = 0; side < 2; side++)
        weightsOfGroup<Type>(chunk, group, side, lane, left - group * static_cast<unsigned>(kGroupInputs), b[0][side]);
      multiplyGroup(rowsOfChunk + group * kRows * kRowBytes, lane, b, sums[0]);
    }
  }
  waitForCopies<0>();
  storeTotals<1, 1>(product, sums, 0, split, firstRow, sharedAs<float>());
}

}  // namespace

void multiplyFew(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const dim3 grid(divideUp(weights.outputs, kPanelOutputs), divideUp(x.rows, kRows));
    launch("multiplyFew", multiplyFewKernel<kType>, grid, kThreads, Ring<kType>::kSharedBytes, stream,
           productOf<kType>(weights, x, output));
  });
}

}  // namespace spillway::cuda
