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

// A block a token and KV head.
__global__ void storeTokensKernel(CacheLayout layout, const AttentionToken* tokens, const float* keys,
                                  const float* values, size_t stride) {
  const AttentionToken token = tokens[blockIdx.x];
  const HeadPages head = headPages(layout, token.pages, blockIdx.y);
  uint8_t* page = const_cast<uint8_t*>(head.page(token.position));
  const uint32_t index = token.position % layout.pageTokens;
  const bool half = layout.type == CacheType::F16;
  const size_t from = blockIdx.x * stride + size_t{blockIdx.y} * layout.headDim;
  for (uint32_t d = threadIdx.x; d < head.valueStride; d += blockDim.x) {
    if (d < layout.headDim) {
      const size_t place = (size_t{index / kKeyBlock} * layout.headDim + d) * kKeyBlock + index % kKeyBlock;
      storeElement(page + head.headOffset, place, half, keys[from + d]);
    }
    storeElement(page + head.valueOffset, size_t{index} * head.valueStride + d, half,
                 d < layout.headDim ? values[from + d] : 0.0f);
  }
}

}  // namespace

void storeTokens(cudaStream_t stream, const CacheLayout& layout, const AttentionToken* tokens, size_t count,
                 const float* keys, const float* values, size_t stride) {
  if (isQuantised(layout.type)) return storeQuantisedTokens(stream, layout, tokens, count, keys, values, stride);
  launch("storeTokens", storeTokensKernel, dim3(static_cast<unsigned>(count), layout.kvHeads), 128, 0, stream, layout,
         tokens, keys, values, stride);
}

}  // namespace spillway::cuda
