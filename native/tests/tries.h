// How often something is tried: a few times for each change, many times with `test-native.mjs --whole`, which sets
// SPILLWAY_TRIES; as test/support/tries.ts has it.
#pragma once
#include <cstdlib>
#include <string>

namespace spillway {

inline bool triesMany() {
  const char* tries = std::getenv("SPILLWAY_TRIES");
  return tries != nullptr && tries == std::string("many");
}

template <typename Count>
Count tries(Count few, Count many) {
  return triesMany() ? many : few;
}

// By day the one of `of` whose turn it is, at night all of them.
inline bool inTurn(size_t which, size_t turn, size_t of) { return triesMany() || which == turn % of; }

}  // namespace spillway
