// Which rows of its embedding the distances of disentangled attention have (DisentangledSpec).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "DecoderSpec.h"

namespace spillway {

// Of a query that stands so many positions after its key: of distances up to half of the span one row each, then of
// ranges that grow (transformers' make_log_bucket_position, in its precision).
inline size_t distanceRow(const DisentangledSpec& spec, ptrdiff_t distance) {
  const ptrdiff_t span = spec.span, away = std::abs(distance);
  ptrdiff_t bucket = away;
  if (const ptrdiff_t middle = span / 2; spec.distance != 0 && away > middle) {
    const float share = std::log(static_cast<float>(away) / static_cast<float>(middle)) /
                        std::log(static_cast<float>(double(spec.distance - 1) / double(middle)));
    bucket = static_cast<ptrdiff_t>(std::min(std::ceil(share * static_cast<float>(middle - 1)), 1e6f)) + middle;
  }
  const ptrdiff_t row = span + (distance < 0 ? -bucket : bucket);
  return static_cast<size_t>(std::clamp<ptrdiff_t>(row, 0, 2 * span - 1));
}

// Those that rows of up to so many tokens need: from the first one on.
struct DistanceRows {
  size_t first, count;
  DistanceRows(const DisentangledSpec& spec, size_t tokens) {
    const ptrdiff_t most = static_cast<ptrdiff_t>(tokens) - 1;
    first = distanceRow(spec, -most);
    count = distanceRow(spec, most) - first + 1;
  }
  size_t panels() const { return (count + 15) / 16; }
};

}  // namespace spillway
