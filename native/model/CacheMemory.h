// Memory of the KV cache: fixed-size pages, the same number for every layer of a group. Page i of every layer of a group
// belongs to the same sequence.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../kernels/cpu/Attention.h"
#include "../system/Arena.h"
#include "CacheGroups.h"

namespace spillway {

class CacheMemory {
 public:
  // Throws Error(Memory) where pages x layers of a group x page bytes overflow. Reserves nothing.
  CacheMemory(const CacheLayout& layout, CacheGroups groups, uint32_t pages);

  void reserve() { block_ = Arena(bytes_, "the KV cache"); }
  size_t bytes() const { return bytes_; }
  uint8_t* data() const { return block_.data(); }  // once reserved
  const CacheLayout& layout() const { return layout_; }
  const CacheGroups& groups() const { return groups_; }
  uint32_t pages() const { return pages_; }
  size_t pageBytes() const { return pageBytes_; }
  // Pages are touched by tasks alone, which see to it that none is written and read at once.
  uint8_t* page(size_t layer, size_t page) const { return block_.data() + (size_t(groups_.placeOf(layer)) * pages_ + page) * pageBytes_; }

 private:
  CacheLayout layout_;
  CacheGroups groups_;
  uint32_t pages_;
  size_t pageBytes_;
  size_t bytes_;
  Arena block_;
};

}  // namespace spillway
