#include "makeBatch.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "../system/Error.h"
#include "../model/stagedPages.h"

namespace spillway {

namespace {

[[noreturn]] void refuse(size_t row, const char* field, int64_t found, const std::string& expected) {
  throw Error(ErrorCode::InvalidArgument, "rows[" + std::to_string(row) + "] " + field + ": found " +
                                              std::to_string(found) + ", expected " + expected);
}

uint32_t checked(size_t row, const char* field, int32_t value, int64_t least, int64_t most) {
  if (value < least || value > most) refuse(row, field, value, std::to_string(least) + " to " + std::to_string(most));
  return static_cast<uint32_t>(value);
}

// A page that a range writes to must be that sequence's alone; pages that are only read may be shared.
void checkOwnership(const Batch& batch, uint32_t pageTokens) {
  std::unordered_map<int32_t, size_t> writers;  // page to sequence of the batch
  const char* const expected = "pages that no position before it in the batch is written to";
  // Of each sequence and group.
  const auto forTables = [&](auto visit) {
    for (size_t r = 0; r < batch.ranges.size(); r++)
      for (uint32_t g = 0; g < batch.groups; g++)
        visit(r, batch.ranges[r], batch.pages.data() + batch.ranges[r].table(g), batch.of(r, g).tail);
  };
  forTables([&](size_t r, const BatchRange& range, const int32_t*, int32_t tail) {
    if (range.spilled && !writers.emplace(tail, r).second) refuse(r, "tail", tail, expected);
  });
  forTables([&](size_t r, const BatchRange& range, const int32_t* table, int32_t tail) {
    for (uint32_t p = range.firstPosition / pageTokens; p <= (range.firstPosition + range.tokens - 1) / pageTokens;
         p++) {
      if (range.spilled && table[p] == tail) continue;
      if (!writers.emplace(table[p], r).second) refuse(r, "pages", table[p], expected);
    }
  });
  forTables([&](size_t r, const BatchRange& range, const int32_t* table, int32_t tail) {
    const uint32_t firstWritten = range.firstPosition / pageTokens;
    for (uint32_t p = 0; p < range.pageCount; p++) {
      const auto writer = writers.find(table[p]);
      if (writer == writers.end()) continue;
      const bool own = writer->second == r && (p >= firstWritten || (range.spilled && writer->first == tail));
      if (!own)
        refuse(r, "pages", writer->first,
               "no page that row " + std::to_string(writer->second) + " of the batch writes to");
    }
  });
}

// Pages that were given back are those that no token sees.
void checkGroups(const Batch& batch, const BatchBounds& bounds) {
  if (bounds.groupWindows.empty()) return;
  for (size_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[r];
    for (uint32_t g = 0; g < batch.groups; g++) {
      const bool evicts = bounds.groupWindows[g] == 0 && bounds.evictionWindow != 0;
      const uint32_t window = evicts ? bounds.evictionWindow : bounds.groupWindows[g], first = range.firstPosition;
      const uint32_t seen = firstSeen(window, first) / bounds.pageTokens;
      const uint32_t sinks = (bounds.evictionSinks + bounds.pageTokens - 1) / bounds.pageTokens;
      for (uint32_t p = evicts ? 0 : seen; p <= (first + range.tokens - 1) / bounds.pageTokens; p++) {
        if (evicts && p >= sinks && p < seen) continue;
        if (batch.pages[range.table(g) + p] == kGivenBack)
          refuse(r, "pages", kGivenBack,
                 "a page for position " + std::to_string(uint64_t(p) * bounds.pageTokens) + " in group " +
                     std::to_string(g));
      }
    }
  }
}

// A tail is overwritten until the sequence's last page on disk is complete, so it may hold positions of its own only
// after that.
void checkTail(size_t row, const BatchRange& range, uint32_t table, int32_t tail, const std::vector<int32_t>& pages) {
  if (tail < 0) refuse(row, "tail", tail, "a page of the pool, since some of the row's pages are on disk");
  bool own = false;
  for (uint32_t p = 0; p < range.pageCount; p++) {
    const int32_t page = pages[table + p];
    if (own && (isOnDisk(page) || page == tail))
      refuse(row, "tail", tail, "a page that stands in the row's table once at most, after all pages on disk");
    own |= page == tail;
  }
}

// Pages of a device from `firstDevicePage` on.
uint32_t countDevicePages(size_t row, const BatchRange& range, const std::vector<int32_t>& pages,
                          uint32_t firstDevicePage) {
  const auto onDevice = [&](uint32_t p) {
    return pages[range.firstPage + p] >= 0 && static_cast<uint32_t>(pages[range.firstPage + p]) >= firstDevicePage;
  };
  uint32_t count = 0;
  while (count < range.pageCount && onDevice(count)) count++;
  for (uint32_t p = count; p < range.pageCount; p++) {
    if (onDevice(p))
      refuse(row, "pages", pages[range.firstPage + p], "no page of a device behind one that is elsewhere");
  }
  return count;
}

void checkStaging(const Batch& batch, const BatchBounds& bounds) {
  uint64_t places = 0;
  for (uint32_t g = 0; g < batch.groups && places <= bounds.bufferPages; g++) {
    places = 0;
    forStagedPages(batch, g, batch.groups == 1 ? bounds.widestWindow : bounds.groupWindows[g], bounds.pageTokens,
                   [&](const StagedPage&) { return ++places != 0; });
  }
  if (places <= bounds.bufferPages) return;
  throw Error(ErrorCode::InvalidArgument, "rows: found " + std::to_string(places) +
                                              " pages to stage for a layer, expected at most the " +
                                              std::to_string(bounds.bufferPages) + " of a buffer (spill.bufferPages)");
}

// What comes to a device that attends.
void listFetched(Batch& batch, const std::vector<int32_t>& comes, const BatchBounds& bounds) {
  if (!comes.empty() && (!bounds.sharesAttention || comes.size() != batch.ranges.size()))
    throw Error(
        ErrorCode::InvalidArgument,
        "comes: found " + std::to_string(comes.size()) + " integers, expected " +
            (bounds.sharesAttention ? "none, or one for each of " + std::to_string(batch.ranges.size()) + " rows"
                                    : "none: the processor and a device share no attention"));
  if (bounds.cacheBufferPages == 0) return;
  for (size_t r = 0; r < batch.ranges.size(); r++) {
    BatchRange& range = batch.ranges[r];
    range.devicePages =
        comes.empty() ? range.pageCount : checked(r, "comes", comes[r], range.devicePages, range.pageCount);
  }
  for (const uint32_t window : bounds.windows) {
    batch.fetched.push_back(
        listFetchedPages(batch, window, bounds.pageTokens, bounds.pages - bounds.devicePages, bounds.cacheBufferPages));
    const uint32_t places = batch.fetched.back().mostPlaces;
    if (places <= bounds.cacheBufferPages) continue;
    throw Error(ErrorCode::InvalidArgument, "rows: found one with " + std::to_string(places) +
                                                " pages to bring to the device for a layer, expected at most the " +
                                                std::to_string(bounds.cacheBufferPages) +
                                                " of a buffer (gpu.cacheBufferPages)");
  }
}

// What is copied are the tokens before the range's first one, so a range at the beginning of its page has none to copy.
void takeCopies(Batch& batch, const std::vector<int32_t>& copies, const BatchBounds& bounds) {
  const size_t stride = kCopyStride + batch.groups - 1;
  if (copies.size() % stride != 0)
    throw Error(ErrorCode::InvalidArgument, "copies: found " + std::to_string(copies.size()) + " integers, expected " +
                                                (stride == 2 ? "two" : std::to_string(stride)) + " a copy");
  for (size_t c = 0; c < copies.size(); c += stride) {
    const std::string name = "copies[" + std::to_string(c / stride) + "] ";
    const auto refuseCopy = [&](const char* field, int64_t found, const std::string& expected) {
      throw Error(ErrorCode::InvalidArgument,
                  name + field + ": found " + std::to_string(found) + ", expected " + expected);
    };
    if (copies[c] < 0 || static_cast<size_t>(copies[c]) >= batch.ranges.size())
      refuseCopy("range", copies[c], "one of the batch's " + std::to_string(batch.ranges.size()));
    const size_t r = static_cast<size_t>(copies[c]);
    const BatchRange& range = batch.ranges[r];
    const auto onDevice = [&](int32_t p) { return static_cast<uint32_t>(p) >= bounds.pages - bounds.devicePages; };
    for (uint32_t g = 0; g < batch.groups; g++) {
      const int32_t page = copies[c + 1 + g],
                    entry = batch.pages[range.table(g) + range.firstPosition / bounds.pageTokens],
                    written = isOnDisk(entry) ? batch.of(r, g).tail : entry;
      if (page < 0 || static_cast<uint32_t>(page) >= bounds.pages || page == written)
        refuseCopy("page", page, "another page than the range's own, under " + std::to_string(bounds.pages));
      if (onDevice(page) != onDevice(written))
        refuseCopy("page", page,
                   onDevice(written) ? "one on the device, where the range's own is"
                                     : "one in memory, where the range's own is");
      if (range.firstPosition % bounds.pageTokens == 0) refuseCopy("range", copies[c], "one that begins within a page");
      if (batch.of(r, g).copyFrom >= 0) refuseCopy("range", copies[c], "each range once");
      GroupPages& pages = g == 0 ? batch.ranges[r] : batch.further[r * (batch.groups - 1) + g - 1];
      pages.copyFrom = page;
      pages.copyTo = written;
    }
    batch.copies = true;
  }
}

// By pages, where some are in several tables; as they are where none is.
void orderByPages(Batch& batch) {
  batch.alike.resize(batch.ranges.size());
  batch.inCommon.assign(batch.ranges.size(), 0);
  std::iota(batch.alike.begin(), batch.alike.end(), 0u);
  std::unordered_set<int32_t> first;
  bool shared = false;
  for (const BatchRange& range : batch.ranges) shared |= !first.insert(batch.pages[range.firstPage]).second;
  if (!shared) return;
  const auto begin = [&](uint32_t r) { return batch.pages.begin() + batch.ranges[r].firstPage; };
  const auto end = [&](uint32_t r) { return begin(r) + batch.ranges[r].pageCount; };
  std::stable_sort(batch.alike.begin(), batch.alike.end(), [&](uint32_t a, uint32_t b) {
    return std::lexicographical_compare(begin(a), end(a), begin(b), end(b));
  });
  for (size_t i = 1; i < batch.alike.size(); i++) {
    const uint32_t before = batch.alike[i - 1], own = batch.alike[i];
    batch.inCommon[i] =
        static_cast<uint32_t>(std::mismatch(begin(before), end(before), begin(own), end(own)).first - begin(before));
  }
}

uint64_t nextSerial() {
  static std::atomic<uint64_t> serial{0};
  return serial.fetch_add(1) + 1;
}

}  // namespace

std::shared_ptr<Batch> makeBatch(const std::vector<int32_t>& rows, const std::vector<int32_t>& pages,
                                 const std::vector<int32_t>& copies, const std::vector<int32_t>& comes,
                                 const BatchBounds& bounds, const HandleTable<Sequence>& table) {
  const uint32_t groups = bounds.groups();
  const size_t stride = kBatchStride + groups - 1;
  if (rows.empty() || rows.size() % stride != 0 || rows.size() / stride > bounds.limits.rowsPerSquare) {
    throw Error(ErrorCode::InvalidArgument, "rows: found " + std::to_string(rows.size()) + " integers, expected " +
                                                std::to_string(stride) + " a row and 1 to " +
                                                std::to_string(bounds.limits.rowsPerSquare) + " rows");
  }
  for (size_t i = 0; i < pages.size(); i++) {
    if (pages[i] < 0 ? diskPage(pages[i]) < bounds.diskPages : static_cast<uint32_t>(pages[i]) < bounds.pages) continue;
    if (!bounds.groupWindows.empty() && pages[i] == kGivenBack) continue;
    throw Error(ErrorCode::InvalidArgument,
                "pages[" + std::to_string(i) + "]: found " + std::to_string(pages[i]) + ", expected a page under " +
                    std::to_string(bounds.pages) +
                    (bounds.diskPages == 0 ? "" : ", or one on disk, from -1 to -" + std::to_string(bounds.diskPages)));
  }
  auto batch = std::make_shared<Batch>();
  batch->serial = nextSerial();
  batch->groups = groups;
  const size_t count = rows.size() / stride;
  batch->ranges.reserve(count);
  const bool elsewhere = bounds.pagesElsewhere && pages.empty();
  std::unordered_map<const Sequence*, size_t> seen;
  const uint32_t memoryPages = bounds.pages - bounds.devicePages;
  uint64_t tokens = 0, reached = 0;
  for (size_t r = 0; r < count; r++) {
    const int32_t* entry = rows.data() + r * stride;
    BatchRange range;
    range.sequence = table.get(checked(r, "handle", entry[0], 0, INT32_MAX));
    if (!seen.emplace(range.sequence.get(), r).second) refuse(r, "handle", entry[0], "each row once");
    const int64_t capacity = std::min(range.sequence->capacityTokens, bounds.contextTokens);
    range.firstPosition = checked(r, "first position", entry[1], 0, capacity - 1);
    range.tokens = checked(r, "tokens", entry[2], 1, capacity - range.firstPosition);
    range.mode = static_cast<HeadMode>(checked(r, "head mode", entry[3], 0, 2));
    if (bounds.wholeRows && (range.firstPosition != 0 || range.tokens != range.sequence->tokens.size()))
      refuse(r, "tokens", range.tokens,
             "all " + std::to_string(range.sequence->tokens.size()) +
                 " of the row at once, since the model is an encoder");
    if (bounds.wholeRows && range.mode != HeadMode::Sample)
      refuse(r, "head mode", entry[3], "that of sampling, behind a whole row");
    range.firstPage = checked(r, "first page", entry[4], 0, static_cast<int64_t>(pages.size()));
    range.pageCount =
        checked(r, "page count", entry[5], 0, static_cast<int64_t>((pages.size() - range.firstPage) / groups));
    for (uint32_t g = 0; g < groups; g++) {
      if (entry[6 + g] < -1 || entry[6 + g] >= static_cast<int64_t>(memoryPages))
        refuse(r, "tail", entry[6 + g], "-1, or a page under " + std::to_string(memoryPages));
      if (g > 0) batch->further.push_back({entry[6 + g]});
    }
    range.tail = entry[6];
    range.spilled = std::any_of(pages.begin() + range.firstPage, pages.begin() + range.table(groups), isOnDisk);
    for (uint32_t g = 0; g < groups && range.spilled; g++) checkTail(r, range, range.table(g), entry[6 + g], pages);
    batch->spilled |= range.spilled;
    range.devicePages = countDevicePages(r, range, pages, memoryPages);
    range.firstToken = static_cast<uint32_t>(tokens);
    const uint64_t reach = uint64_t(range.pageCount) * bounds.pageTokens;
    if (!elsewhere && reach < uint64_t(range.firstPosition) + range.tokens) {
      refuse(r, "page count", range.pageCount,
             "pages for " + std::to_string(uint64_t(range.firstPosition) + range.tokens) + " tokens at " +
                 std::to_string(bounds.pageTokens) + " a page");
    }
    reached += (range.firstPosition + range.tokens - 1) / bounds.pageTokens + 1;
    if (reached > bounds.mostPages)
      refuse(r, "page count", static_cast<int64_t>(reached),
             "at most " + std::to_string(bounds.mostPages) + " in the tables of the whole batch");
    tokens += range.tokens;
    if (tokens > bounds.limits.tokensPerSquare) {
      refuse(r, "tokens", static_cast<int64_t>(tokens),
             "at most " + std::to_string(bounds.limits.tokensPerSquare) + " in the whole batch");
    }
    batch->ranges.push_back(std::move(range));
  }
  batch->pages = pages;
  if (!elsewhere) {
    checkGroups(*batch, bounds);
    checkOwnership(*batch, bounds.pageTokens);
    takeCopies(*batch, copies, bounds);
    checkStaging(*batch, bounds);
    listFetched(*batch, comes, bounds);
  }

  batch->tokens.reserve(tokens);
  for (uint32_t r = 0; r < count; r++) {
    for (uint32_t t = 0; t < batch->ranges[r].tokens; t++)
      batch->tokens.push_back({r, batch->ranges[r].firstPosition + t});
  }
  batch->pagePointers.resize(batch->pages.size());
  batch->attentionRows.resize(count);
  if (!elsewhere) orderByPages(*batch);
  return batch;
}

}  // namespace spillway
