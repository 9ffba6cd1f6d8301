// Which pages on disk a square stages, and where: the one rule that loading, attention and storing follow.
#pragma once
#include <cstdint>

#include "../kernels/cpu/window.h"
#include "Batch.h"

namespace spillway {

struct StagedPage {
  uint32_t place;  // in the staging buffer
  uint32_t range;
  uint32_t entry;  // of Batch::pages
  uint32_t diskPage;
  bool loaded;  // complete before the range: it is read. The others become complete with the range: they are written
  bool begun;   // its first tokens stand in the sequence's tail
};

// visit(page) for every page that a layer of this group with this window (0: none) stages, in order of their places,
// until it returns false. Ranges in order, within a range pages in order of position. A page is staged if it is on
// disk, complete once the range is computed, and not wholly before what the range's first token sees.
template <typename Visit>
void forStagedPages(const Batch& batch, uint32_t group, uint32_t window, uint32_t pageTokens, Visit visit) {
  if (!batch.spilled) return;
  uint32_t place = 0;
  for (uint32_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[r];
    if (!range.spilled) continue;
    const uint32_t first = range.firstPosition;
    const uint32_t lowest = firstSeen(window, first);
    const uint32_t current = first / pageTokens;
    const uint32_t complete = (first + range.tokens) / pageTokens;
    const uint32_t table = range.table(group);
    for (uint32_t p = lowest / pageTokens; p < complete; p++) {
      const int32_t page = batch.pages[table + p];
      if (!isOnDisk(page)) continue;
      const StagedPage staged{place++,        r,           table + p,
                              diskPage(page), p < current, p == current && first % pageTokens != 0};
      if (!visit(staged)) return;
    }
  }
}

// Whether all of a range's queries choose among the keys that they see, where attention is sparse.
inline bool isChoosing(const BatchRange& range) { return range.firstPosition >= range.sequence->promptTokens; }

// Whether a layer of this group with this window stages anything.
inline bool stages(const Batch& batch, uint32_t group, uint32_t window, uint32_t pageTokens) {
  bool any = false;
  forStagedPages(batch, group, window, pageTokens, [&](const StagedPage&) {
    any = true;
    return false;
  });
  return any;
}

}  // namespace spillway
