#include "FetchedPages.h"

#include <unordered_map>

#include "Batch.h"
#include "stagedPages.h"

namespace spillway {

FetchedPages listFetchedPages(const Batch& batch, uint32_t window, uint32_t pageTokens, uint32_t firstDevicePage) {
  FetchedPages fetched;
  fetched.window = window;
  fetched.placeOf.assign(batch.pages.size(), FetchedPages::kNone);
  std::vector<int32_t> staged(batch.pages.size(), 0);
  forStagedPages(batch, window, pageTokens, [&](const StagedPage& page) {
    staged[page.entry] = -1 - static_cast<int32_t>(page.place);
    return true;
  });
  std::unordered_map<int32_t, uint32_t> seen;  // pages that are only read, to their places
  for (const BatchRange& range : batch.ranges) {
    const uint32_t first = range.firstPosition, current = first / pageTokens,
                   complete = (first + range.tokens) / pageTokens;
    const uint32_t lowest = window != 0 && first >= window ? first - window + 1 : 0;
    for (uint32_t p = lowest / pageTokens; p <= (first + range.tokens - 1) / pageTokens; p++) {
      const uint32_t entry = range.firstPage + p;
      const int32_t page = batch.pages[entry];
      if (page >= 0 && static_cast<uint32_t>(page) >= firstDevicePage) continue;
      const bool onDisk = page < 0;
      if (p < current) {
        const auto [found, isNew] = seen.emplace(page, fetched.places);
        fetched.placeOf[entry] = found->second;
        if (isNew) fetched.loads.push_back({fetched.places++, onDisk ? staged[entry] : page});
        continue;
      }
      const uint32_t place = fetched.placeOf[entry] = fetched.places++;
      const int32_t begun = onDisk ? range.tail : page;  // where its tokens stand until it is complete
      if (p == current && first % pageTokens != 0)
        fetched.loads.push_back({place, range.copyFrom >= 0 ? range.copyFrom : begun});
      fetched.stores.push_back({place, onDisk && p < complete ? staged[entry] : begun});
    }
  }
  return fetched;
}

}  // namespace spillway
