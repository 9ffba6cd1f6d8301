// One part of the keys of one token, or of tokens that have them in common, whatever the pages hold: decodeAttention.cu
// for halves and floats, attendQuantisedTokens.cu for codes of 8 and 4 bits. What differs is a Tile: a stretch of keys
// and values in shared memory, as they lie in the pages.
//   Tile(layout, token, kvHead, tileTokens, memory)        memory: Tile::bytes() of shared memory, at a multiple of 16
//   static bytes(headDim, tileTokens)                      a multiple of 16
//   static queryFloats(headDim)                            that a query takes: a multiple of 4
//   fetchKeys, fetchValues(first, begin, end)              asynchronously; positions before `begin` or from `end` on
//                                                          may be left out
//   takeQueries(from, heads, to)                           by the whole block: heads side by side in `from`,
//                                                          queryFloats() apart in `to`
//   score<Count>(key, queries, firstHead, step, heads, scores)   plain products of one key with every step-th head
//   value(key, d), headDim()
#pragma once
#include <type_traits>

#include "attentionTile.h"
#include "reduce.h"

namespace spillway::cuda {

constexpr uint32_t kPartThreads = 128;
constexpr uint32_t kPartWarps = kPartThreads / kWarp;
constexpr uint32_t kMostPartHeads = 8;  // of one token

struct PartTask {
  CacheLayout layout;
  AttentionShape shape;
  const AttentionToken* tokens;
  const float* queries;
  size_t queryStride;
  AttentionPartials partials;
  CommonKeys common;
  uint32_t tileTokens;  // of keys: 16, 32 or 64
};

// One float, or four of a multiple of four, from shared memory.
template <uint32_t Count>
__device__ __forceinline__ void loadFloats(const float* from, float (&to)[Count]) {
  static_assert(Count == 1 || Count == 4);
  if constexpr (Count == 1) {
    to[0] = *from;
  } else {
    const float4 four = *reinterpret_cast<const float4*>(from);
    to[0] = four.x;
    to[1] = four.y;
    to[2] = four.z;
    to[3] = four.w;
  }
}

// Of a query's sums, those that a thread keeps.
constexpr int elementsOf(uint32_t headDim) { return headDim <= kPartThreads ? 1 : headDim <= 2 * kPartThreads ? 2 : 4; }
// The most queries of tokens that have their first keys in common: a thread keeps as many sums as for a token by itself
// with the widest heads.
constexpr int togetherSlots(int elements) { return 32 / elements; }

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
  return {kvHead, kvHead * group + firstInGroup,
          static_cast<uint32_t>(min(static_cast<int>(group - firstInGroup), Heads))};
}

// What a block works for: `Slots` queries at most, of up to `Heads` heads that share a KV head, against keys of one
// part. Of one token, its keys that are left once it has been together with others; or, where there is room for more
// queries than heads, of tokens of one bundle, what these have in common.
template <int Heads, int Slots>
struct PartBlock {
  static constexpr bool kTogether = Slots > Heads;
  const PartTask& task;
  PartHeads heads;
  const uint32_t* members;
  uint32_t slots;  // queries
  AttentionToken first;
  PartKeys keys;
  bool goesOn;  // the part's first keys have been met: their partial result is there

  __device__ __forceinline__ explicit PartBlock(const PartTask& task)
      : task(task), heads(partHeads<Heads>(task.layout, task.shape, blockIdx.y)), goesOn(false) {
    const uint32_t partBegin = blockIdx.x * kPartTokens;
    if constexpr (kTogether) {
      const AttentionBundle bundle = task.common.bundles[blockIdx.z];
      members = task.common.members + bundle.firstMember;
      slots = bundle.members * heads.count;
      first = task.tokens[members[0]];
      keys = {partBegin, bundle.keys < partBegin + kPartTokens ? bundle.keys : partBegin + kPartTokens};
    } else {
      slots = heads.count;
      first = task.tokens[blockIdx.z];
      keys = partKeys(task.shape, first, blockIdx.x);
      const uint32_t met = task.common.keys == nullptr ? 0 : task.common.keys[blockIdx.z];
      goesOn = met > partBegin;
      if (goesOn) keys.begin = met;
    }
  }
  // None are left, and nothing is to be said of them.
  __device__ __forceinline__ bool isDone() const { return keys.begin >= keys.end && (kTogether || goesOn); }
  __device__ __forceinline__ size_t token(uint32_t slot) const {
    return kTogether ? members[slot / heads.count] : blockIdx.z;
  }
  __device__ __forceinline__ uint32_t position(uint32_t slot) const {
    return kTogether ? task.tokens[token(slot)].position : first.position;
  }
  __device__ __forceinline__ uint32_t head(uint32_t slot) const {
    return heads.first + (kTogether ? slot % heads.count : slot);
  }
  __device__ __forceinline__ size_t query(uint32_t slot) const { return token(slot) * task.shape.heads + head(slot); }
  // Of a query, in partials.
  __device__ __forceinline__ size_t part(uint32_t slot) const { return query(slot) * task.partials.parts + blockIdx.x; }

  template <typename Tile>
  __device__ __forceinline__ void takeQueries(const Tile& tile, float* to) const {
    const uint32_t headDim = task.layout.headDim;
    for (uint32_t slot = 0; slot < slots; slot += heads.count)
      tile.takeQueries(task.queries + token(slot) * task.queryStride + size_t{heads.first} * headDim, heads.count,
                       to + slot * Tile::queryFloats(headDim));
  }
  // to(slot, key of the tile, score) for the keys of a tile that begins at `first`: those that are seen, or kHidden of
  // the others. A thread takes one key and every so many queries, a few at a time.
  template <typename Tile, typename To>
  __device__ __forceinline__ void score(const Tile& tile, const float* queries, uint32_t first, To to) const {
    constexpr uint32_t kMost =
        Slots == 1 ? 1 : kMostPartHeads * kMostTileTokens / kPartThreads;  // as many as registers hold beside the sums
    if constexpr (kMost > 2)
      if (slots <= 2 * (kPartThreads / task.tileTokens)) return scoreSome<2>(tile, queries, first, to);
    scoreSome<kMost>(tile, queries, first, to);
  }

 private:
  template <uint32_t Most, typename Tile, typename To>
  __device__ __forceinline__ void scoreSome(const Tile& tile, const float* queries, uint32_t first, To to) const {
    const uint32_t key = threadIdx.x % task.tileTokens, step = kPartThreads / task.tileTokens, at = first + key;
    const bool seen = at >= keys.begin && at < keys.end;
    for (uint32_t from = threadIdx.x / task.tileTokens; from < slots; from += Most * step) {
      float scores[Most] = {};
      tile.template score<Most>(key, queries, from, step, slots, scores);
#pragma unroll
      for (uint32_t i = 0; i < Most; i++) {
        const uint32_t slot = from + i * step;
        if (slot < slots)
          to(slot, key, seen ? finishScore(task.shape, head(slot), scores[i], at, position(slot)) : kHidden);
      }
    }
  }
};

template <typename Tile, int Slots>
size_t partBytes(uint32_t headDim, uint32_t tileTokens) {
  return Tile::bytes(headDim, tileTokens) + Slots * (Tile::queryFloats(headDim) + tileTokens + 3) * sizeof(float);
}

template <uint32_t Count>
using Keys = std::integral_constant<uint32_t, Count>;

// sums[slot][e] += weight * value of `Count` keys, in order; `key` is a multiple of it.
template <uint32_t Count, int Slots, int Elements, typename Tile>
__device__ __forceinline__ void addWeighted(const Tile& tile, const float* weights, uint32_t tileTokens, uint32_t slots,
                                            uint32_t key, float (&sums)[Slots][Elements]) {
  float values[Count][Elements];
#pragma unroll
  for (uint32_t k = 0; k < Count; k++)
#pragma unroll
    for (int e = 0; e < Elements; e++) {
      const uint32_t d = threadIdx.x + e * kPartThreads;
      values[k][e] = d < tile.headDim() ? tile.value(key + k, d) : 0.0f;
    }
#pragma unroll
  for (int slot = 0; slot < Slots; slot++) {
    if (slot >= static_cast<int>(slots)) continue;
    float ofKeys[Count];
    loadFloats<Count>(weights + slot * tileTokens + key, ofKeys);
#pragma unroll
    for (uint32_t k = 0; k < Count; k++)
#pragma unroll
      for (int e = 0; e < Elements; e++) sums[slot][e] = fmaf(ofKeys[k], values[k][e], sums[slot][e]);
  }
}

// A thread keeps `Elements` of each query's sums. What a query adds up, and in which order, follows from its own keys
// alone: tiles begin at multiples of their size, and the keys in common are whole tiles.
template <typename Tile, int Heads, int Slots, int Elements>
__global__ __launch_bounds__(kPartThreads, Slots >= 32 ? 3 : 4) void attendPartKernel(PartTask task) {
  const uint32_t headDim = task.layout.headDim, tileTokens = task.tileTokens;
  const PartBlock<Heads, Slots> block(task);
  if (block.isDone()) return;
  const uint32_t slots = block.slots, begin = block.keys.begin, end = block.keys.end;
  const AttentionPartials& partials = task.partials;

  uint8_t* memory = sharedAs<uint8_t>();
  const Tile tile(task.layout, block.first, block.heads.kvHead, tileTokens, memory);
  struct {
    float *queries, *weights, *maximum, *sum,
        *factor;  // [slots][Tile::queryFloats()], [slots][tileTokens], [slots] each
  } shared;
  shared.queries = reinterpret_cast<float*>(memory + Tile::bytes(headDim, tileTokens));
  shared.weights = shared.queries + Slots * Tile::queryFloats(headDim);
  shared.maximum = shared.weights + Slots * tileTokens;
  shared.sum = shared.maximum + Slots;
  shared.factor = shared.sum + Slots;

  block.takeQueries(tile, shared.queries);
  if (threadIdx.x < slots) {
    const AttentionPartial before =
        block.goesOn ? partials.weights[block.part(threadIdx.x)] : AttentionPartial{kLowest, 0};
    shared.maximum[threadIdx.x] = before.maximum;
    shared.sum[threadIdx.x] = before.sum;
  }

  float sums[Slots][Elements] = {};
  if (block.goesOn) {
#pragma unroll
    for (int slot = 0; slot < Slots; slot++)
#pragma unroll
      for (int e = 0; e < Elements; e++) {
        const uint32_t d = threadIdx.x + e * kPartThreads;
        if (slot < static_cast<int>(slots) && d < headDim)
          sums[slot][e] = partials.values[block.part(slot) * headDim + d];
      }
  }
  const uint32_t firstTile = begin / tileTokens * tileTokens;
  if (begin < end) tile.fetchKeys(firstTile, begin, end);
  commitCopies();
  for (uint32_t first = firstTile; first < end && begin < end; first += tileTokens) {
    tile.fetchValues(first, begin, end);
    commitCopies();
    waitForCopies<1>();
    __syncthreads();

    block.score(tile, shared.queries, first,
                [&](uint32_t slot, uint32_t key, float score) { shared.weights[slot * tileTokens + key] = score; });
    __syncthreads();
    if (first + tileTokens < end) tile.fetchKeys(first + tileTokens, begin, end);
    commitCopies();

    // Softmax so far: a warp takes every fourth query.
    for (uint32_t slot = threadIdx.x / kWarp; slot < slots; slot += kPartWarps) {
      float* weights = shared.weights + slot * tileTokens;
      const uint32_t lane = threadIdx.x % kWarp;
      float highest = kLowest;
      for (uint32_t i = lane; i < tileTokens; i += kWarp) highest = fmaxf(highest, weights[i]);
      const float before = shared.maximum[slot];
      highest = fmaxf(before, warpMaximum(highest));
      float total = 0;
      for (uint32_t i = lane; i < tileTokens; i += kWarp) {
        const float weight = expf(weights[i] - highest);
        weights[i] = weight;
        total += weight;
      }
      total = warpSum(total);
      __syncwarp();  // all lanes have read the maximum before
      if (lane == 0) {
        const float factor = expf(before - highest);
        shared.maximum[slot] = highest;
        shared.factor[slot] = factor;
        shared.sum[slot] = fmaf(shared.sum[slot], factor, total);
      }
    }
    waitForCopies<1>();
    __syncthreads();

    const uint32_t from = begin > first ? begin - first : 0, to = end - first < tileTokens ? end - first : tileTokens;
#pragma unroll
    for (int slot = 0; slot < Slots; slot++)
#pragma unroll
      for (int e = 0; e < Elements; e++)
        if (slot < static_cast<int>(slots)) sums[slot][e] *= shared.factor[slot];
    // Some keys at a time: their weights are one load, which all lanes of a warp share.
    constexpr uint32_t kKeys = Slots >= 32 ? 1 : 4;  // as many as registers hold beside the sums
    uint32_t key = from;
    const auto add = [&](auto count) {
      addWeighted<decltype(count)::value, Slots, Elements>(tile, shared.weights, tileTokens, slots, key, sums);
      key += decltype(count)::value;
    };
    if constexpr (kKeys > 1) {
      while (key < to && key % kKeys != 0) add(Keys<1>());
      while (key + kKeys <= to) add(Keys<kKeys>());
    }
    while (key < to) add(Keys<1>());
    __syncthreads();
  }
  waitForCopies<0>();

  __syncthreads();
  if (threadIdx.x < slots)
    partials.weights[block.part(threadIdx.x)] = {shared.maximum[threadIdx.x], shared.sum[threadIdx.x]};
#pragma unroll
  for (int slot = 0; slot < Slots; slot++)
#pragma unroll
    for (int e = 0; e < Elements; e++) {
      const uint32_t d = threadIdx.x + e * kPartThreads;
      if (slot < static_cast<int>(slots) && d < headDim)
        partials.values[block.part(slot) * headDim + d] = sums[slot][e];
    }
}

// The widest tile of which two blocks fit a multiprocessor.
template <typename Tile, int Heads>
uint32_t tileTokensOf(uint32_t headDim) {
  uint32_t tokens = kMostTileTokens;
  while (tokens > kKeyBlock && partBytes<Tile, Heads>(headDim, tokens) > 48 * 1024) tokens /= 2;
  return tokens;
}

// Blocks of a grid: parts, heads, and `count` tokens or bundles.
template <int Heads>
dim3 partGrid(const PartTask& task, uint32_t parts, size_t count) {
  return dim3(parts, task.layout.kvHeads * divideUp(task.shape.heads / task.layout.kvHeads, Heads),
              static_cast<unsigned>(count));
}

// At most 65535 tokens: a grid has so many blocks in its third dimension.
template <typename Tile, int Heads, int Elements>
void attendPartsOf(cudaStream_t stream, PartTask task, size_t count) {
  const uint32_t headDim = task.layout.headDim;
  task.tileTokens = tileTokensOf<Tile, Heads>(headDim);
  constexpr int kSlots = togetherSlots(Elements);
  if constexpr (kSlots > Heads) {
    const dim3 grid = partGrid<Heads>(task, task.common.parts, task.common.count);
    launch("attendPart", attendPartKernel<Tile, Heads, kSlots, Elements>, grid, kPartThreads,
           partBytes<Tile, kSlots>(headDim, task.tileTokens), stream, task);
  }
  const dim3 grid = partGrid<Heads>(task, task.partials.parts, count);
  launch("attendPart", attendPartKernel<Tile, Heads, Heads, Elements>, grid, kPartThreads,
         partBytes<Tile, Heads>(headDim, task.tileTokens), stream, task);
}

template <typename Tile, int Heads>
void attendPartsForHeadDim(cudaStream_t stream, const PartTask& task, size_t count) {
  switch (elementsOf(task.layout.headDim)) {
    case 1: return attendPartsOf<Tile, Heads, 1>(stream, task, count);
    case 2: return attendPartsOf<Tile, Heads, 2>(stream, task, count);
    default: return attendPartsOf<Tile, Heads, 4>(stream, task, count);
  }
}

// task.tileTokens is chosen here.
template <typename Tile>
void attendPartsIn(cudaStream_t stream, const PartTask& task, size_t count) {
  task.shape.heads == task.layout.kvHeads ? attendPartsForHeadDim<Tile, 1>(stream, task, count)
                                          : attendPartsForHeadDim<Tile, kMostPartHeads>(stream, task, count);
}

// Of pages of 8 and 4 bits.
void attendQuantisedParts(cudaStream_t stream, const PartTask& task, size_t count);

}  // namespace spillway::cuda
