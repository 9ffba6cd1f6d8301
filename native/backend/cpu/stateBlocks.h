// How a head's state lies in memory.
#pragma once
#include <algorithm>
#include <cstddef>

namespace spillway {

// A state of rows and columns is blocks of columns, one after another, each [rows, columns]: one stays in the
// first-level cache while a row's tokens go through it, and the next one is what memory has next.
constexpr size_t kBlockColumns = 32;

struct StateBlock {
  size_t first, columns;
  float* state;
};

inline size_t stateBlocks(size_t columns) { return (columns + kBlockColumns - 1) / kBlockColumns; }

inline StateBlock stateBlock(float* state, size_t rows, size_t columns, size_t block) {
  const size_t first = block * kBlockColumns;
  return {first, std::min(kBlockColumns, columns - first), state + first * rows};
}

}  // namespace spillway
