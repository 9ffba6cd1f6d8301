// Memory of the KV cache: fixed-size pages, the same number for every layer of a group. Page i of every layer of a
// group belongs to the same sequence.
//
// Where layers have heads of several sizes, a page of the pool is as large as those of a group's layers together, of
// the group that needs most; else each layer's pages stand side by side.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../kernels/cpu/Attention.h"
#include "../system/Arena.h"
#include "CacheGroups.h"
#include "DecoderSpec.h"

namespace spillway {

class CacheMemory {
 public:
  // states: of layers that remember one instead of keys and values, so many sequences' (stateFloats of each layer).
  // Throws Error(Memory) where pages x layers of a group x page bytes overflow. Reserves nothing.
  CacheMemory(const CacheLayout& layout, const CacheGroups& groups, uint32_t pages, const DecoderSpec* spec = nullptr,
              uint32_t states = 0)
      : CacheMemory(std::vector<CacheLayout>(groups.layers(), layout), groups, pages, spec, states) {}
  // layouts: of each layer, pages of one number of tokens all.
  CacheMemory(std::vector<CacheLayout> layouts, CacheGroups groups, uint32_t pages, const DecoderSpec* spec = nullptr,
              uint32_t states = 0);

  void reserve() {
    block_ = Arena(bytes_, "the KV cache");
    if (stateBytes_ != 0) stateBlock_ = Arena(stateBytes_ * states_, "what layers remember of rows");
  }
  // What a layer remembers of a sequence, and, before that, the position that comes next.
  float* state(size_t layer, uint32_t state) const {
    return reinterpret_cast<float*>(stateBlock_.data() + state * stateBytes_ + stateOffsets_[layer]) + kStateHeader;
  }
  uint32_t& nextPosition(size_t layer, uint32_t state) const {
    return *reinterpret_cast<uint32_t*>(this->state(layer, state) - kStateHeader);
  }
  uint32_t states() const { return states_; }
  size_t stateBytes() const { return stateBytes_; }  // of one sequence
  size_t bytes() const { return bytes_; }
  uint8_t* data() const { return block_.data(); }                 // once reserved
  const CacheLayout& layout() const { return layouts_.front(); }  // where all layers have one
  const CacheLayout& layout(size_t layer) const { return layouts_[layer]; }
  const std::vector<CacheLayout>& layouts() const { return layouts_; }
  uint32_t pageTokens() const { return layouts_.front().pageTokens; }
  const CacheGroups& groups() const { return groups_; }
  uint32_t pages() const { return pages_; }
  size_t pageBytes() const { return pageBytes_; }  // of the layer with the largest
  // Pages are touched by tasks alone, which see to it that none is written and read at once.
  uint8_t* page(size_t layer, size_t page) const { return block_.data() + firstPages_[layer] + page * stride_; }

 private:
  std::vector<CacheLayout> layouts_;
  CacheGroups groups_;
  uint32_t pages_;
  size_t pageBytes_ = 0;
  std::vector<size_t> firstPages_;  // where a layer's first page begins
  size_t stride_ = 0;               // from one of its pages to the next
  size_t bytes_;
  Arena block_;
  static constexpr size_t kStateHeader = 16;  // floats: 64 bytes
  std::vector<size_t> stateOffsets_;
  size_t stateBytes_ = 0;
  uint32_t states_ = 0;
  Arena stateBlock_;
};

}  // namespace spillway
