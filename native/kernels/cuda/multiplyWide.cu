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
  using Steps = SplitSteps<kGroups, kSteps, kRowStages, kChunkStages>;
};

// Splits one after another, each added to the total of those before.
template <WeightType Type, unsigned Tiles>
__global__ __launch_bounds__(kThreads) void multiplyWideKernel(Product<Type> product) {
  using Of = Ring<Type, Tiles>;
  static_assert(kPanels == kWarps);
  uint8_t* rowRing = sharedAs<uint8_t>();
  uint8_t* chunkRing = rowRing + Of::kRowStages * Of::kRowStageBytes;
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const unsigned warpRow = warp / kPanelWarps * Tiles * 16, warpPanel = warp % kPanelWarps * kWarpPanels;
  const unsigned inputs = product.weights.inputs;
  const size_t firstRow = size_t{blockIdx.x} * Of::kRows, firstPanel = size_t{blockIdx.y} * kPanels;
  const size_t panels = (size_t{product.weights.outputs} + kPanelOutputs - 1) / kPanelOutputs;
  const unsigned stepsOfSplit = chunksOfSplit(inputs, Of::Steps::kChunkInputs) * Of::kSteps;
  // Each warp asks for a panel of the block. After the last panel there are none: it is the last one once more.
  const uint8_t* panelOfWarp =
      product.weights.panels + (firstPanel + warp < panels ? firstPanel + warp : panels - 1) * product.panelBytes;

  const auto rowsAt = [=](const auto& steps) { return rowRing + steps.rowStage * Of::kRowStageBytes; };
  const auto chunksAt = [=](const auto& steps) { return chunkRing + steps.chunkStage * Of::kChunkStageBytes; };

  const RowFetcher<kThreads, Of::kRows, Of::kGroups> rows(product, firstRow, threadIdx.x);
  typename Of::Steps ahead{stepsOfSplit};
  const auto fetch = [&] {
    if (!ahead.done()) {
      if (ahead.ofChunk() == 0 && ahead.firstInput() < inputs)
        fetchChunk<Type>(panelOfWarp, inputs, ahead.chunk(), lane, chunksAt(ahead) + warp * Chunk<Type>::kBytes);
      rows.fetch(rowsAt(ahead), ahead.firstInput());
      ahead.advance();
    }
    commitCopies();
  };

  float totals[Tiles][kWarpPanels][2][4] = {}, sums[Tiles][kWarpPanels][2][4] = {};
#pragma unroll
  for (unsigned step = 0; step < Of::kAhead; step++) fetch();
  typename Of::Steps steps{stepsOfSplit};
  for (unsigned split = 0; split < kSplits; split++) {
    for (unsigned i = 0; i < stepsOfSplit; i++, steps.advance()) {
      waitForCopies<Of::kAhead - 1>();
      __syncthreads();  // all copies of this step are there, and everybody is done with the stage that is filled next
      fetch();
      const unsigned from = steps.firstInput();
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
              weightsOfGroup<Type>(chunksAt(steps) + (warpPanel + panel) * Chunk<Type>::kBytes,
                                   steps.ofChunk() * Of::kGroups + group, side, lane, inputs - first, b[panel][side]);
#pragma unroll
          for (unsigned tile = 0; tile < Tiles; tile++)
            multiplyGroup(rowsAt(steps) + (group * Of::kRows + warpRow + 16 * tile) * kRowBytes, lane, b, sums[tile]);
        }
      };
      // Whole steps without a branch between their groups, so that one loads while another multiplies.
      if (from + Of::Steps::kInputs <= inputs)
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
#pragma unroll
      for (unsigned panel = 0; panel < kWarpPanels; panel++)
#pragma unroll
        for (unsigned side = 0; side < 2; side++)
#pragma unroll
          for (unsigned i = 0; i < 2; i++) {
            const size_t output = (firstPanel + warpPanel + panel) * kPanelOutputs + 8 * side + 2 * (lane % 4) + i;
            if (output < product.weights.outputs) product.store(row, output, totals[tile][panel][side][2 * half + i]);
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

void multiplyWide(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const ProductOutput& output,
                  bool sixtyFour) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const Product<kType> product = productOf<kType>(weights, x, output);
    sixtyFour ? run<kType, 2>(stream, product) : run<kType, 4>(stream, product);
  });
}

}  // namespace spillway::cuda
