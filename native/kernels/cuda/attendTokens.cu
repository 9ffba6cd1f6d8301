#include "attendPart.h"

namespace spillway::cuda {
namespace {

__device__ __forceinline__ float elementOf(const float* values, size_t index) { return values[index]; }
__device__ __forceinline__ float elementOf(const uint16_t* values, size_t index) { return fromHalf(values[index]); }

// Keys in blocks [headDim][16], values a row each.
template <typename Element>
class PlainTile {
 public:
  __device__ __forceinline__ PlainTile(const CacheLayout& layout, const AttentionToken& token, uint32_t kvHead, uint32_t tileTokens, uint8_t* memory)
      : pages_(headPages(layout, token.pages, kvHead)),
        tokens_(tileTokens),
        keys_(reinterpret_cast<Element*>(memory)),
        values_(keys_ + tileTokens * layout.headDim) {}
  __host__ __device__ static size_t bytes(uint32_t headDim, uint32_t tileTokens) { return tileTokens * (headDim + (headDim + 15) / 16 * 16) * sizeof(Element); }
  __host__ __device__ static uint32_t queryFloats(uint32_t headDim) { return headDim; }

  __device__ __forceinline__ void fetchKeys(uint32_t first, uint32_t begin, uint32_t end) const {
    cuda::fetchKeys(pages_, first, tokens_, begin, end, reinterpret_cast<uint8_t*>(keys_));
  }
  __device__ __forceinline__ void fetchValues(uint32_t first, uint32_t begin, uint32_t end) const {
    cuda::fetchValues(pages_, first, tokens_, begin, end, reinterpret_cast<uint8_t*>(values_), pages_.valueStride * sizeof(Element));
  }
  __device__ __forceinline__ void takeQueries(const float* from, uint32_t heads, float* to) const {
    for (uint32_t i = threadIdx.x; i < heads * pages_.headDim; i += kPartThreads) to[i] = from[i];
  }
  // One fused multiply-add an element, in order, as on the CPU.
  template <uint32_t Count>
  __device__ __forceinline__ void score(uint32_t key, const float* queries, uint32_t firstHead, uint32_t step, uint32_t heads, float* scores) const {
    const uint32_t headDim = pages_.headDim;
    const Element* from = keys_ + (key / kKeyBlock * headDim) * kKeyBlock + key % kKeyBlock;
    for (uint32_t d = 0; d < headDim; d++) {
      const float element = elementOf(from, size_t{d} * kKeyBlock);
#pragma unroll
      for (uint32_t i = 0; i < Count; i++) {
        const uint32_t head = firstHead + i * step;
        if (head < heads) scores[i] = fmaf(queries[head * headDim + d], element, scores[i]);
      }
    }
  }
  __device__ __forceinline__ float value(uint32_t key, uint32_t d) const { return elementOf(values_, key * pages_.valueStride + d); }

 private:
  HeadPages pages_;
  uint32_t tokens_;
  Element *keys_, *values_;
};

}  // namespace

void attendParts(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape, const AttentionToken* tokens, size_t count, const float* queries,
                 size_t queryStride, const AttentionPartials& partials) {
  // A grid has at most 65535 blocks in its third dimension.
  constexpr size_t kMostTokens = 32768;
  for (size_t first = 0; first < count; first += kMostTokens) {
    const size_t some = count - first < kMostTokens ? count - first : kMostTokens;
    AttentionPartials part = partials;
    part.weights += first * shape.heads * partials.parts;
    part.values += first * shape.heads * partials.parts * layout.headDim;
    const PartTask task = {layout, shape, tokens + first, queries + first * queryStride, queryStride, part, 0};
    switch (layout.type) {
      case CacheType::F16: attendPartsIn<PlainTile<uint16_t>>(stream, task, some); break;
      case CacheType::F32: attendPartsIn<PlainTile<float>>(stream, task, some); break;
      default: attendQuantisedParts(stream, task, some);
    }
  }
}

void attendTokens(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape, const AttentionToken* tokens, size_t count, const float* queries,
                  size_t queryStride, float* outputs, size_t outputStride, const AttentionPartials& partials) {
  attendParts(stream, layout, shape, tokens, count, queries, queryStride, partials);
  mergePartials(stream, partials, count, shape.heads, layout.headDim, outputs, outputStride);
}

}  // namespace spillway::cuda
