#include "HeldBlocks.h"

#include <algorithm>
#include <cstring>

namespace spillway {

HeldBlocks::HeldBlocks(size_t bytes, size_t blockBytes)
    : blockBytes_(blockBytes),
      places_(bytes / (kWays * (blockBytes + sizeof(Place)) + 1) * kWays),
      hands_(places_.size() / kWays),
      blocks_(places_.size() * blockBytes, "values of the KV cache that stay in memory") {}

// Neighbours are in different sets, and so are like blocks of different pages.
size_t HeldBlocks::setOf(uint64_t block) const {
  return static_cast<size_t>((block * 0x9e3779b97f4a7c15u >> 32) % hands_.size());
}

HeldBlocks::Place* HeldBlocks::find(size_t set, uint64_t block) {
  Place* const first = places_.data() + set * kWays;
  Place* const found = std::find_if(first, first + kWays, [&](const Place& place) { return place.block == block; });
  return found == first + kWays ? nullptr : found;
}

bool HeldBlocks::take(uint64_t block, uint32_t writing, uint8_t* to) {
  if (places_.empty()) return false;
  Place* const place = find(setOf(block), block);
  if (place == nullptr || place->writing != writing) return false;
  place->worth = static_cast<uint8_t>(std::min(place->worth + 1, int{kMostWorth}));
  std::memcpy(to, dataOf(*place), blockBytes_);
  return true;
}

void HeldBlocks::hold(uint64_t block, uint32_t writing, const uint8_t* from) {
  if (places_.empty()) return;
  const size_t set = setOf(block);
  Place* place = find(set, block);
  if (place == nullptr) {
    uint8_t& hand = hands_[set];
    place = &places_[set * kWays + hand];
    hand = static_cast<uint8_t>((hand + 1) % kWays);
    if (place->worth != 0) {
      place->worth--;
      return;
    }
  }
  *place = {block, writing, 1};
  std::memcpy(dataOf(*place), from, blockBytes_);
}

}  // namespace spillway
