// Pages of the KV cache on disk, and their way to and from staging buffers. A page has a slot of whole 4096-byte blocks
// in the spill file for each layer of a group; slots stand layer by layer, so that pages which follow each other are
// moved by one request.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../system/DirectFile.h"
#include "Batch.h"
#include "CacheGroups.h"
#include "HeldBlocks.h"

namespace spillway {

class CacheSpill {
 public:
  // file: must outlive this; its first groups.width() x pages x slotBytes bytes are the cache's.
  // layouts: of each layer, pages of one number of tokens all. Where keys stand apart, those of ranges that choose come
  // alone, and values of chosen ones after them.
  // firstLayer: the number that messages give the first of the layers.
  // groups: must outlive this.
  // heldBytes: of memory, for values that have been chosen once. Chosen values of a page with no more than gapBytes
  // between them are read together.
  CacheSpill(DirectFile& file, uint32_t firstLayer, const CacheGroups& groups, uint32_t pages, size_t slotBytes,
             std::vector<CacheLayout> layouts, size_t heldBytes, size_t gapBytes);

  // Moves what forStagedPages() names for a layer with this window; a place of `buffer` is slotBytes large. By one
  // thread at a time each. Reading gives up between requests once `stopped` is set. Throws FileError naming layer,
  // offset, found and expected; Error(InvalidArgument) for a page that was never written, is being written, or whose
  // last writing failed. load(): returns the bytes that it read.
  uint64_t load(uint32_t layer, uint32_t window, const Batch& batch, uint8_t* buffer, const std::atomic<bool>& stopped);
  // After load(), by any one thread: the blocks of the file with values of chosen keys, but for those that memory
  // holds. chosen: of each range, as AttentionRow has them, or null. Returns the bytes that it read.
  uint64_t loadValues(uint32_t layer, uint32_t window, const Batch& batch, const uint64_t* const* chosen,
                      uint8_t* buffer, const std::atomic<bool>& stopped);
  void store(uint32_t layer, uint32_t window, const Batch& batch, const uint8_t* buffer);

  // That load() reads of a layer's page whose keys come alone: whole blocks that keys begin in; all of a slot where
  // these do not stand apart.
  size_t keyBytes(uint32_t layer) const;

 private:
  enum State : uint8_t { kEmpty, kWriting, kStored };
  size_t slot(uint32_t layer, uint32_t page) const { return size_t(groups_.placeOf(layer)) * pages_ + page; }
  std::atomic<uint8_t>& state(uint32_t layer, uint32_t page) { return states_[slot(layer, page)]; }
  uint64_t firstBlock(uint32_t layer, uint32_t page) const { return offset(layer, page) / file_.blockBytes(); }
  uint64_t offset(uint32_t layer, uint32_t page) const { return uint64_t(slot(layer, page)) * slotBytes_; }

  std::string name(uint32_t layer) const;

  DirectFile& file_;
  uint32_t firstLayer_;
  const CacheGroups& groups_;
  uint32_t pages_;
  size_t slotBytes_;
  const std::vector<CacheLayout> layouts_;
  std::unique_ptr<std::atomic<uint8_t>[]> states_;
  HeldBlocks held_;
  size_t gapBytes_;
  std::unique_ptr<std::atomic<uint32_t>[]> writings_;  // of each slot, begun so far; where blocks are held
};

}  // namespace spillway
