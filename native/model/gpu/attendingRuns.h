// Which tokens of a batch attend how: what follows from a token, its row's prompt and its row's pages alone, so that a token's result does not depend on its company.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../Batch.h"

namespace spillway {

// Consecutive tokens of a batch.
struct AttendingRun {
  uint32_t firstToken;
  uint32_t tokens;
};

enum class Attending : uint8_t {
  InRange,   // all of its keys are on the device: of a prompt, many queries at a time. Runs are of one row each
  ByItself,  // likewise, a token by itself
  Split,     // its row's first keys are on the device, the last ones, its own among them, in host memory
  OnHost,    // all of them are in host memory
};
constexpr size_t kAttendings = 4;

struct AttendingRuns {
  const AttendingRun* of[kAttendings] = {};
  size_t count[kAttendings] = {};
  uint32_t longest = 0;  // of those in ranges, in tokens

  const AttendingRun* begin(Attending kind) const { return of[static_cast<size_t>(kind)]; }
  const AttendingRun* end(Attending kind) const { return begin(kind) + size(kind); }
  size_t size(Attending kind) const { return count[static_cast<size_t>(kind)]; }
};

// A batch's runs, to `runs`: room for one a token. inRanges: whether there is attention for ranges.
AttendingRuns listAttendingRuns(const Batch& batch, uint32_t pageTokens, bool inRanges, AttendingRun* runs);

// The position that the row's keys in host memory begin at, if it has any.
inline uint32_t firstHostKey(const BatchRange& range, uint32_t pageTokens) { return range.devicePages * pageTokens; }

}  // namespace spillway
