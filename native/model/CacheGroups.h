// Which layers keep the same positions of a sequence in the cache, and so have a page table in common.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace spillway {

// Page i of a group is page i of all its layers: its place among them is what tells these apart. Pages of all groups
// come from one pool, whose pages are as wide as the widest group has layers.
class CacheGroups {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // One group of all layers.
  explicit CacheGroups(uint32_t layers) : CacheGroups(std::vector<uint32_t>(layers, 0)) {}
  // groupOf: of each layer, groups counted from 0 without a gap; kNone of layers that keep no pages. pagesOf: of each
  // layer, kNone, or the one before it whose pages it reads.
  explicit CacheGroups(std::vector<uint32_t> groupOf, const std::vector<uint32_t>& pagesOf = {})
      : groupOf_(std::move(groupOf)), placeOf_(groupOf_.size()), own_(groupOf_.size(), true) {
    for (size_t layer = 0; layer < pagesOf.size(); layer++)
      if (pagesOf[layer] != kNone) groupOf_[layer] = groupOf_[pagesOf[layer]], own_[layer] = false;
    for (const uint32_t group : groupOf_)
      if (group != kNone) count_ = std::max(count_, group + 1);
    std::vector<uint32_t> taken(count_, 0);
    for (size_t layer = 0; layer < groupOf_.size(); layer++)
      if (keepsOwn(layer)) placeOf_[layer] = taken[groupOf_[layer]]++;
    for (size_t layer = 0; layer < pagesOf.size(); layer++)
      if (pagesOf[layer] != kNone) placeOf_[layer] = placeOf_[pagesOf[layer]];
    width_ = std::max(1u, *std::max_element(taken.begin(), taken.end()));
  }

  // One layer's pages for all layers: a sequence's keys and values are used up before its next layer makes new ones.
  static CacheGroups ofEncoder(uint32_t layers) {
    CacheGroups groups(layers);
    std::fill(groups.placeOf_.begin(), groups.placeOf_.end(), 0);
    groups.width_ = 1;
    return groups;
  }

  size_t layers() const { return groupOf_.size(); }
  // Whether a layer has pages that no other layer before it has.
  bool keepsOwn(size_t layer) const { return groupOf_[layer] != kNone && own_[layer]; }
  uint32_t count() const { return count_; }
  uint32_t width() const { return width_; }
  uint32_t groupOf(size_t layer) const { return groupOf_[layer]; }
  uint32_t placeOf(size_t layer) const { return placeOf_[layer]; }

 private:
  std::vector<uint32_t> groupOf_, placeOf_;
  std::vector<bool> own_;
  uint32_t count_ = 1, width_ = 1;
};

}  // namespace spillway
