// Which tokens of a batch attend how: what follows from a token, its sequence's prompt and its sequence's pages alone,
// so that a token's result does not depend on its company.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../../model/Batch.h"

namespace spillway {

// Consecutive tokens of a batch.
struct AttendingRun {
  uint32_t firstToken;
  uint32_t tokens;
};

enum class Attending : uint8_t {
  InRange,   // all of its keys are on the device: of a prompt, many queries at a time. Runs are of one sequence each
  ByItself,  // likewise, a token by itself
  Sparsely,  // likewise, to some of its keys
  Split,     // its sequence's first keys are on the device, the last ones, its own among them, in host memory
  SparselySplit,  // likewise, to some of its keys
  OnHost,         // all of them are in host memory
  Uploaded,  // of a prompt, its page in host memory: as InRange, over copies of these pages that the device has for the
             // time. Runs are of one sequence each
};
constexpr size_t kAttendings = 7;

// What decides beside the token.
struct AttendingRules {
  uint32_t pageTokens;
  bool inRanges;            // there is attention for ranges
  uint32_t rangeTokens;     // positions under this one may attend in ranges
  uint32_t uploadedTokens;  // likewise, over pages that are uploaded; at most rangeTokens, 0: none
  bool sparse;              // tokens after their sequence's prompt attend to some of their keys
};

struct AttendingRuns {
  const AttendingRun* of[kAttendings] = {};
  size_t count[kAttendings] = {};

  const AttendingRun* begin(Attending kind) const { return of[static_cast<size_t>(kind)]; }
  const AttendingRun* end(Attending kind) const { return begin(kind) + size(kind); }
  size_t size(Attending kind) const { return count[static_cast<size_t>(kind)]; }
};

// Consecutive ranges of a batch.
struct BatchPart {
  uint32_t firstRange, endRange;

  size_t firstToken(const Batch& batch) const { return batch.ranges[firstRange].firstToken; }
  size_t endToken(const Batch& batch) const {
    return endRange == batch.ranges.size() ? batch.tokens.size() : batch.ranges[endRange].firstToken;
  }
};

// The runs of some of a batch's ranges, to `runs`: room for one a token.
AttendingRuns listAttendingRuns(const Batch& batch, const BatchPart& part, const AttendingRules& rules,
                                AttendingRun* runs);

// The position that the sequence's keys in host memory begin at, if it has any.
inline uint32_t firstHostKey(const BatchRange& range, uint32_t pageTokens) { return range.devicePages * pageTokens; }
// How many positions of a token's keys are on the device.
inline uint32_t keysOnDevice(const Batch& batch, size_t token, uint32_t pageTokens) {
  const BatchToken& entry = batch.tokens[token];
  return std::min(entry.position + 1, firstHostKey(batch.ranges[entry.range], pageTokens));
}
// The first of the range's positions that the processor attends for; the range's end if there is none.
uint32_t firstHostQuery(const Batch& batch, const BatchRange& range, const AttendingRules& rules);

}  // namespace spillway
