#include "FetchedPages.h"

#include <algorithm>
#include <unordered_map>

#include "Batch.h"
#include "stagedPages.h"

namespace spillway {

namespace {

class Lister {
 public:
  Lister(const Batch& batch, uint32_t window, uint32_t pageTokens, uint32_t firstDevicePage, FetchedPages& fetched)
      : batch_(batch),
        window_(window),
        pageTokens_(pageTokens),
        firstDevicePage_(firstDevicePage),
        fetched_(fetched),
        staged_(batch.pages.size(), 0) {
    forStagedPages(batch, 0, window, pageTokens, [&](const StagedPage& page) {
      staged_[page.entry] = -1 - static_cast<int32_t>(page.place);
      return true;
    });
  }

  void list(uint32_t bufferPages) {
    for (uint32_t r = 0; r < batch_.ranges.size(); r++) {
      if (r == 0) begin(r);
      const size_t loads = group().loads.size(), stores = group().stores.size();
      const uint32_t before = places_;
      add(batch_.ranges[r]);
      if (places_ > bufferPages && before != 0) {  // with those before it there is no room
        group().loads.resize(loads);
        group().stores.resize(stores);
        begin(r);
        add(batch_.ranges[r]);
      }
      group().endRange = r + 1;
      fetched_.mostPlaces = std::max(fetched_.mostPlaces, places_);
    }
  }

 private:
  FetchedGroup& group() { return fetched_.groups.back(); }
  void begin(uint32_t range) {
    fetched_.groups.push_back({range, range, {}, {}});
    seen_.clear();
    places_ = 0;
  }

  void add(const BatchRange& range) {
    const uint32_t first = range.firstPosition, current = first / pageTokens_,
                   complete = (first + range.tokens) / pageTokens_;
    const uint32_t lowest = firstSeen(window_, first);
    const uint32_t end = std::min((first + range.tokens - 1) / pageTokens_ + 1, range.devicePages);
    for (uint32_t p = lowest / pageTokens_; p < end; p++) {
      const uint32_t entry = range.firstPage + p;
      const int32_t page = batch_.pages[entry];
      if (page >= 0 && static_cast<uint32_t>(page) >= firstDevicePage_) continue;
      const bool onDisk = page < 0;
      if (p < current) {
        const auto [found, isNew] = seen_.emplace(page, places_);
        fetched_.placeOf[entry] = found->second;
        if (isNew) group().loads.push_back({places_++, onDisk ? staged_[entry] : page});
        continue;
      }
      const uint32_t place = fetched_.placeOf[entry] = places_++;
      const int32_t begun = onDisk ? range.tail : page;  // where its tokens stand until it is complete
      if (p == current && first % pageTokens_ != 0)
        group().loads.push_back({place, range.copyFrom >= 0 ? range.copyFrom : begun});
      group().stores.push_back({place, onDisk && p < complete ? staged_[entry] : begun});
    }
  }

  const Batch& batch_;
  const uint32_t window_, pageTokens_, firstDevicePage_;
  FetchedPages& fetched_;
  std::vector<int32_t> staged_;                 // of each entry that is staged: PageMove::home
  std::unordered_map<int32_t, uint32_t> seen_;  // pages of the group that are only read, to their places
  uint32_t places_ = 0;                         // of the group
};

}  // namespace

FetchedPages listFetchedPages(const Batch& batch, uint32_t window, uint32_t pageTokens, uint32_t firstDevicePage,
                              uint32_t bufferPages) {
  FetchedPages fetched;
  fetched.window = window;
  fetched.placeOf.assign(batch.pages.size(), FetchedPages::kNone);
  Lister(batch, window, pageTokens, firstDevicePage, fetched).list(bufferPages);
  for (const FetchedGroup& group : fetched.groups) {
    fetched.loads |= !group.loads.empty();
    fetched.stores |= !group.stores.empty();
  }
  return fetched;
}

}  // namespace spillway
