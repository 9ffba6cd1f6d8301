#include "plainTile.h"

namespace spillway::cuda {

uint32_t mostTogether(const CacheLayout& layout, const AttentionShape& shape) {
  const uint32_t group = shape.heads / layout.kvHeads;
  return static_cast<uint32_t>(togetherSlots(elementsOf(layout.headDim))) /
         (group < kMostPartHeads ? group : kMostPartHeads);
}

void attendParts(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                 const AttentionToken* tokens, size_t count, const float* queries, size_t queryStride,
                 const AttentionPartials& partials, const CommonKeys& common) {
  // A grid has at most 65535 blocks in its third dimension.
  constexpr size_t kMostTokens = 32768;
  for (size_t first = 0; first < count; first += kMostTokens) {
    const size_t some = count - first < kMostTokens ? count - first : kMostTokens;
    AttentionPartials part = partials;
    part.weights += first * shape.heads * partials.parts;
    part.values += first * shape.heads * partials.parts * layout.headDim;
    const PartTask task = {layout, shape, tokens + first, queries + first * queryStride, queryStride, part, common, 0};
    switch (layout.type) {
      case CacheType::F16: attendPartsIn<PlainTile<uint16_t>>(stream, task, some); break;
      case CacheType::F32: attendPartsIn<PlainTile<float>>(stream, task, some); break;
      default: attendQuantisedParts(stream, task, some);
    }
  }
}

void decodeAttention(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                     const AttentionToken* tokens, size_t count, const float* queries, size_t queryStride,
                     float* outputs, size_t outputStride, const AttentionPartials& partials) {
  attendParts(stream, layout, shape, tokens, count, queries, queryStride, partials);
  AttentionPartials merged = partials;
  merged.sinks = shape.sinks;
  combineSplits(stream, merged, count, shape.heads, layout.headDim, outputs, outputStride);
}

}  // namespace spillway::cuda
