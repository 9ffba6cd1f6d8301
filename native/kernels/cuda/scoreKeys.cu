#include "SparseAttention.h"
#include "plainTile.h"
#include "quantisedCacheTile.h"

namespace spillway::cuda {
namespace {

// As attendPartKernel's scores, written out.
template <typename Tile, int Heads, int Slots>
__global__ __launch_bounds__(kPartThreads) void scoreKeysKernel(PartTask task, KeyScores to) {
  const uint32_t tileTokens = task.tileTokens;
  const PartBlock<Heads, Slots> block(task);
  const uint32_t begin = block.keys.begin, end = block.keys.end;
  if (begin >= end) return;
  uint8_t* memory = sharedAs<uint8_t>();
  const Tile tile(task.layout, block.first, block.heads.kvHead, tileTokens, memory);
  float* queries = reinterpret_cast<float*>(memory + Tile::bytes(task.layout.headDim, tileTokens));
  block.takeQueries(tile, queries);
  for (uint32_t first = begin / tileTokens * tileTokens; first < end; first += tileTokens) {
    tile.fetchKeys(first, begin, end);
    commitCopies();
    waitForCopies<0>();
    __syncthreads();
    block.score(tile, queries, first, [&](uint32_t slot, uint32_t key, float score) {
      if (first + key >= begin && first + key < end) to.scores[block.query(slot) * to.stride + first + key] = score;
    });
    __syncthreads();
  }
}

template <typename Tile, int Heads>
void run(cudaStream_t stream, PartTask task, size_t count, uint32_t parts, const KeyScores& scores) {
  const uint32_t headDim = task.layout.headDim;
  task.tileTokens = tileTokensOf<Tile, Heads>(headDim);
  const auto bytes = [&](uint32_t slots) {
    return Tile::bytes(headDim, task.tileTokens) + slots * Tile::queryFloats(headDim) * sizeof(float);
  };
  launch("scoreKeys", scoreKeysKernel<Tile, Heads, togetherSlots(1)>,
         partGrid<Heads>(task, task.common.parts, task.common.count), kPartThreads,
         bytes(togetherSlots(elementsOf(headDim))), stream, task, scores);
  launch("scoreKeys", scoreKeysKernel<Tile, Heads, Heads>, partGrid<Heads>(task, parts, count), kPartThreads,
         bytes(Heads), stream, task, scores);
}

template <typename Tile>
void runForHeads(cudaStream_t stream, const PartTask& task, size_t count, uint32_t parts, const KeyScores& scores) {
  task.shape.heads == task.layout.kvHeads ? run<Tile, 1>(stream, task, count, parts, scores)
                                          : run<Tile, kMostPartHeads>(stream, task, count, parts, scores);
}

}  // namespace

void scoreKeys(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
               const AttentionToken* tokens, size_t count, const float* queries, size_t queryStride, uint32_t parts,
               const KeyScores& scores, const CommonKeys& common) {
  const PartTask task = {layout, shape, tokens, queries, queryStride, {}, common, 0};
  switch (layout.type) {
    case CacheType::F32: return runForHeads<PlainTile<float>>(stream, task, count, parts, scores);
    case CacheType::F16: return runForHeads<PlainTile<uint16_t>>(stream, task, count, parts, scores);
    case CacheType::Q8: return runForHeads<QuantisedCacheTile<8>>(stream, task, count, parts, scores);
    case CacheType::Q4: return runForHeads<QuantisedCacheTile<4>>(stream, task, count, parts, scores);
  }
}

}  // namespace spillway::cuda
