// Hands out parts of a stretch of a file: the first that is large enough. Extents that are given back join their
// neighbours.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace spillway {

class ExtentPool {
 public:
  ExtentPool(uint64_t first, uint64_t bytes) {
    if (bytes != 0) free_[first] = bytes;
  }

  // Nothing where no free extent is large enough.
  std::optional<uint64_t> take(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto extent = free_.begin(); extent != free_.end(); ++extent) {
      if (extent->second < bytes) continue;
      const uint64_t offset = extent->first;
      const uint64_t left = extent->second - bytes;
      free_.erase(extent);
      if (left != 0) free_[offset + bytes] = left;
      return offset;
    }
    return {};
  }

  void giveBack(uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    std::lock_guard<std::mutex> lock(mutex_);
    auto extent = free_.emplace(offset, bytes).first;
    const auto next = std::next(extent);
    if (next != free_.end() && offset + bytes == next->first) {
      extent->second += next->second;
      free_.erase(next);
    }
    if (extent == free_.begin()) return;
    const auto before = std::prev(extent);
    if (before->first + before->second != offset) return;
    before->second += extent->second;
    free_.erase(extent);
  }

  uint64_t largest() const {
    std::lock_guard<std::mutex> lock(mutex_);
    uint64_t most = 0;
    for (const auto& extent : free_) most = std::max(most, extent.second);
    return most;
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_;  // offset to bytes
};

}  // namespace spillway
