// Which tokens of a batch attend how: what follows from a token, its row's prompt and its row's pages alone, so that a token's result does not depend on its company.
#pragma once
#include <cstddef>
#include <cstdint>

#include "GpuPass.h"

namespace spillway {

// Consecutive tokens of a batch.
struct AttendingRun {
  uint32_t firstToken;
  uint32_t tokens;
};

struct AttendingRuns {
  size_t inRanges = 0;   // runs of a prompt's tokens, each of one row: they come first
  size_t oneByOne = 0;   // runs of tokens that attend by themselves
  uint32_t longest = 0;  // of the former, in tokens
};

// A batch's runs, to `runs`: room for two a token. window: the layer's; inRanges: whether there is attention for ranges.
AttendingRuns listAttendingRuns(const Batch& batch, const GpuPages& pages, uint32_t pageTokens, uint32_t window, bool inRanges, AttendingRun* runs);

}  // namespace spillway
