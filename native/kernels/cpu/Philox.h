// Philox 4x32-10: a counter-based random generator (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A hash, not a state: the same key and counter give the same numbers on every machine, in any
// order of asking.
#pragma once
#include <cstdint>

namespace spillway {

struct PhiloxWords {
  uint32_t word[4];
};

inline PhiloxWords philox4x32(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter.word[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The number in [0, 1) for a row's seed and a position: the upper 53 of 64 random bits.
inline double uniformAt(uint32_t seed, uint32_t position) {
  const PhiloxWords words = philox4x32({{position, 0, 0, 0}}, seed, 0);
  const uint64_t bits = (static_cast<uint64_t>(words.word[0]) << 32 | words.word[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace spillway
