// Blocks of the spill file that stay in memory once they have been read: sparse attention takes the values of much the
// same keys for one token after another. A block has a set of places, by its number. A hand goes round each set: a
// block that was looked for since the hand came by stays, and what has just been read finds no place (generalised
// CLOCK, but for the last: blocks that are read once and never again do not drive out those that are read for every
// token).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../system/Arena.h"

namespace spillway {

class HeldBlocks {
 public:
  static constexpr size_t kWays = 16;
  static constexpr uint8_t kMostWorth = 3;

  // bytes: of the blocks and what is known of each, at most. Where that is less than a set takes, nothing is held.
  HeldBlocks(size_t bytes, size_t blockBytes);

  size_t places() const { return places_.size(); }
  // Copies a block as it was read after this writing of it; false if it is not here.
  bool take(uint64_t block, uint32_t writing, uint8_t* to);
  // It has been read.
  void hold(uint64_t block, uint32_t writing, const uint8_t* from);

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  struct Place {
    uint64_t block = kNone;
    uint32_t writing = 0;
    uint8_t worth = 0;  // how often the hand passes it by
  };
  size_t setOf(uint64_t block) const;
  Place* find(size_t set, uint64_t block);
  uint8_t* dataOf(const Place& place) const { return blocks_.data() + size_t(&place - places_.data()) * blockBytes_; }

  size_t blockBytes_;
  std::vector<Place> places_;
  std::vector<uint8_t> hands_;  // of each set
  Arena blocks_;
};

}  // namespace spillway
