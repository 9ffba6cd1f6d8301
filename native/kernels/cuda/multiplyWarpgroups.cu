#include <type_traits>

#include "multiplySteps.h"
#include "warpgroup.h"

namespace spillway::cuda {
namespace {

// Each warp takes a panel, so a warpgroup takes four, and the block's rows. A block is a warpgroup for each split
// (`AllSplits`: where blocks are few), or one that takes them one after another, each added to the total of those
// before.
constexpr unsigned kRows = kWarpgroupRows;
template <bool AllSplits>
constexpr unsigned kThreads = (AllSplits ? kSplits : 1) * kWarpgroup;

// A step is a group of the inputs, or two; it is fetched `kAhead` steps before. Products of the step before may still
// read their rows. Within the 227 KiB that architecture 9.0 has.
template <WeightType Type, bool AllSplits>
struct Ring {
  static constexpr unsigned kPanels = 4;
  static_assert(kRowBytes == kWarpgroupRowBytes && kPanels * kPanelOutputs == kWarpgroupOutputs);
  static constexpr unsigned kGroups = AllSplits || Chunk<Type>::kGroups < 2 ? 1 : 2;
  static constexpr unsigned kSteps = Chunk<Type>::kGroups / kGroups;
  static constexpr unsigned kAhead = PanelOf<Type>::kSuper ? 1 : 2;
  static constexpr unsigned kRowTiles = AllSplits ? kSplits : 1, kRowTileBytes = kGroups * kRows * kRowBytes;
  static constexpr unsigned kRowStages = kAhead + 2, kRowStageBytes = kRowTiles * kRowTileBytes;
  static constexpr unsigned kChunkStages = (kAhead + kSteps - 1) / kSteps + 1;
  static constexpr unsigned kChunkStageBytes = kRowTiles * kPanels * Chunk<Type>::kBytes;
  static constexpr size_t kBytes = kRowStages * size_t{kRowStageBytes} + kChunkStages * size_t{kChunkStageBytes};
  // Of the splits' sums: four floats more a row, so that what a warp writes at once falls on different banks.
  static constexpr unsigned kPartialStride = kWarpgroupOutputs + 4;
  static constexpr size_t kPartialBytes = AllSplits ? kSplits * kRows * kPartialStride * sizeof(float) : 0;
  static constexpr size_t kSharedBytes = kBytes > kPartialBytes ? kBytes : kPartialBytes;
  static_assert(kSharedBytes <= 227 * 1024);
};

template <WeightType Type, bool AllSplits>
__device__ __forceinline__ void multiplyByWarpgroups(const Product<Type>& product) {
#ifdef SPILLWAY_WARPGROUPS
  using Of = Ring<Type, AllSplits>;
  constexpr unsigned kStepInputs = Of::kGroups * static_cast<unsigned>(kGroupInputs),
                     kChunkInputs = Of::kSteps * kStepInputs;
  // Exchanged, so that the compiler sees that a warp's lanes agree: it does not overlap products otherwise.
  const unsigned warp = __shfl_sync(kAllLanes, threadIdx.x / kWarp, 0), lane = threadIdx.x % kWarp;
  const unsigned firstSplit = AllSplits ? warp * kWarp / kWarpgroup : 0, splits = AllSplits ? 1 : kSplits;
  uint8_t* rowRing = sharedAs<uint8_t>() + firstSplit * Of::kRowTileBytes;
  uint8_t* chunkRing =
      sharedAs<uint8_t>() + Of::kRowStages * Of::kRowStageBytes + warp * static_cast<unsigned>(Chunk<Type>::kBytes);
  const unsigned inputs = product.weights.inputs;
  const size_t firstRow = size_t{blockIdx.x} * kRows, panel = size_t{blockIdx.y} * Of::kPanels + warp % Of::kPanels;
  const size_t panels = (size_t{product.weights.outputs} + kPanelOutputs - 1) / kPanelOutputs;
  const unsigned chunks = (inputs + kChunkInputs - 1) / kChunkInputs;
  const unsigned stepsOfSplit = (chunks + kSplits - 1) / kSplits * Of::kSteps;
  // Behind the last panel there are none: it is the last one once more.
  const uint8_t* panelOfWarp = product.weights.panels + (panel < panels ? panel : panels - 1) * product.panelBytes;
  const auto chunkOf = [](unsigned split, unsigned i) { return split + i / Of::kSteps * kSplits; };
  const auto firstInput = [=](unsigned split, unsigned i) {
    return chunkOf(split, i) * kChunkInputs + i % Of::kSteps * kStepInputs;
  };
  const auto chunkAt = [=](unsigned step) {
    return chunkRing + step / Of::kSteps % Of::kChunkStages * Of::kChunkStageBytes;
  };
  const auto rowsAt = [=](unsigned step) { return rowRing + step % Of::kRowStages * Of::kRowStageBytes; };

  // Of every row 16 bytes at a time, those of a step next to each other: a thread has the same ones of every so many
  // rows. Rows that are not there are read as the first, and become zeros.
  constexpr unsigned kFetching = kThreads<AllSplits> / Of::kRowTiles, kRowPieces = 4 * Of::kGroups,
                     kPieceRows = kFetching / kRowPieces, kPieces = kRows / kPieceRows;
  const unsigned fetching = threadIdx.x % kFetching, pieceGroup = fetching % kRowPieces / 4;
  const unsigned rowsHere = product.rows - firstRow < kRows ? static_cast<unsigned>(product.rows - firstRow) : kRows;
  const uint16_t* rowsFrom = product.x + firstRow * product.xStride + fetching % kRowPieces * 8;
  const unsigned pieceTo = pieceGroup * kRows * kRowBytes + swizzledPlace(fetching / kRowPieces, fetching % 4);
  // The steps that are fetched, in order.
  unsigned aheadSplit = firstSplit, aheadInSplit = 0;
  const auto fetch = [&](unsigned step) {
    const unsigned from = firstInput(aheadSplit, aheadInSplit);
    if (aheadSplit < firstSplit + splits && from < inputs) {
      if (aheadInSplit % Of::kSteps == 0)
        fetchChunk<Type>(panelOfWarp, inputs, chunkOf(aheadSplit, aheadInSplit), lane, chunkAt(step));
      if (from + pieceGroup * kGroupInputs < inputs) {
        uint8_t* to = rowsAt(step) + pieceTo;
#pragma unroll
        for (unsigned i = 0; i < kPieces; i++) {
          const unsigned row = fetching / kRowPieces + i * kPieceRows;
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

  float sums[kRows / 2] = {}, totals[AllSplits ? 1 : kRows / 2];
  // Weights of one step are loaded while products still take those of the step before.
  uint32_t weights[2][Of::kGroups][2][4];
  const auto multiplyStep = [&](auto turn, unsigned split, unsigned i, unsigned step) {
    waitForCopies<Of::kAhead - 1>();
    showToProducts();
    __syncthreads();  // all copies of this step are there, and everybody is done with the stage that is filled next
    fetch(step + Of::kAhead);
    const unsigned from = firstInput(split, i);
    if (from < inputs) {
#pragma unroll
      for (unsigned group = 0; group < Of::kGroups; group++) {
        const unsigned first = from + group * static_cast<unsigned>(kGroupInputs);
        uint32_t words[2][4];
#pragma unroll
        for (unsigned side = 0; side < 2; side++)
          weightsOfGroup<Type>(chunkAt(step), i % Of::kSteps * Of::kGroups + group, side, lane, inputs - first,
                               words[side]);
#pragma unroll
        for (unsigned half = 0; half < 2; half++)
#pragma unroll
          for (unsigned word = 0; word < 4; word++)
            weights[turn][group][half][word] = words[word % 2][2 * half + word / 2];
      }
      beginProducts();
#pragma unroll
      for (unsigned group = 0; group < Of::kGroups; group++) {
        if (from + group * kGroupInputs >= inputs) continue;
#pragma unroll
        for (unsigned half = 0; half < 2; half++)
          startProduct(sums, weights[turn][group][half], rowsAt(step) + group * kRows * kRowBytes, half,
                       i != 0 || group != 0 || half != 0);
      }
    }
    commitProducts();
    waitForProducts<1>();
  };

#pragma unroll
  for (unsigned step = 0; step < Of::kAhead; step++) fetch(step);
  for (unsigned split = firstSplit, step = 0; split < firstSplit + splits; split++) {
    for (unsigned i = 0; i < stepsOfSplit; i += 2) {
      multiplyStep(std::integral_constant<unsigned, 0>(), split, i, step++);
      if (i + 1 < stepsOfSplit) multiplyStep(std::integral_constant<unsigned, 1>(), split, i + 1, step++);
    }
    waitForProducts<0>();
    // A split behind the last chunk has no product that would have begun with zeros.
    if (split >= chunks)
#pragma unroll
      for (float& sum : sums) sum = 0;
    if constexpr (!AllSplits)
#pragma unroll
      for (unsigned i = 0; i < kRows / 2; i++) totals[i] = split == 0 ? sums[i] : totals[i] + sums[i];
  }
  waitForCopies<0>();

  const auto store = [&](unsigned row, size_t toOutput, float total) {
    const size_t toRow = firstRow + row;
    if (toRow >= product.rows || toOutput >= product.weights.outputs) return;
    total *= product.factors[toRow];
    product.output[toRow * product.outputStride + toOutput] =
        product.bias == nullptr ? total : total + product.bias[toOutput];
  };
  // A lane's outputs of a row are eight apart, and its rows two of every eight.
  const auto rowOf = [=](unsigned i) { return i / 4 * 8 + lane % 4 * 2 + i % 2; };
  const auto outputOf = [=](unsigned i) { return lane / 4 + 8 * (i / 2 % 2); };
  if constexpr (!AllSplits) {
#pragma unroll
    for (unsigned i = 0; i < kRows / 2; i++) store(rowOf(i), panel * kPanelOutputs + outputOf(i), totals[i]);
  } else {
    constexpr unsigned kStride = Of::kPartialStride;
    float* partials = sharedAs<float>();
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < kRows / 2; i++)
      partials[(firstSplit * kRows + rowOf(i)) * kStride + warp % Of::kPanels * kPanelOutputs + outputOf(i)] = sums[i];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < kRows * kWarpgroupOutputs; i += kThreads<AllSplits>) {
      const unsigned row = i / kWarpgroupOutputs, output = i % kWarpgroupOutputs;
      float total = partials[row * kStride + output];
#pragma unroll
      for (unsigned split = 1; split < kSplits; split++) total += partials[(split * kRows + row) * kStride + output];
      store(row, size_t{blockIdx.y} * kWarpgroupOutputs + output, total);
    }
  }
#else
  (void)product;
#endif
}

template <WeightType Type>
__global__ __launch_bounds__(kThreads<true>) void multiplySplitsKernel(Product<Type> product) {
  multiplyByWarpgroups<Type, true>(product);
}

template <WeightType Type>
__global__ __launch_bounds__(kThreads<false>) void multiplyWarpgroupsKernel(Product<Type> product) {
  multiplyByWarpgroups<Type, false>(product);
}

template <WeightType Type, bool AllSplits>
void run(cudaStream_t stream, const Product<Type>& product) {
  using Of = Ring<Type, AllSplits>;
  // Blocks that follow each other have their weights in common: rows are fewer, and stay in the second-level cache.
  const dim3 grid(divideUp(product.rows, kRows), divideUp(product.weights.outputs, Of::kPanels * kPanelOutputs));
  if constexpr (AllSplits)
    launch("multiplySplits", multiplySplitsKernel<Type>, grid, kThreads<AllSplits>, Of::kSharedBytes, stream, product);
  else
    launch("multiplyWarpgroups", multiplyWarpgroupsKernel<Type>, grid, kThreads<AllSplits>, Of::kSharedBytes, stream,
           product);
}

}  // namespace

void multiplyWarpgroups(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias,
                        float* output, size_t outputStride, bool allSplits) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const Product<kType> product = productOf<kType>(weights, x, bias, output, outputStride);
    allSplits ? run<kType, true>(stream, product) : run<kType, false>(stream, product);
  });
}

}  // namespace spillway::cuda
