#include "CacheSpill.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../system/Error.h"
#include "stagedPages.h"
#include "stretches.h"

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

// What is read with as many requests in flight as the file has, a call at a time.
class Reading {
 public:
  Reading(DirectFile& file, std::string name, const std::atomic<bool>& stopped)
      : file_(file), name_(std::move(name)), stopped_(stopped) {}
  void add(uint64_t offset, uint8_t* memory, size_t bytes) {
    append(ranges_, offset, static_cast<void*>(memory), bytes);
    bytes_ += bytes;
    if (bytes_ >= kCallBytes) flush();
  }
  // Returns the bytes of all calls.
  uint64_t finish() {
    if (!ranges_.empty()) flush();
    return all_;
  }

 private:
  void flush() {
    if (stopped_.load()) throw Error(ErrorCode::Cancelled, "cancelled");
    file_.read(ranges_.data(), ranges_.size(), name_);
    ranges_.clear();
    all_ += bytes_;
    bytes_ = 0;
  }

  DirectFile& file_;
  const std::string name_;
  const std::atomic<bool>& stopped_;
  std::vector<DirectFile::ReadRange> ranges_;
  size_t bytes_ = 0;
  uint64_t all_ = 0;
};

}  // namespace

CacheSpill::CacheSpill(DirectFile& file, uint32_t firstLayer, const CacheGroups& groups, uint32_t pages,
                       size_t slotBytes, std::vector<CacheLayout> layouts, size_t heldBytes, size_t gapBytes)
    : file_(file),
      firstLayer_(firstLayer),
      groups_(groups),
      pages_(pages),
      slotBytes_(slotBytes),
      layouts_(std::move(layouts)),
      states_(new std::atomic<uint8_t>[size_t(groups.width()) * pages]()),
      held_(heldBytes, file.blockBytes()),
      gapBytes_(gapBytes),
      writings_(held_.places() == 0 ? nullptr : new std::atomic<uint32_t>[size_t(groups.width()) * pages]()) {}

size_t CacheSpill::keyBytes(uint32_t layer) const {
  const CacheLayout& layout = layouts_[layer];
  if (!layout.keysApart) return slotBytes_;
  const size_t block = file_.blockBytes();
  return (layout.kvHeads * cacheKeyBytes(layout) + block - 1) / block * block;
}

std::string CacheSpill::name(uint32_t layer) const { return "layer " + std::to_string(firstLayer_ + layer) + " cache"; }

uint64_t CacheSpill::load(uint32_t layer, uint32_t window, const Batch& batch, uint8_t* buffer,
                          const std::atomic<bool>& stopped) {
  Reading reading(file_, name(layer), stopped);
  const size_t keys = keyBytes(layer);
  forStagedPages(batch, groups_.groupOf(layer), window, layouts_[layer].pageTokens, [&](const StagedPage& page) {
    if (!page.loaded) return true;
    const uint8_t found = state(layer, page.diskPage).load(std::memory_order_acquire);
    if (found != kStored) {
      throw Error(ErrorCode::InvalidArgument,
                  name(layer) + ", disk page " + std::to_string(page.diskPage) + ": found " +
                      (found == kWriting ? "a page that is being written" : "a page that was not written") +
                      ", expected one that was stored");
    }
    reading.add(offset(layer, page.diskPage), buffer + page.place * slotBytes_,
                isChoosing(batch.ranges[page.range]) ? keys : slotBytes_);
    return true;
  });
  return reading.finish();
}

uint64_t CacheSpill::loadValues(uint32_t layer, uint32_t window, const Batch& batch, const uint64_t* const* chosen,
                                uint8_t* buffer, const std::atomic<bool>& stopped) {
  Reading reading(file_, name(layer), stopped);
  const CacheLayout& layout = layouts_[layer];
  const uint32_t group = groups_.groupOf(layer), pageTokens = layout.pageTokens;
  const size_t block = file_.blockBytes(), blocks = slotBytes_ / block;
  std::vector<uint8_t> wanted(blocks);  // of a slot's blocks
  struct Missed {
    uint64_t block;
    uint32_t writing;
    const uint8_t* memory;
  };
  std::vector<Missed> missed;
  forStagedPages(batch, group, window, pageTokens, [&](const StagedPage& page) {
    const BatchRange& range = batch.ranges[page.range];
    if (!page.loaded || chosen[page.range] == nullptr) return true;
    std::fill(wanted.begin(), wanted.end(), 0);
    const size_t words = chosenWords(range.firstPosition, range.tokens),
                 first = size_t(page.entry - range.table(group)) * pageTokens;
    for (uint32_t head = 0; head < layout.kvHeads; head++) {
      const uint64_t* bits = chosen[page.range] + head * words;
      const size_t values = cacheValuesOffset(layout, head);
      for (uint32_t index = 0; index < pageTokens; index++) {
        if ((bits[(first + index) / 64] >> (first + index) % 64 & 1) == 0) continue;
        forValueBytes(layout, index, [&](size_t at, size_t bytes) {
          for (size_t b = (values + at) / block; b * block < values + at + bytes; b++) wanted[b] = 1;
        });
      }
    }
    // Whoever is read is not written meanwhile.
    const uint32_t writing = writings_ == nullptr ? 0 : writings_[slot(layer, page.diskPage)].load();
    const size_t keys = keyBytes(layer) / block;
    const uint64_t number = firstBlock(layer, page.diskPage);
    uint8_t* const memory = buffer + page.place * slotBytes_;
    for (size_t b = keys; b < blocks; b++) {
      if (wanted[b] == 0) continue;
      if (held_.take(number + b, writing, memory + b * block))
        wanted[b] = 0;
      else
        missed.push_back({number + b, writing, memory + b * block});
    }
    forStretches(wanted.data(), keys, blocks, gapBytes_ / block, [&](size_t first, size_t count) {
      reading.add((number + first) * block, memory + first * block, count * block);
    });
    return true;
  });
  const uint64_t bytes = reading.finish();
  for (const auto& [number, writing, memory] : missed) held_.hold(number, writing, memory);
  return bytes;
}

void CacheSpill::store(uint32_t layer, uint32_t window, const Batch& batch, const uint8_t* buffer) {
  std::vector<DirectFile::WriteRange> ranges;
  const auto mark = [&](State value) {
    forStagedPages(batch, groups_.groupOf(layer), window, layouts_[layer].pageTokens, [&](const StagedPage& page) {
      if (!page.loaded) state(layer, page.diskPage).store(value, std::memory_order_release);
      return true;
    });
  };
  forStagedPages(batch, groups_.groupOf(layer), window, layouts_[layer].pageTokens, [&](const StagedPage& page) {
    if (page.loaded) return true;
    append(ranges, offset(layer, page.diskPage), static_cast<const void*>(buffer + page.place * slotBytes_),
           slotBytes_);
    if (writings_ != nullptr) writings_[slot(layer, page.diskPage)]++;
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
