#include "attendingRuns.h"

#include <algorithm>

#include "../../runtime/Error.h"

namespace spillway {

AttendingRuns listAttendingRuns(const Batch& batch, const GpuPages& pages, uint32_t pageTokens, uint32_t window, bool inRanges, AttendingRun* runs) {
  AttendingRuns found;
  (void)pages;
  (void)pageTokens;
  (void)window;
  if (inRanges) {
    for (const BatchRange& range : batch.ranges) {
      const uint32_t end = std::min(range.firstPosition + range.tokens, range.row->promptTokens);
      if (end <= range.firstPosition) continue;
      runs[found.inRanges++] = {range.firstToken, end - range.firstPosition};
      found.longest = std::max(found.longest, end - range.firstPosition);
    }
  }
  AttendingRun* last = runs + found.inRanges;
  for (const BatchRange& range : batch.ranges) {
    const uint32_t inPrompt = inRanges ? std::min(range.tokens, range.row->promptTokens - std::min(range.row->promptTokens, range.firstPosition)) : 0;
    if (inPrompt == range.tokens) continue;
    const uint32_t first = range.firstToken + inPrompt, count = range.tokens - inPrompt;
    if (found.oneByOne != 0 && last->firstToken + last->tokens == first) {
      last->tokens += count;
      continue;
    }
    last = runs + found.inRanges + found.oneByOne++;
    *last = {first, count};
  }
  return found;
}

}  // namespace spillway
