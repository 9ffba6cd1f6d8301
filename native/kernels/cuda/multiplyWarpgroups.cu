#include <type_traits>

#include "multiplySteps.h"
#include "warpgroup.h"

namespace spillway::cuda {
namespace {

// Two warpgroups multiply, each four panels by the block's rows, a panel a warp; a third one fetches for them. Splits
// follow one another, each added to the total of those before.
constexpr unsigned kRows = kWarpgroupRows, kPanels = 8, kWarps = kPanels;
constexpr unsigned kMultiplying = kWarps * kWarp, kFetching = kWarpgroup, kThreads = kMultiplying + kFetching;
static_assert(2 * kWarpgroupOutputs == kPanels * kPanelOutputs);
// Instead of 168 each.
constexpr unsigned kFetchingRegisters = 40, kMultiplyingRegisters = 232;
static_assert(kFetching * kFetchingRegisters + kMultiplying * kMultiplyingRegisters <= 168 * kThreads);

// Of a row's sums, in the end: four floats more than there are, so that what a warp writes at once falls on different
// banks.
constexpr unsigned kTotalStride = kPanels * kPanelOutputs + 4;

// A step is two groups of the inputs, if a chunk has two. It is fetched as many steps before as there is room for, of
// the 227 KiB of architecture 9.0: what comes from memory needs longer than one step takes. Beside those and the step
// at hand one that may still be read by products.
template <WeightType Type>
struct Ring {
  static constexpr unsigned kGroups = Chunk<Type>::kGroups < 2 ? 1 : 2, kSteps = Chunk<Type>::kGroups / kGroups;
  static constexpr unsigned kRowStageBytes = kGroups * kRows * kRowBytes;
  static constexpr unsigned kChunkStageBytes = kPanels * Chunk<Type>::kBytes;
  static constexpr unsigned rowStages(unsigned ahead) { return ahead + 2; }
  static constexpr unsigned chunkStages(unsigned ahead) { return (ahead + kSteps - 1) / kSteps + 1; }
  static constexpr size_t bytes(unsigned ahead) {
    return rowStages(ahead) * size_t{kRowStageBytes} + chunkStages(ahead) * size_t{kChunkStageBytes};
  }
  static constexpr unsigned mostAhead() {
    unsigned ahead = 5;
    while (bytes(ahead) > 227 * 1024) ahead--;
    return ahead;
  }
  static constexpr unsigned kAhead = mostAhead(), kRowStages = rowStages(kAhead), kChunkStages = chunkStages(kAhead);
  using Steps = SplitSteps<kGroups, kSteps, kRowStages, kChunkStages>;
  static_assert(bytes(kAhead) >= kRows * kTotalStride * sizeof(float));
};

#ifdef SPILLWAY_WARPGROUPS

// What all threads of a block go by.
struct Place {
  unsigned warp, lane, inputs, ofSplit;
  size_t firstRow, firstPanel;
};

template <WeightType Type>
__device__ __forceinline__ uint8_t* rowsAt(const typename Ring<Type>::Steps& steps) {
  return sharedAs<uint8_t>() + steps.rowStage * Ring<Type>::kRowStageBytes;
}
template <WeightType Type>
__device__ __forceinline__ uint8_t* chunkAt(const typename Ring<Type>::Steps& steps, unsigned panel) {
  return sharedAs<uint8_t>() + Ring<Type>::kRowStages * Ring<Type>::kRowStageBytes +
         steps.chunkStage * Ring<Type>::kChunkStageBytes + panel * static_cast<unsigned>(Chunk<Type>::kBytes);
}

// Where those who fetch and those who multiply meet, once a step: the next one is there, and everybody is done with the
// products of the one before the one at hand.
__device__ __forceinline__ void meet() { __syncthreads(); }

template <WeightType Type>
__device__ __forceinline__ void fetchSteps(const Product<Type>& product, const Place& place) {
  using Of = Ring<Type>;
  keepRegisters<kFetchingRegisters>();
  const RowFetcher<kFetching, kRows, Of::kGroups> rows(product, place.firstRow, threadIdx.x - kMultiplying);
  const size_t panels = (size_t{product.weights.outputs} + kPanelOutputs - 1) / kPanelOutputs;
  typename Of::Steps ahead{place.ofSplit};
  const auto fetch = [&] {
    if (!ahead.done()) {
      if (ahead.ofChunk() == 0 && ahead.firstInput() < place.inputs)
#pragma unroll
        for (unsigned i = place.warp - kWarps; i < kPanels; i += kFetching / kWarp) {
          // After the last panel there are none: it is the last one once more.
          const size_t panel = place.firstPanel + i < panels ? place.firstPanel + i : panels - 1;
          fetchChunk<Type>(product.weights.panels + panel * product.panelBytes, place.inputs, ahead.chunk(), place.lane,
                           chunkAt<Type>(ahead, i));
        }
      rows.fetch(rowsAt<Type>(ahead), ahead.firstInput());
      ahead.advance();
    }
    commitCopies();
  };
#pragma unroll
  for (unsigned step = 0; step < Of::kAhead; step++) fetch();
  // For each step, and for what is loaded after the last.
  for (unsigned step = 0; step <= kSplits * place.ofSplit; step++) {
    waitForCopies<Of::kAhead - 1>();
    showToProducts();
    meet();
    fetch();
  }
  waitForCopies<0>();
  meet();  // sums take the rings' place
  meet();
}

template <WeightType Type>
__device__ __forceinline__ void multiplySteps(const Place& place) {
  using Of = Ring<Type>;
  takeRegisters<kMultiplyingRegisters>();
  uint32_t weights[2][Of::kGroups][2][4];
  typename Of::Steps loaded{place.ofSplit}, steps{place.ofSplit};
  // As ptxas has it: products under way keep it from what is written after they began only where no branch is between.
  // So nothing branches here; weights after the last input are zeros, like the rows there.
  const auto load = [&](auto turn) {
    meet();
    const unsigned from = loaded.firstInput();
#pragma unroll
    for (unsigned group = 0; group < Of::kGroups; group++) {
      const unsigned first = from + group * static_cast<unsigned>(kGroupInputs);
      uint32_t words[2][4];
#pragma unroll
      for (unsigned side = 0; side < 2; side++)
        weightsOfGroup<Type>(chunkAt<Type>(loaded, place.warp), loaded.ofChunk() * Of::kGroups + group, side,
                             place.lane, place.inputs - first, words[side]);
#pragma unroll
      for (unsigned half = 0; half < 2; half++)
#pragma unroll
        for (unsigned word = 0; word < 4; word++)
          weights[turn][group][half][word] = first < place.inputs ? words[word % 2][2 * half + word / 2] : 0;
    }
    loaded.advance();
  };
  float sums[kRows / 2], totals[kRows / 2];
  // The weights of the next step are loaded while the products take those of this one.
  const auto multiplyStep = [&](auto turn, bool first) {
    beginProducts();
#pragma unroll
    for (unsigned group = 0; group < Of::kGroups; group++)
#pragma unroll
      for (unsigned half = 0; half < 2; half++)
        startProduct(sums, weights[turn][group][half], rowsAt<Type>(steps) + group * kRows * kRowBytes, half,
                     !first || group != 0 || half != 0);
    commitProducts();
    load(std::integral_constant<unsigned, 1 - turn>());
    waitForProducts<0>();
    steps.advance();
  };

  load(std::integral_constant<unsigned, 0>());
  for (unsigned split = 0; split < kSplits; split++) {
    for (unsigned i = 0; i < place.ofSplit; i += 2) {
      multiplyStep(std::integral_constant<unsigned, 0>(), i == 0);
      multiplyStep(std::integral_constant<unsigned, 1>(), false);
    }
#pragma unroll
    for (unsigned i = 0; i < kRows / 2; i++) totals[i] = split == 0 ? sums[i] : totals[i] + sums[i];
  }

  // A lane's outputs of a row are eight apart, and its rows two of every eight.
  meet();
  float* sharedTotals = sharedAs<float>();
#pragma unroll
  for (unsigned i = 0; i < kRows / 2; i++)
    sharedTotals[(i / 4 * 8 + place.lane % 4 * 2 + i % 2) * kTotalStride + place.warp * kPanelOutputs + place.lane / 4 +
                 8 * (i / 2 % 2)] = totals[i];
  meet();
}

// By all threads: a warp takes every so many of the rows, a lane four of their outputs.
template <WeightType Type>
__device__ __forceinline__ void storeRows(const Product<Type>& product, const Place& place) {
  const float* totals = sharedAs<float>();
  const size_t output = place.firstPanel * kPanelOutputs + 4 * place.lane;
  if (output >= product.weights.outputs) return;
  const unsigned count =
      product.weights.outputs - output < 4 ? product.weights.outputs - static_cast<unsigned>(output) : 4;
  const ProductOutput& to = product.to;
  float biases[4];
#pragma unroll
  for (unsigned i = 0; i < 4; i++) biases[i] = to.bias != nullptr && i < count ? to.bias[output + i] : 0.0f;
  const unsigned rows =
      product.rows - place.firstRow < kRows ? static_cast<unsigned>(product.rows - place.firstRow) : kRows;
#pragma unroll 4
  for (unsigned row = place.warp; row < rows; row += kThreads / kWarp) {
    const float factor = product.factors[place.firstRow + row];
    const float4 sums = *reinterpret_cast<const float4*>(totals + row * kTotalStride + 4 * place.lane);
    float results[4] = {sums.x * factor, sums.y * factor, sums.z * factor, sums.w * factor};
    float* values = to.values + (place.firstRow + row) * to.stride + output;
    const bool together = count == 4 && reinterpret_cast<uintptr_t>(values) % 16 == 0;
    float were[4] = {};
    if (to.adds && together) {
      const float4 all = *reinterpret_cast<const float4*>(values);
      were[0] = all.x, were[1] = all.y, were[2] = all.z, were[3] = all.w;
    } else if (to.adds) {
#pragma unroll
      for (unsigned i = 0; i < 4; i++) were[i] = i < count ? values[i] : 0.0f;
    }
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
      if (to.bias != nullptr) results[i] += biases[i];
      if (to.adds) results[i] = were[i] + results[i];
    }
    if (together) {
      *reinterpret_cast<float4*>(values) = float4{results[0], results[1], results[2], results[3]};
    } else {
#pragma unroll
      for (unsigned i = 0; i < 4; i++)
        if (i < count) values[i] = results[i];
    }
  }
}

#endif

template <WeightType Type>
__global__ __launch_bounds__(kThreads) void multiplyWarpgroupsKernel(Product<Type> product) {
#ifdef SPILLWAY_WARPGROUPS
  using Steps = typename Ring<Type>::Steps;
  const unsigned inputs = product.weights.inputs;
  // An even number of steps: those of a split begin with the same one of two sets of registers. The warp is exchanged,
  // so that the compiler sees that its lanes agree.
  const Place place{__shfl_sync(kAllLanes, threadIdx.x / kWarp, 0),
                    threadIdx.x % kWarp,
                    inputs,
                    (chunksOfSplit(inputs, Steps::kChunkInputs) * Ring<Type>::kSteps + 1) / 2 * 2,
                    size_t{blockIdx.x} * kRows,
                    size_t{blockIdx.y} * kPanels};
  if (place.warp < kWarps)
    multiplySteps<Type>(place);
  else
    fetchSteps(product, place);
  storeRows(product, place);
#else
  (void)product;
#endif
}

}  // namespace

void multiplyWarpgroups(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x,
                        const ProductOutput& output) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    // Blocks that follow each other have their weights in common: rows are fewer, and stay in the second-level cache.
    const dim3 grid(divideUp(x.rows, kRows), divideUp(weights.outputs, kPanels * kPanelOutputs));
    launch("multiplyWarpgroups", multiplyWarpgroupsKernel<kType>, grid, kThreads,
           Ring<kType>::bytes(Ring<kType>::kAhead), stream, productOf<kType>(weights, x, output));
  });
}

}  // namespace spillway::cuda
