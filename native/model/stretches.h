// Which blocks are read together: reading a gap costs less than one request more.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spillway {

// visit(first, count) for stretches that begin and end with a block that is wanted, in order, of blocks [from, to):
// those that have at most `gap` others between them are in one.
template <typename Visit>
void forStretches(const uint8_t* wanted, size_t from, size_t to, size_t gap, Visit visit) {
  size_t first = to, last = to;
  for (size_t b = from; b < to; b++) {
    if (wanted[b] == 0) continue;
    if (first != to && b - last - 1 > gap) {
      visit(first, last + 1 - first);
      first = to;
    }
    if (first == to) first = b;
    last = b;
  }
  if (first != to) visit(first, last + 1 - first);
}

}  // namespace spillway
