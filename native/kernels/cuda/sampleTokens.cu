#include "Sampling.h"
#include "philox.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kWarps = kThreads / kWarp;
constexpr unsigned kBuckets = 256;

struct Best {
  float value;
  uint32_t index;
};

struct Shared {
  Best best[kWarps];
  double partials[kWarps];
  unsigned long long counts[kBuckets];
  unsigned long long sums[kWarps];
  unsigned long long left;  // what is still to be found, in the bucket that was chosen
  uint32_t prefix, token;
};

__device__ __forceinline__ float orMinusInfinity(float x) { return x > -INFINITY ? x : -INFINITY; }

// Of a token: exp(value) in multiples of 2^-40. value: at most 0.
__device__ __forceinline__ unsigned long long weightOf(float value) {
  return value > -INFINITY ? static_cast<unsigned long long>(static_cast<double>(expf(value)) * 1099511627776.0) : 0ull;
}

// Integers in the order of the floats; +0 and -0 are one.
__device__ __forceinline__ uint32_t orderOf(float value) {
  const uint32_t bits = value == 0.0f ? 0u : __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ bool isNan(float x) { return x != x; }

// A NaN is above all.
__device__ __forceinline__ Best better(Best a, Best b) {
  return b.value > a.value || (b.value == a.value && b.index < a.index) || isNan(b.value) ? b : a;
}

// Largest value and its first index; if nothing is above -infinity, index 0. Of any NaN a NaN.
__device__ Best largestOf(const float* values, size_t n, Shared& shared) {
  Best best = {-INFINITY, 0};
  for (size_t i = threadIdx.x; i < n; i += kThreads)
    if (values[i] > best.value || isNan(values[i])) best = {values[i], static_cast<uint32_t>(i)};
  return blockReduce(
      best, shared.best,
      [](Best own) {
#pragma unroll
        for (int lanes = 16; lanes > 0; lanes /= 2) {
          const float value = __shfl_xor_sync(kAllLanes, own.value, lanes);
          const uint32_t index = __shfl_xor_sync(kAllLanes, own.index, lanes);
          own = better(own, {value, index});
        }
        return own;
      },
      better);
}

// The place, counted from the largest value down, at which `Weigh` adds up to more than `target`: leaves the value's
// order in shared.prefix and how far into the tokens of exactly that value it lies in shared.left. Four digits of eight
// bits, each counted in shared memory; the sums are integers.
template <typename Weigh>
__device__ void descend(const float* values, size_t n, unsigned long long target, Shared& shared, Weigh weigh) {
  if (threadIdx.x == 0) {
    shared.left = target;
    shared.prefix = 0;
  }
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (unsigned i = threadIdx.x; i < kBuckets; i += kThreads) shared.counts[i] = 0;
    __syncthreads();
    const uint32_t prefix = shared.prefix, above = shift == 24 ? 0 : 0xffffffffu << (shift + 8);
    for (size_t i = threadIdx.x; i < n; i += kThreads) {
      const uint32_t order = orderOf(values[i]);
      if (((order ^ prefix) & above) == 0) atomicAdd(&shared.counts[order >> shift & 255], weigh(values[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned long long left = shared.left;
      int bucket = kBuckets - 1;
      while (bucket > 0 && shared.counts[bucket] <= left) left -= shared.counts[bucket--];
      shared.left = left;
      shared.prefix = prefix | static_cast<uint32_t>(bucket) << shift;
    }
    __syncthreads();
  }
}

// Ids before the end of a warp's share; shares are consecutive.
__device__ __forceinline__ size_t shareOf(size_t n, unsigned warp) {
  return (n + kWarps * kWarp - 1) / (kWarps * kWarp) * kWarp * warp;
}

// The first id at which the weights, added up in order of ids, exceed `target`; n where they never do.
template <typename Weigh>
__device__ uint32_t firstBeyond(const float* values, size_t n, unsigned long long target, Shared& shared, Weigh weigh) {
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const size_t begin = shareOf(n, warp), end = shareOf(n, warp + 1) < n ? shareOf(n, warp + 1) : n;
  unsigned long long sum = 0;
  for (size_t i = begin + lane; i < end; i += kWarp) sum += weigh(values[i]);
  sum = warpSum(sum);
  if (lane == 0) shared.sums[warp] = sum;
  if (threadIdx.x == 0) shared.token = static_cast<uint32_t>(n);
  __syncthreads();
  unsigned long long before = 0;
  for (unsigned other = 0; other < warp; other++) before += shared.sums[other];
  if (before <= target && target < before + shared.sums[warp]) {
    for (size_t first = begin; first < end; first += kWarp) {
      unsigned long long upTo = first + lane < end ? weigh(values[first + lane]) : 0ull;
#pragma unroll
      for (unsigned lanes = 1; lanes < kWarp; lanes *= 2) {
        const unsigned long long other = __shfl_up_sync(kAllLanes, upTo, lanes);
        if (lane >= lanes) upTo += other;
      }
      const unsigned beyond = __ballot_sync(kAllLanes, before + upTo > target);
      if (beyond != 0) {
        if (lane == 0)
          shared.token = static_cast<uint32_t>(first) + static_cast<uint32_t>(__ffs(static_cast<int>(beyond))) - 1;
        break;
      }
      before += __shfl_sync(kAllLanes, upTo, 31);
    }
  }
  __syncthreads();
  const uint32_t token = shared.token;
  __syncthreads();
  return token;
}

__device__ unsigned long long totalWeight(const float* values, size_t n, Shared& shared) {
  unsigned long long sum = 0;
  for (size_t i = threadIdx.x; i < n; i += kThreads) sum += weightOf(values[i]);
  return blockSum(sum, shared.sums);
}

// Values below the k-th become -infinity; those as large as it stay.
__device__ void keepTopK(float* values, size_t n, uint32_t k, Shared& shared) {
  if (k == 0 || k >= n) return;
  descend(values, n, k - 1, shared, [](float) { return 1ull; });
  const uint32_t lowest = shared.prefix;
  for (size_t i = threadIdx.x; i < n; i += kThreads)
    if (orderOf(values[i]) < lowest) values[i] = -INFINITY;
  __syncthreads();
}

// A token stays where it and all below it add up to more than 1 - p; the best one always; of equal ones the lowest ids.
__device__ void keepTopP(float* values, size_t n, float topP, Shared& shared) {
  if (!(topP < 1.0f)) return;
  const unsigned long long total = totalWeight(values, n, shared);
  const unsigned long long removable =
      static_cast<unsigned long long>((1.0 - fmax(static_cast<double>(topP), 0.0)) * static_cast<double>(total));
  // Kept: those with less than total - removable above them. With 0 there, the best one's own.
  const unsigned long long kept = total - removable > 0 ? total - removable - 1 : 0;
  descend(values, n, kept, shared, [](float value) { return weightOf(value); });
  const uint32_t lowest = shared.prefix;
  const unsigned long long left = shared.left;
  __syncthreads();
  // Of the tokens that equal the lowest, ids up to the one at which their weights exceed what is left.
  const uint32_t last = firstBeyond(values, n, left, shared,
                                    [=](float value) { return orderOf(value) == lowest ? weightOf(value) : 0ull; });
  for (size_t i = threadIdx.x; i < n; i += kThreads) {
    const uint32_t order = orderOf(values[i]);
    if (order < lowest || (order == lowest && i > last)) values[i] = -INFINITY;
  }
  __syncthreads();
}

// largest: of the row's logits, finite.
__device__ uint32_t choose(const SamplingRow& row, size_t n, Best largest, float* values, Shared& shared) {
  const SamplingParameters& parameters = row.parameters;
  const float penalty = parameters.repetitionPenalty;
  const bool greedy = !(parameters.temperature > 0.0f);
  if (greedy && penalty == 1.0f) return largest.index;
  for (size_t i = threadIdx.x; i < n; i += kThreads) values[i] = row.logits[i];
  __syncthreads();
  // From the logit itself, so once however often a token stands there.
  if (penalty != 1.0f) {
    for (uint32_t i = threadIdx.x; i < row.historyCount; i += kThreads) {
      const int32_t token = row.history[i];
      if (token < 0 || static_cast<size_t>(token) >= n) continue;
      const float logit = row.logits[token];
      atomicExch(&values[token], logit < 0 ? logit * penalty : logit / penalty);
    }
    __syncthreads();
  }
  const Best best = penalty != 1.0f ? largestOf(values, n, shared) : largest;
  if (greedy || best.value == INFINITY || best.value == -INFINITY) return best.index;
  for (size_t i = threadIdx.x; i < n; i += kThreads)
    values[i] = orMinusInfinity((values[i] - best.value) / parameters.temperature);
  __syncthreads();
  keepTopK(values, n, parameters.topK, shared);
  keepTopP(values, n, parameters.topP, shared);
  if (parameters.minP > 0.0f) {
    const float lowest = static_cast<float>(log(fmin(static_cast<double>(parameters.minP), 1.0)));
    for (size_t i = threadIdx.x; i < n; i += kThreads)
      if (values[i] < lowest) values[i] = -INFINITY;
    __syncthreads();
  }
  const unsigned long long total = totalWeight(values, n, shared);
  const double uniform = uniformOnDevice(parameters.seed, row.position);
  return firstBeyond(values, n, static_cast<unsigned long long>(uniform * static_cast<double>(total)), shared,
                     [](float value) { return weightOf(value); });
}

// A block a row.
__global__ __launch_bounds__(kThreads) void sampleTokensKernel(const SamplingRow* rows, size_t vocabulary,
                                                               float* workspace, int32_t* tokens, float* logprobs) {
  Shared& shared = *sharedAs<Shared>();
  const SamplingRow row = rows[blockIdx.x];
  const Best largest = largestOf(row.logits, vocabulary, shared);
  const float maximum = largest.value;
  if (!(maximum > -INFINITY && maximum < INFINITY)) {
    if (threadIdx.x == 0) tokens[blockIdx.x] = kNotFinite;
    if (threadIdx.x == 0 && logprobs != nullptr) logprobs[blockIdx.x] = NAN;
    return;
  }
  const uint32_t token = choose(row, vocabulary, largest, workspace + blockIdx.x * vocabulary, shared);
  if (threadIdx.x == 0) tokens[blockIdx.x] = static_cast<int32_t>(token);
  if (logprobs == nullptr) return;
  double sum = 0;
  for (size_t i = threadIdx.x; i < vocabulary; i += kThreads)
    sum += row.logits[i] > -INFINITY ? static_cast<double>(expf(row.logits[i] - maximum)) : 0.0;
  sum = blockSum(sum, shared.partials);
  const float logit = orMinusInfinity(row.logits[token]);
  if (threadIdx.x == 0)
    logprobs[blockIdx.x] = logit == -INFINITY ? logit : (logit - maximum) - static_cast<float>(log(sum));
}

}  // namespace

void sampleTokens(cudaStream_t stream, const SamplingRow* rows, size_t count, size_t vocabulary, float* workspace,
                  int32_t* tokens, float* logprobs) {
  launch("sampleTokens", sampleTokensKernel, static_cast<unsigned>(count), kThreads, sizeof(Shared), stream, rows,
         vocabulary, workspace, tokens, logprobs);
}

}  // namespace spillway::cuda
