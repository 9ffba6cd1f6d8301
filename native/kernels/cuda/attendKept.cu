#include "SparseAttention.h"
#include "plainTile.h"
#include "quantisedCacheTile.h"

namespace spillway::cuda {
namespace {

// One part of one token's keys, for up to `Heads` query heads that share a KV head. A thread keeps `Elements` of each
// head's sums.
template <typename Values, int Heads, int Elements>
__global__ __launch_bounds__(kPartThreads, 4) void attendKeptKernel(PartTask task, KeyScores scores,
                                                                    const AttentionCut* cuts) {
  const uint32_t headDim = task.layout.headDim, lane = threadIdx.x % kWarp;
  const PartHeads own = partHeads<Heads>(task.layout, task.shape, blockIdx.y);
  const AttentionToken token = task.tokens[blockIdx.z];
  const PartKeys keys = partKeys(task.shape, token, blockIdx.x);
  const uint32_t begin = keys.begin, count = keys.begin < keys.end ? keys.end - keys.begin : 0;
  const size_t firstQuery = size_t{blockIdx.z} * task.shape.heads + own.first;
  const AttentionPartials& partials = task.partials;

  float* weights = sharedAs<float>();  // [heads][kPartTokens]; 0 of keys that are not kept
  uint32_t* kept = reinterpret_cast<uint32_t*>(weights + Heads * kPartTokens);  // those that some head keeps, in order
  uint32_t* keptCount = kept + kPartTokens;
  for (uint32_t head = threadIdx.x / kWarp; head < own.count; head += kPartWarps) {
    const size_t query = firstQuery + head;
    const AttentionCut cut = cuts[query];
    float highest = kLowest;
    for (uint32_t i = lane; i < count; i += kWarp) {
      const uint32_t position = begin + i;
      const float score = scores.scores[query * scores.stride + position];
      const bool keeps = position == token.position || isKept(cut, scoreOrder(__float_as_uint(score)), position);
      weights[head * kPartTokens + i] = keeps ? score : kHidden;
      if (keeps) highest = fmaxf(highest, score);
    }
    highest = warpMaximum(highest);
    float sum = 0;
    for (uint32_t i = lane; i < count; i += kWarp) {
      const float weight = expf(weights[head * kPartTokens + i] - highest);
      weights[head * kPartTokens + i] = weight;
      sum += weight;
    }
    sum = warpSum(sum);
    if (lane == 0) partials.weights[query * partials.parts + blockIdx.x] = {highest, sum};
  }
  __syncthreads();
  if (threadIdx.x < kWarp) {
    uint32_t before = 0;
    for (uint32_t first = 0; first < count; first += kWarp) {
      bool any = false;
      for (uint32_t head = 0; head < own.count; head++)
        any = any || (first + lane < count && weights[head * kPartTokens + first + lane] != 0.0f);
      const uint32_t all = __ballot_sync(kAllLanes, any);
      if (any) kept[before + static_cast<uint32_t>(__popc(all & ((1u << lane) - 1)))] = first + lane;
      before += static_cast<uint32_t>(__popc(all));
    }
    if (lane == 0) *keptCount = before;
  }
  __syncthreads();

  const Values values(task.layout, token, own.kvHead);
  float sums[Heads][Elements] = {};
  const uint32_t keptKeyCount = *keptCount;
  for (uint32_t i = 0; i < keptKeyCount; i++) {
    const uint32_t key = kept[i];
    float value[Elements];
#pragma unroll
    for (int e = 0; e < Elements; e++) {
      const uint32_t d = threadIdx.x + e * kPartThreads;
      value[e] = d < headDim ? values.value(begin + key, d) : 0.0f;
    }
#pragma unroll
    for (int head = 0; head < Heads; head++) {
      if (head >= static_cast<int>(own.count)) continue;
      const float weight = weights[head * kPartTokens + key];
      if (weight == 0.0f) continue;  // this head does not keep it: the value may be infinite
#pragma unroll
      for (int e = 0; e < Elements; e++) sums[head][e] = fmaf(weight, value[e], sums[head][e]);
    }
  }
#pragma unroll
  for (int head = 0; head < Heads; head++)
#pragma unroll
    for (int e = 0; e < Elements; e++) {
      const uint32_t d = threadIdx.x + e * kPartThreads;
      const size_t part = (firstQuery + head) * partials.parts + blockIdx.x;
      if (head < static_cast<int>(own.count) && d < headDim) partials.values[part * headDim + d] = sums[head][e];
    }
}

template <typename Values, int Heads, int Elements>
void run(cudaStream_t stream, const PartTask& task, size_t count, const KeyScores& scores, const AttentionCut* cuts) {
  const dim3 grid(task.partials.parts, task.layout.kvHeads * divideUp(task.shape.heads / task.layout.kvHeads, Heads),
                  static_cast<unsigned>(count));
  const size_t bytes = Heads * kPartTokens * sizeof(float) + (kPartTokens + 1) * sizeof(uint32_t);
  launch("attendKept", attendKeptKernel<Values, Heads, Elements>, grid, kPartThreads, bytes, stream, task, scores,
         cuts);
}

template <typename Values, int Heads>
void runForHeadDim(cudaStream_t stream, const PartTask& task, size_t count, const KeyScores& scores,
                   const AttentionCut* cuts) {
  if (task.layout.headDim <= kPartThreads) return run<Values, Heads, 1>(stream, task, count, scores, cuts);
  if (task.layout.headDim <= 2 * kPartThreads) return run<Values, Heads, 2>(stream, task, count, scores, cuts);
  run<Values, Heads, 4>(stream, task, count, scores, cuts);
}

template <typename Values>
void runForHeads(cudaStream_t stream, const PartTask& task, size_t count, const KeyScores& scores,
                 const AttentionCut* cuts) {
  task.shape.heads == task.layout.kvHeads ? runForHeadDim<Values, 1>(stream, task, count, scores, cuts)
                                          : runForHeadDim<Values, kMostPartHeads>(stream, task, count, scores, cuts);
}

}  // namespace

void attendKept(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                const AttentionToken* tokens, size_t count, const KeyScores& scores, const AttentionCut* cuts,
                const AttentionPartials& partials) {
  const PartTask task = {layout, shape, tokens, nullptr, 0, partials, {}, 0};
  switch (layout.type) {
    case CacheType::F32: return runForHeads<PlainValues<float>>(stream, task, count, scores, cuts);
    case CacheType::F16: return runForHeads<PlainValues<uint16_t>>(stream, task, count, scores, cuts);
    case CacheType::Q8: return runForHeads<QuantisedValues<8>>(stream, task, count, scores, cuts);
    case CacheType::Q4: return runForHeads<QuantisedValues<4>>(stream, task, count, scores, cuts);
  }
}

}  // namespace spillway::cuda
