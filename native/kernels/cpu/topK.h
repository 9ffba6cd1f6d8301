// Which keys a query keeps where attention is sparse (AttentionShape::keep): the same rule wherever it is computed. For
// kernels of every instruction set, and of a device: nothing here has a copy of its own that a linker could choose.
#pragma once
#include <stdint.h>

namespace spillway {

// How many of `seen` keys: keep * seen, rounded up; the factor takes back what rounding `keep` to a float may have
// added.
static constexpr uint32_t topK(float keep, uint32_t seen) {
  const double kept = static_cast<double>(keep) * (1.0 - 1e-6) * seen;
  const uint32_t whole = static_cast<uint32_t>(kept), count = whole < kept ? whole + 1 : whole;
  return count < 1 ? 1 : count < seen ? count : seen;
}

// A score's bits as an integer in the order of scores; a NaN counts as largest.
static constexpr uint32_t scoreOrder(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  if (bits == 0x80000000u) return bits;  // as zero
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Where a query's kept keys end, its own one apart: of equal scores the later are kept.
struct AttentionCut {
  uint32_t order, position;
};
constexpr AttentionCut kNoKey = {0xffffffffu, 0xffffffffu}, kEveryKey = {0, 0};

static constexpr bool isKept(AttentionCut cut, uint32_t order, uint32_t position) {
  return order > cut.order || (order == cut.order && position >= cut.position);
}

}  // namespace spillway
