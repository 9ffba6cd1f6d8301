#include "attendingRuns.h"

#include <algorithm>

namespace spillway {

namespace {

// Of a range's tokens, those that attend in this way: [begin, end), counted from its first one.
struct Share {
  uint32_t begin, end;
};

uint32_t upTo(const BatchRange& range, uint64_t position) {
  return static_cast<uint32_t>(
      std::clamp<int64_t>(static_cast<int64_t>(position) - range.firstPosition, 0, range.tokens));
}

// Where those end whose pages are uploaded, if there are any: they follow those on the device.
uint64_t uploadedEnd(const Batch& batch, const BatchRange& range, const AttendingRules& rules) {
  uint32_t page = range.devicePages;
  while (page < range.pageCount && batch.pages[range.firstPage + page] >= 0)
    page++;  // what is after one on disk is not uploaded
  return std::min(
      {uint64_t(page) * rules.pageTokens, uint64_t(range.sequence->promptTokens), uint64_t(rules.uploadedTokens)});
}

Share shareOf(const Batch& batch, const BatchRange& range, const AttendingRules& rules, Attending kind) {
  const uint32_t there = upTo(range, firstHostKey(range, rules.pageTokens)),
                 prompt =
                     rules.inRanges
                         ? std::min({there, upTo(range, range.sequence->promptTokens), upTo(range, rules.rangeTokens)})
                         : 0;
  const uint32_t host = firstHostQuery(batch, range, rules) - range.firstPosition;
  const uint32_t dense = rules.sparse ? upTo(range, range.sequence->promptTokens) : range.tokens,
                 split = range.devicePages == 0 ? range.tokens : host;
  switch (kind) {
    case Attending::InRange: return {0, prompt};
    case Attending::ByItself: return {prompt, std::min(there, dense)};
    case Attending::Sparsely: return {std::max(prompt, dense), there};
    case Attending::Split: return {split, dense};
    case Attending::SparselySplit: return {std::max(split, dense), range.tokens};
    case Attending::OnHost: return {range.devicePages == 0 ? host : range.tokens, range.tokens};
    case Attending::Uploaded: return {there, host};
  }
  return {0, 0};
}

}  // namespace

uint32_t firstHostQuery(const Batch& batch, const BatchRange& range, const AttendingRules& rules) {
  const uint32_t there = upTo(range, firstHostKey(range, rules.pageTokens));
  const uint32_t uploaded =
      rules.inRanges && rules.uploadedTokens != 0 ? upTo(range, uploadedEnd(batch, range, rules)) : 0;
  return range.firstPosition + std::max(there, uploaded);
}

AttendingRuns listAttendingRuns(const Batch& batch, const BatchPart& part, const AttendingRules& rules,
                                AttendingRun* runs) {
  AttendingRuns found;
  for (size_t k = 0; k < kAttendings; k++) {
    const auto kind = static_cast<Attending>(k);
    found.of[k] = runs;
    size_t& count = found.count[k];
    for (uint32_t r = part.firstRange; r < part.endRange; r++) {
      const BatchRange& range = batch.ranges[r];
      const Share share = shareOf(batch, range, rules, kind);
      if (share.begin >= share.end) continue;
      const AttendingRun run{range.firstToken + share.begin, share.end - share.begin};
      const bool alone = kind == Attending::InRange || kind == Attending::Uploaded;
      if (!alone && count != 0 && runs[count - 1].firstToken + runs[count - 1].tokens == run.firstToken) {
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
