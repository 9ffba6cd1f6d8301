#include "CacheSpill.h"

#include <string>
#include <vector>

#include "../system/Error.h"
#include "stagedPages.h"

namespace spillway {

namespace {

// Of one call: enough to keep the disk busy, few enough that giving up is quick.
constexpr size_t kCallBytes = size_t{64} << 20;

const uint8_t* rangeEnd(const DirectFile::ReadRange& range) {
  return static_cast<const uint8_t*>(range.destination) + range.bytes;
}
const uint8_t* rangeEnd(const DirectFile::WriteRange& range) {
  return static_cast<const uint8_t*>(range.source) + range.bytes;
}

// Joins what follows each other in the file and in memory.
template <typename Range, typename Pointer>
void append(std::vector<Range>& ranges, uint64_t offset, Pointer memory, size_t bytes) {
  if (!ranges.empty()) {
    Range& last = ranges.back();
    if (last.offset + last.bytes == offset && rangeEnd(last) == memory) {
      last.bytes += bytes;
      return;
    }
  }
  ranges.push_back({offset, bytes, memory});
}

}  // namespace

CacheSpill::CacheSpill(DirectFile& file, uint32_t firstLayer, const CacheGroups& groups, uint32_t pages,
                       size_t slotBytes, uint32_t pageTokens)
    : file_(file),
      firstLayer_(firstLayer),
      groups_(groups),
      pages_(pages),
      slotBytes_(slotBytes),
      pageTokens_(pageTokens),
      states_(new std::atomic<uint8_t>[size_t(groups.width()) * pages]()) {}

std::string CacheSpill::name(uint32_t layer) const { return "layer " + std::to_string(firstLayer_ + layer) + " cache"; }

void CacheSpill::load(uint32_t layer, uint32_t window, const Batch& batch, uint8_t* buffer,
                      const std::atomic<bool>& stopped) {
  std::vector<DirectFile::ReadRange> ranges;
  size_t bytes = 0;
  const auto flush = [&] {
    if (stopped.load()) throw Error(ErrorCode::Cancelled, "cancelled");
    file_.read(ranges.data(), ranges.size(), name(layer));
    ranges.clear();
    bytes = 0;
  };
  forStagedPages(batch, groups_.groupOf(layer), window, pageTokens_, [&](const StagedPage& page) {
    if (!page.loaded) return true;
    const uint8_t found = state(layer, page.diskPage).load(std::memory_order_acquire);
    if (found != kStored) {
      throw Error(ErrorCode::InvalidArgument,
                  name(layer) + ", disk page " + std::to_string(page.diskPage) + ": found " +
                      (found == kWriting ? "a page that is being written" : "a page that was not written") +
                      ", expected one that was stored");
    }
    append(ranges, offset(layer, page.diskPage), buffer + page.place * slotBytes_, slotBytes_);
    bytes += slotBytes_;
    if (bytes >= kCallBytes) flush();
    return true;
  });
  if (!ranges.empty()) flush();
}

void CacheSpill::store(uint32_t layer, uint32_t window, const Batch& batch, const uint8_t* buffer) {
  std::vector<DirectFile::WriteRange> ranges;
  const auto mark = [&](State value) {
    forStagedPages(batch, groups_.groupOf(layer), window, pageTokens_, [&](const StagedPage& page) {
      if (!page.loaded) state(layer, page.diskPage).store(value, std::memory_order_release);
      return true;
    });
  };
  forStagedPages(batch, groups_.groupOf(layer), window, pageTokens_, [&](const StagedPage& page) {
    if (!page.loaded)
      append(ranges, offset(layer, page.diskPage), static_cast<const void*>(buffer + page.place * slotBytes_),
             slotBytes_);
    return true;
  });
  if (ranges.empty()) return;
  mark(kWriting);
  try {
    file_.write(ranges.data(), ranges.size(), name(layer));
  } catch (...) {
    mark(kEmpty);
    throw;
  }
  mark(kStored);
}

}  // namespace spillway
