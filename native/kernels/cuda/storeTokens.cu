#include "attentionTile.h"
#include "storeQuantisedTokens.h"

namespace spillway::cuda {
namespace {

__device__ __forceinline__ void storeElement(uint8_t* at, size_t index, bool half, float value) {
  if (!half) {
    reinterpret_cast<float*>(at)[index] = value;
    return;
  }
  reinterpret_cast<uint16_t*>(at)[index] = toHalf(clampFinite(value, kLargestHalf));
}

constexpr unsigned kThreads = 256, kTokens = kKeyBlock;

// A block takes a KV head of 16 tokens. Keys of a row's tokens stand next to each other in its page, so that they go
// there by way of shared memory, [kTokens][headDim + 1], element by element of all of them.
__global__ __launch_bounds__(kThreads) void storeTokensKernel(CacheLayout layout, const AttentionToken* tokens,
                                                              size_t count, const float* keys, const float* values,
                                                              size_t stride) {
  const size_t firstToken = size_t{blockIdx.x} * kTokens;
  const uint32_t here = count - firstToken < kTokens ? static_cast<uint32_t>(count - firstToken) : kTokens;
  const uint32_t headDim = layout.headDim, pageTokens = layout.pageTokens;
  const bool half = layout.type == CacheType::F16;
  float* turned = sharedAs<float>();
  const auto headOf = [&](uint32_t token) { return headPages(layout, tokens[firstToken + token].pages, blockIdx.y); };
  const auto positionOf = [&](uint32_t token) { return tokens[firstToken + token].position; };
  const auto pageOf = [&](const HeadPages& head, uint32_t position) {
    return const_cast<uint8_t*>(head.page(position));
  };

  const size_t from = firstToken * stride + size_t{blockIdx.y} * headDim;
  const uint32_t width = (headDim + 15) / 16 * 16;  // of a row of values, with zeros after
#pragma unroll 4
  for (uint32_t i = threadIdx.x; i < here * width; i += kThreads) {
    const uint32_t token = i / width, d = i % width, position = positionOf(token);
    const bool isThere = d < headDim;
    const size_t at = from + token * stride + (isThere ? d : 0);
    if (isThere) turned[token * (headDim + 1) + d] = keys[at];
    const HeadPages head = headOf(token);
    storeElement(pageOf(head, position) + head.valueOffset, size_t{position % pageTokens} * width + d, half,
                 isThere ? values[at] : 0.0f);
  }
  __syncthreads();
  const uint32_t token = threadIdx.x % kTokens;
  if (token >= here) return;
  const HeadPages head = headOf(token);
  const uint32_t position = positionOf(token), index = position % pageTokens;
  uint8_t* page = pageOf(head, position) + head.headOffset;
#pragma unroll 4
  for (uint32_t d = threadIdx.x / kTokens; d < headDim; d += kThreads / kTokens)
    storeElement(page, (size_t{index / kKeyBlock} * headDim + d) * kKeyBlock + index % kKeyBlock, half,
                 turned[token * (headDim + 1) + d]);
}

}  // namespace

void storeTokens(cudaStream_t stream, const CacheLayout& layout, const AttentionToken* tokens, size_t count,
                 const float* keys, const float* values, size_t stride) {
  if (isQuantised(layout.type)) return storeQuantisedTokens(stream, layout, tokens, count, keys, values, stride);
  launch("storeTokens", storeTokensKernel, dim3(divideUp(count, kTokens), layout.kvHeads), kThreads,
         kTokens * (layout.headDim + 1) * sizeof(float), stream, layout, tokens, count, keys, values, stride);
}

}  // namespace spillway::cuda
