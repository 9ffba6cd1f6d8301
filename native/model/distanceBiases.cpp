#include "distanceBiases.h"

#include <algorithm>
#include <cmath>

namespace spillway {

namespace {

// The bucket of a key at so many positions from its query: half of them are for keys before it, half for those after;
// of each half the first half is for one distance each, the other for ranges that grow up to the largest distance
// (transformers' relative_position_bucket).
size_t bucketOf(const DecoderSpec& spec, ptrdiff_t distance) {
  const size_t half = spec.relativeBuckets / 2, exact = half / 2;
  const size_t away = static_cast<size_t>(std::abs(distance)), first = distance > 0 ? half : 0;
  if (away < exact) return first + away;
  const float share = std::log(static_cast<float>(away) / static_cast<float>(exact)) /
                      static_cast<float>(std::log(double(spec.relativeDistance) / double(exact)));
  return first + std::min(half - 1, exact + static_cast<size_t>(share * static_cast<float>(half - exact)));
}

}  // namespace

std::vector<float> distanceBiases(const DecoderSpec& spec, const Weights& weights) {
  if (!hasDistanceBiases(spec)) return {};
  const size_t stride = distanceStride(spec);
  std::vector<float> biases(spec.heads * stride), buckets(size_t(spec.relativeBuckets) * spec.heads);
  for (size_t b = 0; b < spec.relativeBuckets; b++)
    unpackRow(weights.global().relativeBias, b, buckets.data() + b * spec.heads);
  for (size_t head = 0; head < spec.heads; head++) {
    for (size_t i = 0; i < stride; i++) {
      const ptrdiff_t distance = static_cast<ptrdiff_t>(i) - static_cast<ptrdiff_t>(stride / 2);
      const float bias = spec.alibiSymmetric ? -spec.alibiSlopes[head] * static_cast<float>(std::abs(distance))
                                             : buckets[bucketOf(spec, distance) * spec.heads + head];
      biases[head * stride + i] = bias / spec.attentionScale;
    }
  }
  return biases;
}

}  // namespace spillway
