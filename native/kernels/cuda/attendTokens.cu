#include "attentionTile.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWarps = kThreads / kWarp;
constexpr uint32_t kMostTileTokens = 64;

struct Task {
  CacheLayout layout;
  AttentionShape shape;
  const AttentionToken* tokens;
  const float* queries;
  size_t queryStride;
  AttentionPartials partials;
  uint32_t tileTokens;  // of keys: 16, 32 or 64
};

__device__ __forceinline__ float elementOf(const float* values, size_t index) { return values[index]; }
__device__ __forceinline__ float elementOf(const uint16_t* values, size_t index) { return fromHalf(values[index]); }

// What a block has in shared memory; keys and values begin at multiples of 16 bytes.
template <typename Element>
struct Shared {
  Element *keys, *values;
  float *queries, *weights;  // [heads][headDim], [heads][tileTokens]
  float *maximum, *sum, *factor;  // [heads]
};

template <typename Element, int Heads>
__host__ __device__ __forceinline__ size_t sharedBytes(uint32_t headDim, uint32_t tileTokens) {
  const size_t valueStride = (headDim + 15) / 16 * 16;
  return tileTokens * (headDim + valueStride) * sizeof(Element) + Heads * (headDim + tileTokens + 3) * sizeof(float);
}

// One part of one token's keys, for up to `Heads` query heads that share a KV head. A thread keeps `Elements` of each head's sums.
template <typename Element, int Heads, int Elements>
__global__ __launch_bounds__(kThreads, 4) void attendPartKernel(Task task) {
  const uint32_t headDim = task.layout.headDim, tileTokens = task.tileTokens, group = task.shape.heads / task.layout.kvHeads;
  const uint32_t blocksPerKvHead = (group + Heads - 1) / Heads;
  const uint32_t kvHead = blockIdx.y / blocksPerKvHead, firstInGroup = blockIdx.y % blocksPerKvHead * Heads;
  const uint32_t heads = min(static_cast<int>(group - firstInGroup), Heads), firstHead = kvHead * group + firstInGroup;
  const AttentionToken token = task.tokens[blockIdx.z];
  const HeadPages pages = headPages(task.layout, token.pages, kvHead);

  // Keys [begin, end) of this part.
  const uint32_t partBegin = blockIdx.x * kPartTokens, visible = firstVisible(task.shape, token.position);
  const uint32_t begin = visible > partBegin ? visible : partBegin;
  const uint32_t keys = token.keys != 0 ? token.keys : token.position + 1;
  const uint32_t end = keys < partBegin + kPartTokens ? keys : partBegin + kPartTokens;

  Shared<Element> shared;
  shared.keys = sharedAs<Element>();
  shared.values = shared.keys + tileTokens * headDim;
  shared.queries = reinterpret_cast<float*>(shared.values + tileTokens * pages.valueStride);
  shared.weights = shared.queries + Heads * headDim;
  shared.maximum = shared.weights + Heads * tileTokens;
  shared.sum = shared.maximum + Heads;
  shared.factor = shared.sum + Heads;

  const float* queries = task.queries + blockIdx.z * task.queryStride + size_t{firstHead} * headDim;
  for (uint32_t i = threadIdx.x; i < heads * headDim; i += kThreads) shared.queries[i] = queries[i];
  if (threadIdx.x < heads) {
    shared.maximum[threadIdx.x] = kLowest;
    shared.sum[threadIdx.x] = 0;
  }

  float sums[Heads][Elements] = {};
  const uint32_t firstTile = begin / tileTokens * tileTokens;
  const uint32_t rowBytes = pages.valueStride * sizeof(Element);
  uint8_t* keyBytes = reinterpret_cast<uint8_t*>(shared.keys);
  if (begin < end) fetchKeys(pages, firstTile, tileTokens, begin, end, keyBytes);
  commitCopies();
  for (uint32_t first = firstTile; first < end && begin < end; first += tileTokens) {
    fetchValues(pages, first, tileTokens, begin, end, reinterpret_cast<uint8_t*>(shared.values), rowBytes);
    commitCopies();
    waitForCopies<1>();
    __syncthreads();

    // Scores: a thread takes one key and every so many heads; one fused multiply-add an element, in order, as on the CPU.
    {
      const uint32_t key = threadIdx.x % tileTokens, step = kThreads / tileTokens, position = first + key;
      const Element* from = shared.keys + (key / kKeyBlock * headDim) * kKeyBlock + key % kKeyBlock;
      constexpr uint32_t kMost = Heads == 1 ? 1 : Heads * kMostTileTokens / kThreads;
      float scores[kMost] = {};
      for (uint32_t d = 0; d < headDim; d++) {
        const float element = elementOf(from, size_t{d} * kKeyBlock);
#pragma unroll
        for (uint32_t i = 0; i < kMost; i++) {
          const uint32_t head = threadIdx.x / tileTokens + i * step;
          if (head < heads) scores[i] = fmaf(shared.queries[head * headDim + d], element, scores[i]);
        }
      }
#pragma unroll
      for (uint32_t i = 0; i < kMost; i++) {
        const uint32_t head = threadIdx.x / tileTokens + i * step;
        const bool seen = position >= begin && position < end;
        if (head < heads) shared.weights[head * tileTokens + key] = seen ? finishScore(task.shape, firstHead + head, scores[i], position, token.position) : kHidden;
      }
    }
    __syncthreads();
    if (first + tileTokens < end) fetchKeys(pages, first + tileTokens, tileTokens, begin, end, keyBytes);
    commitCopies();

    // Softmax so far: a warp takes every fourth head.
    for (uint32_t head = threadIdx.x / kWarp; head < heads; head += kWarps) {
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
        const uint32_t d = threadIdx.x + e * kThreads;
        values[e] = d < headDim ? elementOf(shared.values, key * pages.valueStride + d) : 0.0f;
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
      const uint32_t d = threadIdx.x + e * kThreads;
      const size_t part = (size_t{blockIdx.z} * task.shape.heads + firstHead + head) * partials.parts + blockIdx.x;
      if (head < static_cast<int>(heads) && d < headDim) partials.values[part * headDim + d] = sums[head][e];
    }
}

template <typename Element, int Heads, int Elements>
void run(cudaStream_t stream, Task task, size_t count) {
  // The widest tile of which two blocks fit a multiprocessor.
  task.tileTokens = kMostTileTokens;
  while (task.tileTokens > kKeyBlock && sharedBytes<Element, Heads>(task.layout.headDim, task.tileTokens) > 48 * 1024) task.tileTokens /= 2;
  const uint32_t group = task.shape.heads / task.layout.kvHeads;
  const dim3 grid(task.partials.parts, task.layout.kvHeads * divideUp(group, Heads), static_cast<unsigned>(count));
  launch("attendPart", attendPartKernel<Element, Heads, Elements>, grid, kThreads, sharedBytes<Element, Heads>(task.layout.headDim, task.tileTokens), stream, task);
}

template <typename Element, int Heads>
void runForHeadDim(cudaStream_t stream, const Task& task, size_t count) {
  if (task.layout.headDim <= kThreads) return run<Element, Heads, 1>(stream, task, count);
  if (task.layout.headDim <= 2 * kThreads) return run<Element, Heads, 2>(stream, task, count);
  run<Element, Heads, 4>(stream, task, count);
}

}  // namespace

void attendParts(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape, const AttentionToken* tokens, size_t count, const float* queries,
                 size_t queryStride, const AttentionPartials& partials) {
  const bool single = shape.heads == layout.kvHeads;
  // A grid has at most 65535 blocks in its third dimension.
  constexpr size_t kMostTokens = 32768;
  for (size_t first = 0; first < count; first += kMostTokens) {
    const size_t some = count - first < kMostTokens ? count - first : kMostTokens;
    AttentionPartials part = partials;
    part.weights += first * shape.heads * partials.parts;
    part.values += first * shape.heads * partials.parts * layout.headDim;
    const Task task = {layout, shape, tokens + first, queries + first * queryStride, queryStride, part, 0};
    if (layout.type == CacheType::F16)
      single ? runForHeadDim<uint16_t, 1>(stream, task, some) : runForHeadDim<uint16_t, 8>(stream, task, some);
    else
      single ? runForHeadDim<float, 1>(stream, task, some) : runForHeadDim<float, 8>(stream, task, some);
  }
}

void attendTokens(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape, const AttentionToken* tokens, size_t count, const float* queries,
                  size_t queryStride, float* outputs, size_t outputStride, const AttentionPartials& partials) {
  attendParts(stream, layout, shape, tokens, count, queries, queryStride, partials);
  mergePartials(stream, partials, count, shape.heads, layout.headDim, outputs, outputStride);
}

}  // namespace spillway::cuda
