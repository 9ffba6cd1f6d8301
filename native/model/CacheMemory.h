// Memory of the KV cache: fixed-size pages, the same number for every layer. Page i of every layer belongs to the same
// sequence. Of an encoder one layer's are enough: a sequence's keys and values are used up before its next layer makes
// new ones.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../kernels/cpu/Attention.h"
#include "../system/Arena.h"

namespace spillway {

class CacheMemory {
 public:
  // layers: of an encoder 1. Throws Error(Memory) where layers x pages x page bytes overflow. Reserves nothing.
  CacheMemory(const CacheLayout& layout, uint32_t layers, uint32_t pages);

  void reserve() { block_ = Arena(bytes_, "the KV cache"); }
  size_t bytes() const { return bytes_; }
  uint8_t* data() const { return block_.data(); }  // once reserved
  const CacheLayout& layout() const { return layout_; }
  uint32_t pages() const { return pages_; }
  size_t pageBytes() const { return pageBytes_; }
  // Pages are touched by tasks alone, which see to it that none is written and read at once.
  uint8_t* page(size_t layer, size_t page) const {
    return block_.data() + ((layers_ == 1 ? 0 : layer) * pages_ + page) * pageBytes_;
  }

 private:
  CacheLayout layout_;
  uint32_t layers_, pages_;
  size_t pageBytes_;
  size_t bytes_;
  Arena block_;
};

}  // namespace spillway
