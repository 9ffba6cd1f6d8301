#include "SparseAttention.h"
#include "attentionTile.h"

namespace spillway::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kDigits = 256;
static_assert(kThreads == kDigits, "a thread clears a digit's count");

struct Shared {
  uint32_t counts[kDigits];
  uint32_t prefix, left, among;
};

// The `count`-th largest of the whole numbers keyOf(i) of those i in [begin, end) that take part: leaves it in
// shared.prefix, and in shared.left how many of those that equal it are among the `count` largest, of shared.among.
// Four digits of eight bits, each counted in shared memory. All threads take part; 1 <= count <= those.
template <typename KeyOf, typename TakesPart>
__device__ __forceinline__ void descend(Shared& shared, uint32_t begin, uint32_t end, uint32_t count, KeyOf keyOf,
                                        TakesPart takesPart) {
  if (threadIdx.x == 0) {
    shared.prefix = 0;
    shared.left = count;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    shared.counts[threadIdx.x] = 0;
    __syncthreads();
    const uint32_t prefix = shared.prefix, above = shift == 24 ? 0 : 0xffffffffu << (shift + 8);
    for (uint32_t i = begin + threadIdx.x; i < end; i += kThreads) {
      const uint32_t key = keyOf(i);
      if (((key ^ prefix) & above) == 0 && takesPart(i)) atomicAdd(&shared.counts[key >> shift & 255], 1u);
    }
    __syncthreads();
    // A lane of the first warp has eight digits; what comes before it are those of the lanes above.
    if (threadIdx.x < kWarp) {
      const uint32_t lane = threadIdx.x, left = shared.left;
      uint32_t own = 0;
      for (uint32_t i = 0; i < 8; i++) own += shared.counts[8 * lane + i];
      uint32_t upTo = own;
#pragma unroll
      for (uint32_t lanes = 1; lanes < kWarp; lanes *= 2) {
        const uint32_t other = __shfl_down_sync(kAllLanes, upTo, lanes);
        if (lane + lanes < kWarp) upTo += other;
      }
      uint32_t before = upTo - own;
      __syncwarp();
      if (before < left && left <= upTo) {
        uint32_t digit = 8 * lane + 7;
        while (before + shared.counts[digit] < left) before += shared.counts[digit--];
        shared.prefix = prefix | digit << shift;
        shared.left = left - before;
        shared.among = shared.counts[digit];
      }
    }
    __syncthreads();
  }
}

// A block a query.
__global__ void selectKeysKernel(AttentionShape shape, const AttentionToken* tokens, KeyScores scores,
                                 AttentionCut* cuts) {
  Shared& shared = *sharedAs<Shared>();
  const uint32_t position = tokens[blockIdx.x].position, begin = firstVisible(shape, position);
  const size_t query = size_t{blockIdx.x} * shape.heads + blockIdx.y;
  // The newest key is always kept, the others compete.
  const uint32_t competing = position - begin, count = topK(shape.keep, competing + 1) - 1;
  if (count == 0 || count >= competing) {
    if (threadIdx.x == 0) cuts[query] = count == 0 ? kNoKey : kEveryKey;
    return;
  }
  const float* own = scores.scores + query * scores.stride;
  const auto orderAt = [own](uint32_t key) { return scoreOrder(__float_as_uint(own[key])); };
  descend(shared, begin, position, count, orderAt, [](uint32_t) { return true; });
  const uint32_t order = shared.prefix, left = shared.left, among = shared.among;
  __syncthreads();
  if (left == among) {
    if (threadIdx.x == 0) cuts[query] = {order, 0};
    return;
  }
  descend(
      shared, begin, position, left, [](uint32_t key) { return key; },
      [&](uint32_t key) { return orderAt(key) == order; });
  if (threadIdx.x == 0) cuts[query] = {order, shared.prefix};
}

}  // namespace

void selectKeys(cudaStream_t stream, const AttentionShape& shape, const AttentionToken* tokens, size_t count,
                const KeyScores& scores, AttentionCut* cuts) {
  launch("selectKeys", selectKeysKernel, dim3(static_cast<unsigned>(count), shape.heads), kThreads, sizeof(Shared),
         stream, shape, tokens, scores, cuts);
}

}  // namespace spillway::cuda
