#include "attentionTile.h"
#include "tensorCore.h"

namespace spillway::cuda {
namespace {

constexpr uint32_t kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
constexpr uint32_t kQueries = 16 * kWarps;  // of a block: (token, head) pairs, heads of one KV head next to each other
constexpr uint32_t kPad = 8;     // halves after each row in shared memory, so that rows fall on different banks
constexpr uint32_t kStages = 2;  // tiles in shared memory: one is fetched while another is used

// Keys lie in shared memory as in their page, [headDim][16], but that pieces of 16 bytes change places so that the
// eight rows which ldmatrix reads at once fall on different banks.
constexpr uint32_t kPieceHalves = 8, kKeyPieces = kKeyBlock / kPieceHalves;
__device__ __forceinline__ uint32_t keyPlace(uint32_t piece) { return piece ^ (piece / 8 % 2); }

// Of CacheLayout, what is read on the device: with one member more the kernel spills registers on sm_90a.
struct PageLayout {
  CacheType type;
  uint32_t kvHeads, headDim, pageTokens;
};

struct Task {
  PageLayout layout;
  AttentionShape shape;
  const AttentionToken* tokens;
  const AttentionRange* ranges;
  const float* queries;
  size_t queryStride;
  float* outputs;
  size_t outputStride;
};

// A tile: keys, TileTokens * headDim halves, then values, [TileTokens][headDim + kPad].
template <int TileTokens>
__host__ __device__ constexpr uint32_t tileHalves(uint32_t headDim) {
  return TileTokens * headDim + TileTokens * (headDim + kPad);
}

// What a lane keeps: of two queries (rows group and group + 8 of its warp's 16), every fourth pair of columns.
template <int TileTokens, int MostTiles>
struct Lane {
  float scores[TileTokens / 8][4];
  float sums[MostTiles][4];
  float maximum[2], sum[2];
};

constexpr float kLog2OfE = 1.44269504f;
__device__ __forceinline__ bool isPlain(const AttentionShape& shape) {
  return shape.alibiSlopes == nullptr && shape.softCap == 0;
}
// What a lane's scores, which are products where they are plain, are multiplied by to become exponents of two.
__device__ __forceinline__ float scoreExponent(const AttentionShape& shape) {
  return isPlain(shape) ? shape.scale * kLog2OfE : kLog2OfE;
}

// Masks, scales and exponentiates a tile's scores, and rescales what is there. Powers of two are what the device has an
// instruction for; where the score is the product times a factor, that factor goes into the exponent's.
template <int TileTokens, int MostTiles>
__device__ __forceinline__ void softmaxTile(const Task& task, Lane<TileTokens, MostTiles>& lane,
                                            const uint32_t position[2], const uint32_t head[2], uint32_t first,
                                            uint32_t part) {
  const bool plain = isPlain(task.shape);
  const float exponent = scoreExponent(task.shape);
#pragma unroll
  for (int row = 0; row < 2; row++) {
    const uint32_t begin = firstVisible(task.shape, position[row]);
    const auto forScores = [&](auto body) {
#pragma unroll
      for (int tile = 0; tile < TileTokens / 8; tile++)
#pragma unroll
        for (int i = 0; i < 2; i++) body(lane.scores[tile][2 * row + i], first + 8 * tile + 2 * part + i);
    };
    if (!plain)
      forScores(
          [&](float& score, uint32_t key) { score = finishScore(task.shape, head[row], score, key, position[row]); });
    if (first < begin || first + TileTokens > position[row] + 1)
      forScores([&](float& score, uint32_t key) {
        if (key < begin || key > position[row]) score = kHidden;
      });
    float highest = lane.maximum[row];
    forScores([&](float& score, uint32_t) { highest = fmaxf(highest, score); });
    highest = fmaxf(highest, __shfl_xor_sync(kAllLanes, highest, 1));
    highest = fmaxf(highest, __shfl_xor_sync(kAllLanes, highest, 2));
    const float factor = exp2Approximate((lane.maximum[row] - highest) * exponent);
    lane.maximum[row] = highest;
    float total = 0;
    forScores([&](float& score, uint32_t) {
      score = exp2Approximate((score - highest) * exponent);
      total += score;
    });
    lane.sum[row] = fmaf(lane.sum[row], factor, total);
#pragma unroll
    for (int tile = 0; tile < MostTiles; tile++)
#pragma unroll
      for (int i = 0; i < 2; i++) lane.sums[tile][2 * row + i] *= factor;
  }
}

// A block takes 64 queries of one range and KV head, a warp 16 of them. MostTiles: eighths of the head's elements that
// a lane has room for.
template <int TileTokens, int MostTiles>
__global__ __launch_bounds__(kThreads) void prefillAttentionKernel(Task task) {
  const uint32_t headDim = task.layout.headDim, group = task.shape.heads / task.layout.kvHeads, kvHead = blockIdx.y;
  const AttentionRange range = task.ranges[blockIdx.z];
  // The last queries, which see the most keys, first.
  const uint32_t firstQuery = (gridDim.x - 1 - blockIdx.x) * kQueries, queryCount = range.tokens * group;
  if (firstQuery >= queryCount) return;
  const AttentionToken start = task.tokens[range.firstToken];
  const HeadPages pages = headPages(task.layout, start.pages, kvHead);
  const uint32_t stride = headDim + kPad;

  const uint32_t lastQuery = firstQuery + kQueries < queryCount ? firstQuery + kQueries - 1 : queryCount - 1;
  const uint32_t begin = firstVisible(task.shape, start.position + firstQuery / group),
                 end = start.position + lastQuery / group + 1;
  const uint32_t firstTile = begin / TileTokens * TileTokens;
  const auto blocksOf = [&](uint32_t first) {
    return tileBlocks(pages.pages, pages.pageTokens, first, TileTokens, begin, end);
  };
  const auto keysOf = [&](uint32_t first) {
    return sharedAs<uint16_t>() + first / TileTokens % kStages * tileHalves<TileTokens>(headDim);
  };
  const auto valuesOf = [&](uint32_t first) { return keysOf(first) + TileTokens * headDim; };
  const auto fetch = [&](const TileBlocks& blocks, uint32_t first) {
    if (first < end) {
      fetchKeys(pages, blocks, reinterpret_cast<uint8_t*>(keysOf(first)), headDim * kKeyBlock * sizeof(uint16_t),
                keyPlace);
      fetchValues(pages, blocks, first, TileTokens, begin, end, reinterpret_cast<uint8_t*>(valuesOf(first)),
                  stride * sizeof(uint16_t));
    }
    commitCopies();
  };
  fetch(blocksOf(firstTile), firstTile);
  // Asked for a tile before it is fetched by them: a page's address comes from memory, too.
  TileBlocks blocks = blocksOf(firstTile + TileTokens);

  const uint32_t warp = threadIdx.x / kWarp, laneIndex = threadIdx.x % kWarp, row = laneIndex / 4, part = laneIndex % 4;
  // Rows of addresses for loadMatricesTransposed: lane 8 m + r asks for row r of matrix m; odd matrices are the lower
  // eight rows of k, the upper two the next columns.
  const uint32_t matrixRow = laneIndex % 8 + laneIndex / 8 % 2 * 8, matrixColumn = laneIndex / 16 * 8;
  uint32_t position[2], head[2];
  // The warp's queries, as mma16x8x16 takes them.
  constexpr int kSteps = MostTiles / 2;
  uint32_t queries[kSteps][4];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint32_t wanted = firstQuery + 16 * warp + row + 8 * i, query = wanted < lastQuery ? wanted : lastQuery;
    position[i] = start.position + query / group;
    head[i] = kvHead * group + query % group;
    const float* from =
        task.queries + (range.firstToken + query / group) * task.queryStride + size_t{head[i]} * headDim + 2 * part;
#pragma unroll
    for (int step = 0; step < kSteps; step++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        const bool isThere = 16 * step < static_cast<int>(headDim);
        const float* pair = from + (isThere ? 16 * step + 8 * half : 0);
        queries[step][i + 2 * half] = packHalves(pair[0], pair[1]);
      }
  }
  Lane<TileTokens, MostTiles> lane = {{}, {}, {kLowest, kLowest}, {0, 0}};

  for (uint32_t first = firstTile; first < end; first += TileTokens) {
    fetch(blocks, first + TileTokens);
    blocks = blocksOf(first + 2 * TileTokens);
    waitForCopies<1>();
    __syncthreads();
    const uint16_t *keys = keysOf(first), *values = valuesOf(first);

#pragma unroll
    for (int tile = 0; tile < TileTokens / 8; tile++)
#pragma unroll
      for (int i = 0; i < 4; i++) lane.scores[tile][i] = 0;
#pragma unroll
    for (int step = 0; step < kSteps; step++) {
      const uint32_t d = 16 * step;
      if (d >= headDim) continue;
#pragma unroll
      for (int block = 0; block < TileTokens / 16; block++) {
        uint32_t b[4];
        const uint32_t piece = (d + matrixRow) * kKeyPieces + matrixColumn / kPieceHalves;
        loadMatricesTransposed(b, keys + block * headDim * kKeyBlock + keyPlace(piece) * kPieceHalves);
        mma16x8x16(lane.scores[2 * block], queries[step], b);
        mma16x8x16(lane.scores[2 * block + 1], queries[step], b + 2);
      }
    }
    softmaxTile(task, lane, position, head, first, part);
#pragma unroll
    for (int block = 0; block < TileTokens / 16; block++) {
      const auto& low = lane.scores[2 * block];
      const auto& high = lane.scores[2 * block + 1];
      const uint32_t a[4] = {packHalves(low[0], low[1]), packHalves(low[2], low[3]), packHalves(high[0], high[1]),
                             packHalves(high[2], high[3])};
#pragma unroll
      for (int tile = 0; tile < MostTiles; tile += 2) {
        if (8 * tile >= static_cast<int>(headDim)) continue;
        uint32_t b[4];
        loadMatricesTransposed(b, values + (16 * block + matrixRow) * stride + 8 * tile + matrixColumn);
        mma16x8x16(lane.sums[tile], a, b);
        mma16x8x16(lane.sums[tile + 1], a, b + 2);
      }
    }
    __syncthreads();  // everybody is done with the stage that is filled next
  }
  waitForCopies<0>();

#pragma unroll
  for (int i = 0; i < 2; i++) {
    float sum = lane.sum[i];
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
    if (task.shape.sinks != nullptr)
      sum += exp2Approximate(task.shape.sinks[head[i]] * kLog2OfE - lane.maximum[i] * scoreExponent(task.shape));
    const float share = 1.0f / sum;
    const uint32_t query = firstQuery + 16 * warp + row + 8 * i;
    if (query >= queryCount) continue;
    float* to = task.outputs + (range.firstToken + query / group) * task.outputStride + size_t{head[i]} * headDim;
#pragma unroll
    for (int tile = 0; tile < MostTiles; tile++) {
      if (8 * tile >= static_cast<int>(headDim)) continue;
      to[8 * tile + 2 * part] = lane.sums[tile][2 * i] * share;
      to[8 * tile + 2 * part + 1] = lane.sums[tile][2 * i + 1] * share;
    }
  }
}

template <int TileTokens, int MostTiles>
void run(cudaStream_t stream, const Task& task, size_t rangeCount, uint32_t mostTokens) {
  const uint32_t group = task.shape.heads / task.layout.kvHeads;
  const dim3 grid(divideUp(size_t{mostTokens} * group, kQueries), task.layout.kvHeads,
                  static_cast<unsigned>(rangeCount));
  launch("prefillAttention", prefillAttentionKernel<TileTokens, MostTiles>, grid, kThreads,
         kStages * tileHalves<TileTokens>(task.layout.headDim) * sizeof(uint16_t), stream, task);
}

}  // namespace

bool hasPrefillAttention(const CacheLayout& layout) {
  return layout.type == CacheType::F16 && layout.headDim % 16 == 0 && layout.headDim <= 256;
}

void prefillAttention(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                      const AttentionToken* tokens, const AttentionRange* ranges, size_t rangeCount,
                      uint32_t mostTokens, const float* queries, size_t queryStride, float* outputs,
                      size_t outputStride) {
  const Task task = {{layout.type, layout.kvHeads, layout.headDim, layout.pageTokens},
                     shape,
                     tokens,
                     ranges,
                     queries,
                     queryStride,
                     outputs,
                     outputStride};
  if (layout.headDim <= 64) return run<64, 8>(stream, task, rangeCount, mostTokens);
  if (layout.headDim <= 128) return run<64, 16>(stream, task, rangeCount, mostTokens);
  run<32, 32>(stream, task, rangeCount, mostTokens);
}

}  // namespace spillway::cuda
