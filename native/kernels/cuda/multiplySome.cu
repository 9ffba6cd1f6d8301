#include "multiplySteps.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kTiles = 4, kRows = 16 * kTiles, kPanels = 2, kWarps = kSplits * kPanels, kThreads = kWarps * kWarp;

// A block steps through the groups of its splits' chunks; a step's rows, and with a chunk's first group its weights,
// are fetched `kAhead` steps before. Within 99 KiB, which some architectures have of shared memory.
template <WeightType Type>
struct Ring {
  static constexpr unsigned kAhead = PanelOf<Type>::kSuper ? 1 : 2;
  static constexpr unsigned kRowStages = kAhead + 1, kRowStageBytes = kRows * kRowBytes;
  static constexpr unsigned kChunkStages = (kAhead + Chunk<Type>::kGroups - 1) / Chunk<Type>::kGroups + 1;
  static constexpr size_t kBytes =
      kSplits * kRowStages * size_t{kRowStageBytes} + kWarps * kChunkStages * size_t{Chunk<Type>::kBytes};
  static constexpr size_t kPartialBytes = kWarps * kRows * kPanelOutputs * sizeof(float);
  static constexpr size_t kSharedBytes = kBytes > kPartialBytes ? kBytes : kPartialBytes;
  static_assert(kSharedBytes <= 99 * 1024);
};

// A block takes two panels and 64 rows; a warp has a split of one of the panels. The two of a split share their rows.
template <WeightType Type>
__global__ __launch_bounds__(kThreads) void multiplySomeKernel(Product<Type> product) {
  constexpr unsigned kGroups = Chunk<Type>::kGroups, kAhead = Ring<Type>::kAhead;
  constexpr unsigned kRowStageBytes = Ring<Type>::kRowStageBytes, kChunkStages = Ring<Type>::kChunkStages;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, split = warp / kPanels, panel = warp % kPanels;
  const unsigned inputs = product.weights.inputs;
  const size_t firstRow = size_t{blockIdx.y} * kRows;
  const size_t panels = (size_t{product.weights.outputs} + kPanelOutputs - 1) / kPanelOutputs,
               panelIndex = size_t{blockIdx.x} * kPanels + panel;
  // After the last panel there are none: a warp computes the last one once more, and nobody takes it.
  const uint8_t* weights =
      product.weights.panels + (panelIndex < panels ? panelIndex : panels - 1) * product.panelBytes;
  constexpr unsigned kChunkInputs = kGroups * static_cast<unsigned>(kGroupInputs);
  const unsigned chunks = (inputs + kChunkInputs - 1) / kChunkInputs;
  const unsigned steps = (chunks + kSplits - 1) / kSplits * kGroups;  // of every split
  uint8_t* rowRing = sharedAs<uint8_t>() + split * Ring<Type>::kRowStages * kRowStageBytes;
  uint8_t* chunkRing = sharedAs<uint8_t>() + kSplits * Ring<Type>::kRowStages * kRowStageBytes +
                       warp * kChunkStages * Chunk<Type>::kBytes;
  const auto chunkOf = [=](unsigned step) { return split + step / kGroups * kSplits; };
  const auto firstInput = [=](unsigned step) {
    return (chunkOf(step) * kGroups + step % kGroups) * static_cast<unsigned>(kGroupInputs);
  };
  const auto chunkAt = [=](unsigned step) { return chunkRing + step / kGroups % kChunkStages * Chunk<Type>::kBytes; };
  const auto rowsAt = [=](unsigned step) { return rowRing + step % Ring<Type>::kRowStages * kRowStageBytes; };
  // 16 bytes of a row at a time, its four next to each other; zeros in the place of rows that are not.
  constexpr unsigned kPieces = kRows * 4 / (kPanels * kWarp), kPieceRows = kPanels * kWarp / 4;
  const unsigned firstPiece = panel * kWarp + lane, firstPlace = rowPlace(firstPiece / 4, firstPiece % 4);
  const auto fetch = [&](unsigned step) {
    const unsigned from = firstInput(step);
    if (step < steps && from < inputs) {
      if (step % kGroups == 0) fetchChunk<Type>(weights, inputs, chunkOf(step), lane, chunkAt(step));
#pragma unroll
      for (unsigned i = 0; i < kPieces; i++) {
        const size_t row = firstRow + firstPiece / 4 + i * kPieceRows;
        const bool isThere = row < product.rows;
        copy16Async(rowsAt(step) + firstPlace + i * kPieceRows * kRowBytes,
                    product.x + (isThere ? row : firstRow) * product.xStride + from + 8 * (firstPiece % 4),
                    isThere ? 16 : 0);
      }
    }
    commitCopies();
  };

  float sums[kTiles][1][2][4] = {};
#pragma unroll
  for (unsigned step = 0; step < kAhead; step++) fetch(step);
  for (unsigned step = 0; step < steps; step++) {
    waitForCopies<kAhead - 1>();
    __syncthreads();  // all copies of this step are there, and everybody is done with the stage that is filled next
    fetch(step + kAhead);
    const unsigned from = firstInput(step);
    if (from >= inputs) continue;
    uint32_t b[1][2][4];
#pragma unroll
    for (unsigned side = 0; side < 2; side++)
      weightsOfGroup<Type>(chunkAt(step), step % kGroups, side, lane, inputs - from, b[0][side]);
#pragma unroll
    for (unsigned tile = 0; tile < kTiles; tile++)
      multiplyGroup(rowsAt(step) + tile * 16 * kRowBytes, lane, b, sums[tile]);
  }
  waitForCopies<0>();
  storeTotals<kTiles, kPanels>(product, sums, panel, split, firstRow, sharedAs<float>());
}

}  // namespace

void multiplySome(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const dim3 grid(divideUp(weights.outputs, kPanels * kPanelOutputs), divideUp(x.rows, kRows));
    launch("multiplySome", multiplySomeKernel<kType>, grid, kThreads, Ring<kType>::kSharedBytes, stream,
           productOf<kType>(weights, x, output));
  });
}

}  // namespace spillway::cuda
