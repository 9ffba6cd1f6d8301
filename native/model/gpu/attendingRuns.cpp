#include "attendingRuns.h"

#include <algorithm>

namespace spillway {

namespace {

// Of a range's tokens, those that attend in this way: [begin, end), counted from its first one.
struct Share {
  uint32_t begin, end;
};

Share shareOf(const BatchRange& range, uint32_t pageTokens, bool inRanges, Attending kind) {
  const auto upTo = [&](uint64_t position) { return static_cast<uint32_t>(std::clamp<int64_t>(static_cast<int64_t>(position) - range.firstPosition, 0, range.tokens)); };
  const uint32_t there = upTo(uint64_t(range.devicePages) * pageTokens), prompt = inRanges ? std::min(there, upTo(range.row->promptTokens)) : 0;
  switch (kind) {
    case Attending::InRange: return {0, prompt};
    case Attending::ByItself: return {prompt, there};
    case Attending::Split: return {range.devicePages == 0 ? range.tokens : there, range.tokens};
    case Attending::OnHost: return {range.devicePages == 0 ? 0 : range.tokens, range.tokens};
  }
  return {0, 0};
}

}  // namespace

AttendingRuns listAttendingRuns(const Batch& batch, uint32_t pageTokens, bool inRanges, AttendingRun* runs) {
  AttendingRuns found;
  for (size_t k = 0; k < kAttendings; k++) {
    const auto kind = static_cast<Attending>(k);
    found.of[k] = runs;
    size_t& count = found.count[k];
    for (const BatchRange& range : batch.ranges) {
      const Share share = shareOf(range, pageTokens, inRanges, kind);
      if (share.begin >= share.end) continue;
      const AttendingRun run{range.firstToken + share.begin, share.end - share.begin};
      if (kind == Attending::InRange) found.longest = std::max(found.longest, run.tokens);
      else if (count != 0 && runs[count - 1].firstToken + runs[count - 1].tokens == run.firstToken) {
        runs[count - 1].tokens += run.tokens;
        continue;
      }
      runs[count++] = run;
    }
    runs += count;
  }
  return found;
}

}  // namespace spillway
