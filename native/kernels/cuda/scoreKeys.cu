#include "SparseAttention.h"
#include "plainTile.h"
#include "quantisedTile.h"

namespace spillway::cuda {
namespace {

// As attendPartKernel's scores, written out.
template <typename Tile, int Heads>
__global__ __launch_bounds__(kPartThreads) void scoreKeysKernel(PartTask task, KeyScores to) {
  const uint32_t tileTokens = task.tileTokens;
  const PartHeads own = partHeads<Heads>(task.layout, task.shape, blockIdx.y);
  const AttentionToken token = task.tokens[blockIdx.z];
  const PartKeys keys = partKeys(task.shape, token, blockIdx.x);
  if (keys.begin >= keys.end) return;
  uint8_t* memory = sharedAs<uint8_t>();
  const Tile tile(task.layout, token, own.kvHead, tileTokens, memory);
  float* queries = reinterpret_cast<float*>(memory + Tile::bytes(task.layout.headDim, tileTokens));
  tile.takeQueries(task.queries + blockIdx.z * task.queryStride + size_t{own.first} * task.layout.headDim, own.count, queries);
  for (uint32_t first = keys.begin / tileTokens * tileTokens; first < keys.end; first += tileTokens) {
    tile.fetchKeys(first, keys.begin, keys.end);
    commitCopies();
    waitForCopies<0>();
    __syncthreads();
    const uint32_t key = threadIdx.x % tileTokens, firstHead = threadIdx.x / tileTokens, step = kPartThreads / tileTokens, position = first + key;
    constexpr uint32_t kMost = Heads == 1 ? 1 : Heads * kMostTileTokens / kPartThreads;
    float scores[kMost] = {};
    tile.template score<kMost>(key, queries, firstHead, step, own.count, scores);
#pragma unroll
    for (uint32_t i = 0; i < kMost; i++) {
      const uint32_t head = firstHead + i * step;
      if (head < own.count && position >= keys.begin && position < keys.end)
        to.scores[(size_t{blockIdx.z} * task.shape.heads + own.first + head) * to.stride + position] = finishScore(task.shape, own.first + head, scores[i], position, token.position);
    }
    __syncthreads();
  }
}

template <typename Tile, int Heads>
void run(cudaStream_t stream, PartTask task, size_t count, uint32_t parts, const KeyScores& scores) {
  task.tileTokens = tileTokensOf<Tile, Heads>(task.layout.headDim);
  const dim3 grid(parts, task.layout.kvHeads * divideUp(task.shape.heads / task.layout.kvHeads, Heads), static_cast<unsigned>(count));
  launch("scoreKeys", scoreKeysKernel<Tile, Heads>, grid, kPartThreads, partBytes<Tile, Heads>(task.layout.headDim, task.tileTokens), stream, task, scores);
}

template <typename Tile>
void runForHeads(cudaStream_t stream, const PartTask& task, size_t count, uint32_t parts, const KeyScores& scores) {
  task.shape.heads == task.layout.kvHeads ? run<Tile, 1>(stream, task, count, parts, scores) : run<Tile, 8>(stream, task, count, parts, scores);
}

}  // namespace

void scoreKeys(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape, const AttentionToken* tokens, size_t count, const float* queries,
               size_t queryStride, uint32_t parts, const KeyScores& scores) {
  const PartTask task = {layout, shape, tokens, queries, queryStride, {}, 0};
  switch (layout.type) {
    case CacheType::F32: return runForHeads<PlainTile<float>>(stream, task, count, parts, scores);
    case CacheType::F16: return runForHeads<PlainTile<uint16_t>>(stream, task, count, parts, scores);
    case CacheType::Q8: return runForHeads<QuantisedTile<8>>(stream, task, count, parts, scores);
    case CacheType::Q4: return runForHeads<QuantisedTile<4>>(stream, task, count, parts, scores);
  }
}

}  // namespace spillway::cuda
