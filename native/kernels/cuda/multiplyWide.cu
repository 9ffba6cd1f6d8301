#include "multiplySteps.h"

namespace spillway::cuda {
namespace {

// A block's eight warps take 16 Tiles rows and two panels each.
constexpr unsigned kWarps = 8, kThreads = kWarps * kWarp;
constexpr unsigned kWarpPanels = 2, kPanelWarps = 4, kPanels = kPanelWarps * kWarpPanels;

// A step is two groups of the inputs, if a chunk has two; it is fetched `kAhead` steps before. Within 99 KiB, which
// some architectures have of shared memory.
template <WeightType Type, unsigned Tiles>
struct Ring {
  static constexpr unsigned kGroups = Chunk<Type>::kGroups < 2 ? 1 : 2, kSteps = Chunk<Type>::kGroups / kGroups;
  static constexpr unsigned kAhead = PanelOf<Type>::kSuper ? 1 : 2;
  static constexpr unsigned kRows = kWarps / kPanelWarps * Tiles * 16;
  static constexpr unsigned kRowStages = kAhead + 1, kRowStageBytes = kGroups * kRows * kRowBytes;
  static constexpr unsigned kChunkStages = (kAhead + kSteps - 1) / kSteps + 1;
  static constexpr unsigned kChunkStageBytes = kPanels * Chunk<Type>::kBytes;
  static constexpr size_t kBytes = kRowStages * size_t{kRowStageBytes} + kChunkStages * size_t{kChunkStageBytes};
  static_assert(kBytes <= 99 * 1024);
};

// Splits one after another, each added to the total of those before.
template <WeightType Type, unsigned Tiles>
__global__ __launch_bounds__(kThreads) void multiplyWideKernel(Product<Type> product) {
  using Of = Ring<Type, Tiles>;
  static_assert(kPanels == kWarps);
  constexpr unsigned kStepInputs = Of::kGroups * static_cast<unsigned>(kGroupInputs),
                     kChunkInputs = Of::kSteps * kStepInputs;
  uint8_t* rowRing = sharedAs<uint8_t>();
  uint8_t* chunkRing = rowRing + Of::kRowStages * Of::kRowStageBytes;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned warpRow = warp / kPanelWarps * Tiles * 16, warpPanel = warp % kPanelWarps * kWarpPanels;
  const unsigned inputs = product.weights.inputs;
  const size_t firstRow = size_t{blockIdx.x} * Of::kRows, firstPanel = size_t{blockIdx.y} * kPanels;
  const size_t panels = (size_t{product.weights.outputs} + kPanelOutputs - 1) / kPanelOutputs;
  const unsigned chunks = (inputs + kChunkInputs - 1) / kChunkInputs;
  const unsigned stepsOfSplit = (chunks + kSplits - 1) / kSplits * Of::kSteps;
  // Each warp asks for a panel of the block. Behind the last panel there are none: it is the last one once more.
  const uint8_t* panelOfWarp =
      product.weights.panels + (firstPanel + warp < panels ? firstPanel + warp : panels - 1) * product.panelBytes;

  const auto chunkOf = [](unsigned split, unsigned i) { return split + i / Of::kSteps * kSplits; };
  const auto firstInput = [=](unsigned split, unsigned i) {
    return chunkOf(split, i) * kChunkInputs + i % Of::kSteps * kStepInputs;
  };
  const auto chunksAt = [=](unsigned step) {
    return chunkRing + step / Of::kSteps % Of::kChunkStages * Of::kChunkStageBytes;
  };
  const auto rowsAt = [=](unsigned step) { return rowRing + step % Of::kRowStages * Of::kRowStageBytes; };

  // Of every row 16 bytes at a time, those of a step next to each other: a thread has the same ones of every so many
  // rows. Rows that are not there are read as the first, and become zeros.
  constexpr unsigned kRowPieces = 4 * Of::kGroups, kPieceRows = kThreads / kRowPieces, kPieces = Of::kRows / kPieceRows;
  const unsigned pieceRow = threadIdx.x / kRowPieces, pieceGroup = threadIdx.x % kRowPieces / 4;
  const unsigned rowsHere =
      product.rows - firstRow < Of::kRows ? static_cast<unsigned>(product.rows - firstRow) : Of::kRows;
  const uint16_t* rowsFrom = product.x + firstRow * product.xStride + threadIdx.x % kRowPieces * 8;
  const unsigned pieceTo = pieceGroup * Of::kRows * kRowBytes + rowPlace(pieceRow, threadIdx.x % 4);
  // The steps that are fetched, in order.
  unsigned aheadSplit = 0, aheadInSplit = 0;
  const auto fetch = [&](unsigned step) {
    const unsigned from = firstInput(aheadSplit, aheadInSplit);
    if (aheadSplit < kSplits && from < inputs) {
      if (aheadInSplit % Of::kSteps == 0)
        fetchChunk<Type>(panelOfWarp, inputs, chunkOf(aheadSplit, aheadInSplit), lane,
                         chunksAt(step) + warp * Chunk<Type>::kBytes);
      if (from + pieceGroup * kGroupInputs < inputs) {
        uint8_t* to = rowsAt(step) + pieceTo;
#pragma unroll
        for (unsigned i = 0; i < kPieces; i++) {
          const unsigned row = pieceRow + i * kPieceRows;
          const bool isThere = row < rowsHere;
          copy16Async(to + i * kPieceRows * kRowBytes, rowsFrom + (isThere ? row : 0) * product.xStride + from,
                      isThere ? 16 : 0);
        }
      }
    }
    commitCopies();
    if (++aheadInSplit == stepsOfSplit) {
      aheadInSplit = 0;
      aheadSplit++;
    }
  };

  float totals[Tiles][kWarpPanels][2][4] = {}, sums[Tiles][kWarpPanels][2][4] = {};
#pragma unroll
  for (unsigned step = 0; step < Of::kAhead; step++) fetch(step);
  for (unsigned split = 0, step = 0; split < kSplits; split++) {
    for (unsigned i = 0; i < stepsOfSplit; i++, step++) {
      waitForCopies<Of::kAhead - 1>();
      __syncthreads();  // all copies of this step are there, and everybody is done with the stage that is filled next
      fetch(step + Of::kAhead);
      const unsigned from = firstInput(split, i);
      const auto multiplyStep = [&](unsigned groups) {
#pragma unroll
        for (unsigned group = 0; group < Of::kGroups; group++) {
          if (group >= groups) continue;
          const unsigned first = from + group * static_cast<unsigned>(kGroupInputs);
          uint32_t b[kWarpPanels][2][4];
#pragma unroll
          for (unsigned panel = 0; panel < kWarpPanels; panel++)
#pragma unroll
            for (unsigned side = 0; side < 2; side++)
              weightsOfGroup<Type>(chunksAt(step) + (warpPanel + panel) * Chunk<Type>::kBytes,
                                   i % Of::kSteps * Of::kGroups + group, side, lane, inputs - first, b[panel][side]);
#pragma unroll
          for (unsigned tile = 0; tile < Tiles; tile++)
            multiplyGroup(rowsAt(step) + (group * Of::kRows + warpRow + 16 * tile) * kRowBytes, lane, b, sums[tile]);
        }
      };
      // Whole steps without a branch between their groups, so that one loads while another multiplies.
      if (from + kStepInputs <= inputs)
        multiplyStep(Of::kGroups);
      else if (from < inputs)
        multiplyStep(divideUp(inputs - from, kGroupInputs));
    }
#pragma unroll
    for (unsigned tile = 0; tile < Tiles; tile++)
#pragma unroll
      for (unsigned panel = 0; panel < kWarpPanels; panel++)
#pragma unroll
        for (unsigned side = 0; side < 2; side++)
#pragma unroll
          for (unsigned i = 0; i < 4; i++) {
            float& sum = sums[tile][panel][side][i];
            float& total = totals[tile][panel][side][i];
            total = split == 0 ? sum : total + sum;
            sum = 0;
          }
  }
  waitForCopies<0>();

#pragma unroll
  for (unsigned tile = 0; tile < Tiles; tile++)
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
      const size_t row = firstRow + warpRow + 16 * tile + lane / 4 + 8 * half;
      if (row >= product.rows) continue;
      const float factor = product.factors[row];
      float* to = product.output + row * product.outputStride;
#pragma unroll
      for (unsigned panel = 0; panel < kWarpPanels; panel++)
#pragma unroll
        for (unsigned side = 0; side < 2; side++)
#pragma unroll
          for (unsigned i = 0; i < 2; i++) {
            const size_t output = (firstPanel + warpPanel + panel) * kPanelOutputs + 8 * side + 2 * (lane % 4) + i;
            if (output >= product.weights.outputs) continue;
            const float total = totals[tile][panel][side][2 * half + i] * factor;
            to[output] = product.bias == nullptr ? total : total + product.bias[output];
          }
    }
}

template <WeightType Type, unsigned Tiles>
void run(cudaStream_t stream, const Product<Type>& product) {
  // Blocks that follow each other have their weights in common: rows are fewer, and stay in the second-level cache.
  const dim3 grid(divideUp(product.rows, Ring<Type, Tiles>::kRows),
                  divideUp(product.weights.outputs, kPanels * kPanelOutputs));
  launch("multiplyWide", multiplyWideKernel<Type, Tiles>, grid, kThreads, Ring<Type, Tiles>::kBytes, stream, product);
}

}  // namespace

void multiplyWide(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias, float* output,
                  size_t outputStride, bool sixtyFour) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const Product<kType> product = productOf<kType>(weights, x, bias, output, outputStride);
    sixtyFour ? run<kType, 2>(stream, product) : run<kType, 4>(stream, product);
  });
}

}  // namespace spillway::cuda
