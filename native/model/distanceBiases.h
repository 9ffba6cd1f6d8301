// Biases of attention scores by distance (AttentionShape::distances), made of what a model has: a weight a bucket of
// distances and head (T5, MPNet), or the slopes of ALiBi where keys come after their queries, too.
#pragma once
#include <cstddef>
#include <vector>

#include "Weights.h"

namespace spillway {

inline bool hasDistanceBiases(const DecoderSpec& spec) { return spec.relativeBuckets != 0 || spec.alibiSymmetric; }
// Of one head: for every distance within the context either way, and 16 more.
inline size_t distanceStride(const DecoderSpec& spec) { return 2 * (size_t(spec.contextTokens) + 16); }

// [heads, distanceStride()]; empty where the model has none. Of loaded weights.
std::vector<float> distanceBiases(const DecoderSpec& spec, const Weights& weights);

}  // namespace spillway
