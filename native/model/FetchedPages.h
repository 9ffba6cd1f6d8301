// Which pages of the cache a device brings to itself while it attends, where pages that live in host memory and on disk
// come to it: the one rule that loading, attention and storing follow.
#pragma once
#include <cstdint>
#include <vector>

namespace spillway {

struct Batch;

// A page's way from where it lives to a place in a buffer on the device, or back. home: a page of the pool in host
// memory, from 0; or -1 - s for place s of the square's staging buffer (stagedPages.h), where pages on disk are.
struct PageMove {
  uint32_t place;
  int32_t home;
};

// Consecutive ranges of a batch whose pages are in the buffer together.
struct FetchedGroup {
  uint32_t firstRange, endRange;
  std::vector<PageMove> loads;   // what of its pages was there before: those that several sequences see come once
  std::vector<PageMove> stores;  // what its new tokens stand in, wholly
};

// Of one batch, in layers with one attention window.
struct FetchedPages {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t window = 0;
  uint32_t mostPlaces = 0;           // that a group takes
  std::vector<uint32_t> placeOf;     // of each entry of Batch::pages; kNone: it is on the device, or nobody sees it
  std::vector<FetchedGroup> groups;  // one, where the buffer has room for all; else attention goes from one to the next
  bool loads = false, stores = false;  // any

  bool any() const { return mostPlaces != 0; }
};

// firstDevicePage: from there on pages are on the device for good; bufferPages: places of a buffer. Of a sequence's
// pages those come that the device attends to (BatchRange::devicePages), and are not there. A sequence's page with new
// tokens goes back to where it lives: one on disk to its tail, until it is complete. What one sequence alone takes may
// be more than a buffer has (mostPlaces).
FetchedPages listFetchedPages(const Batch& batch, uint32_t window, uint32_t pageTokens, uint32_t firstDevicePage,
                              uint32_t bufferPages);

}  // namespace spillway
