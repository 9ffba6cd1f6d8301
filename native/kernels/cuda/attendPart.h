// One part of one token's keys, whatever the pages hold: attendTokens.cu for halves and floats, attendQuantisedTokens.cu for codes of 8 and 4 bits.
// What differs is a Tile: a stretch of keys and values in shared memory, as they lie in the pages.
//   Tile(layout, token, kvHead, tileTokens, memory)        memory: Tile::bytes() of shared memory, at a multiple of 16
//   static bytes(headDim, tileTokens)                      a multiple of 16
//   static queryFloats(headDim)                            that a query takes
//   fetchKeys, fetchValues(first, begin, end)              asynchronously; positions before `begin` or from `end` on may be left out
//   takeQueries(from, heads, to)                           by the whole block: heads side by side in `from`, queryFloats() apart in `to`
//   score<Count>(key, queries, firstHead, step, heads, scores)   plain products of one key with every step-th head
//   value(key, d)
#pragma once
#include "attentionTile.h"
#include "reduce.h"

namespace spillway::cuda {

constexpr uint32_t kPartThreads = 128;
constexpr uint32_t kPartWarps = kPartThreads / kWarp;
constexpr uint32_t kMostTileTokens = 64;

struct PartTask {
  CacheLayout layout;
  AttentionShape shape;
  const AttentionToken* tokens;
  const float* queries;
  size_t queryStride;
  AttentionPartials partials;
  uint32_t tileTokens;  // of keys: 16, 32 or 64
};

// The keys [begin, end) of the block's part that its token sees here.
struct PartKeys {
  uint32_t begin, end;
};
__device__ __forceinline__ PartKeys partKeys(const AttentionShape& shape, const AttentionToken& token, uint32_t part) {
  const uint32_t partBegin = part * kPartTokens, visible = firstVisible(shape, token.position);
  const uint32_t keys = token.keys != 0 ? token.keys : token.position + 1;
  return {visible > partBegin ? visible : partBegin, keys < partBegin + kPartTokens ? keys : partBegin + kPartTokens};
}

// Which of the query heads that share a KV head a block has.
struct PartHeads {
  uint32_t kvHead, first, count;
};
template <int Heads>
__device__ __forceinline__ PartHeads partHeads(const CacheLayout& layout, const AttentionShape& shape, uint32_t index) {
  const uint32_t group = shape.heads / layout.kvHeads, blocksPerKvHead = (group + Heads - 1) / Heads;
  const uint32_t kvHead = index / blocksPerKvHead, firstInGroup = index % blocksPerKvHead * Heads;
  return {kvHead, kvHead * group + firstInGroup, static_cast<uint32_t>(min(static_cast<int>(group - firstInGroup), Heads))};
}

template <typename Tile, int Heads>
size_t partBytes(uint32_t headDim, uint32_t tileTokens) {
  return Tile::bytes(headDim, tileTokens) + Heads * (Tile::queryFloats(headDim) + tileTokens + 3) * sizeof(float);
}

// One part of one token's keys, for up to `Heads` query heads that share a KV head. A thread keeps `Elements` of each head's sums.
template <typename Tile, int Heads, int Elements>
__global__ __launch_bounds__(kPartThreads, 4) void attendPartKernel(PartTask task) {
  const uint32_t headDim = task.layout.headDim, tileTokens = task.tileTokens;
  const PartHeads own = partHeads<Heads>(task.layout, task.shape, blockIdx.y);
  const uint32_t heads = own.count, firstHead = own.first;
  const AttentionToken token = task.tokens[blockIdx.z];
  const PartKeys keys = partKeys(task.shape, token, blockIdx.x);
  const uint32_t begin = keys.begin, end = keys.end;

  uint8_t* memory = sharedAs<uint8_t>();
  const Tile tile(task.layout, token, own.kvHead, tileTokens, memory);
  struct {
    float *queries, *weights, *maximum, *sum, *factor;  // [heads][Tile::queryFloats()], [heads][tileTokens], [heads] each
  } shared;
  shared.queries = reinterpret_cast<float*>(memory + Tile::bytes(headDim, tileTokens));
  shared.weights = shared.queries + Heads * Tile::queryFloats(headDim);
  shared.maximum = shared.weights + Heads * tileTokens;
  shared.sum = shared.maximum + Heads;
  shared.factor = shared.sum + Heads;

  tile.takeQueries(task.queries + blockIdx.z * task.queryStride + size_t{firstHead} * headDim, heads, shared.queries);
  if (threadIdx.x < heads) {
    shared.maximum[threadIdx.x] = kLowest;
    shared.sum[threadIdx.x] = 0;
  }

  float sums[Heads][Elements] = {};
  const uint32_t firstTile = begin / tileTokens * tileTokens;
  if (begin < end) tile.fetchKeys(firstTile, begin, end);
  commitCopies();
  for (uint32_t first = firstTile; first < end && begin < end; first += tileTokens) {
    tile.fetchValues(first, begin, end);
    commitCopies();
    waitForCopies<1>();
    __syncthreads();

    // Scores: a thread takes one key and every so many heads.
    {
      const uint32_t key = threadIdx.x % tileTokens, step = kPartThreads / tileTokens, position = first + key;
      constexpr uint32_t kMost = Heads == 1 ? 1 : Heads * kMostTileTokens / kPartThreads;
      float scores[kMost] = {};
      tile.template score<kMost>(key, shared.queries, threadIdx.x / tileTokens, step, heads, scores);
#pragma unroll
      for (uint32_t i = 0; i < kMost; i++) {
        const uint32_t head = threadIdx.x / tileTokens + i * step;
        const bool seen = position >= begin && position < end;
        if (head < heads) shared.weights[head * tileTokens + key] = seen ? finishScore(task.shape, firstHead + head, scores[i], position, token.position) : kHidden;
      }
    }
    __syncthreads();
    if (first + tileTokens < end) tile.fetchKeys(first + tileTokens, begin, end);
    commitCopies();

    // Softmax so far: a warp takes every fourth head.
    for (uint32_t head = threadIdx.x / kWarp; head < heads; head += kPartWarps) {
      float* weights = shared.weights + head * tileTokens;
      const uint32_t lane = threadIdx.x % kWarp;
      float highest = kLowest;
      for (uint32_t i = lane; i < tileTokens; i += kWarp) highest = fmaxf(highest, weights[i]);
      const float before = shared.maximum[head];
      highest = fmaxf(before, warpMaximum(highest));
      float total = 0;
      for (uint32_t i = lane; i < tileTokens; i += kWarp) {
        const float weight = expf(weights[i] - highest);
        weights[i] = weight;
        total += weight;
      }
      total = warpSum(total);
      if (lane == 0) {
        const float factor = expf(before - highest);
        shared.maximum[head] = highest;
        shared.factor[head] = factor;
        shared.sum[head] = fmaf(shared.sum[head], factor, total);
      }
    }
    waitForCopies<1>();
    __syncthreads();

    const uint32_t from = begin > first ? begin - first : 0, to = end - first < tileTokens ? end - first : tileTokens;
#pragma unroll
    for (int head = 0; head < Heads; head++)
#pragma unroll
      for (int e = 0; e < Elements; e++)
        if (head < static_cast<int>(heads)) sums[head][e] *= shared.factor[head];
    for (uint32_t key = from; key < to; key++) {
      float values[Elements];
#pragma unroll
      for (int e = 0; e < Elements; e++) {
        const uint32_t d = threadIdx.x + e * kPartThreads;
        values[e] = d < headDim ? tile.value(key, d) : 0.0f;
      }
#pragma unroll
      for (int head = 0; head < Heads; head++)
#pragma unroll
        for (int e = 0; e < Elements; e++)
          if (head < static_cast<int>(heads)) sums[head][e] = fmaf(shared.weights[head * tileTokens + key], values[e], sums[head][e]);
    }
    __syncthreads();
  }
  waitForCopies<0>();

  const AttentionPartials& partials = task.partials;
  __syncthreads();
  for (uint32_t head = 0; head < heads; head++) {
    const size_t part = (size_t{blockIdx.z} * task.shape.heads + firstHead + head) * partials.parts + blockIdx.x;
    if (threadIdx.x == 0) partials.weights[part] = {shared.maximum[head], shared.sum[head]};
  }
#pragma unroll
  for (int head = 0; head < Heads; head++)
#pragma unroll
    for (int e = 0; e < Elements; e++) {
      const uint32_t d = threadIdx.x + e * kPartThreads;
      const size_t part = (size_t{blockIdx.z} * task.shape.heads + firstHead + head) * partials.parts + blockIdx.x;
      if (head < static_cast<int>(heads) && d < headDim) partials.values[part * headDim + d] = sums[head][e];
    }
}

// The widest tile of which two blocks fit a multiprocessor.
template <typename Tile, int Heads>
uint32_t tileTokensOf(uint32_t headDim) {
  uint32_t tokens = kMostTileTokens;
  while (tokens > kKeyBlock && partBytes<Tile, Heads>(headDim, tokens) > 48 * 1024) tokens /= 2;
  return tokens;
}

// At most 65535 tokens: a grid has so many blocks in its third dimension.
template <typename Tile, int Heads, int Elements>
void attendPartsOf(cudaStream_t stream, PartTask task, size_t count) {
  task.tileTokens = tileTokensOf<Tile, Heads>(task.layout.headDim);
  const uint32_t group = task.shape.heads / task.layout.kvHeads;
  const dim3 grid(task.partials.parts, task.layout.kvHeads * divideUp(group, Heads), static_cast<unsigned>(count));
  launch("attendPart", attendPartKernel<Tile, Heads, Elements>, grid, kPartThreads, partBytes<Tile, Heads>(task.layout.headDim, task.tileTokens), stream, task);
}

template <typename Tile, int Heads>
void attendPartsForHeadDim(cudaStream_t stream, const PartTask& task, size_t count) {
  if (task.layout.headDim <= kPartThreads) return attendPartsOf<Tile, Heads, 1>(stream, task, count);
  if (task.layout.headDim <= 2 * kPartThreads) return attendPartsOf<Tile, Heads, 2>(stream, task, count);
  attendPartsOf<Tile, Heads, 4>(stream, task, count);
}

// task.tileTokens is chosen here.
template <typename Tile>
void attendPartsIn(cudaStream_t stream, const PartTask& task, size_t count) {
  task.shape.heads == task.layout.kvHeads ? attendPartsForHeadDim<Tile, 1>(stream, task, count) : attendPartsForHeadDim<Tile, 8>(stream, task, count);
}

// Of pages of 8 and 4 bits.
void attendQuantisedParts(cudaStream_t stream, const PartTask& task, size_t count);

}  // namespace spillway::cuda
