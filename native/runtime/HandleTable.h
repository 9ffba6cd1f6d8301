// Small integers for shared objects; the lowest free one is used again first.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "../system/Error.h"

namespace spillway {

template <typename T>
class HandleTable {
 public:
  // what: the objects' name in messages, e.g. "row"; most: of them at a time
  HandleTable(const char* what, uint32_t most) : what_(what), most_(most) {}

  uint32_t add(std::shared_ptr<T> object) {
    if (free_.empty()) {
      if (objects_.size() >= most_)
        throw Error(ErrorCode::Memory, "there are " + std::to_string(most_) + " objects of kind " + what_ +
                                           " already, the most at a time");
      objects_.push_back(std::move(object));
      return static_cast<uint32_t>(objects_.size() - 1);
    }
    const uint32_t handle = free_.top();
    objects_[handle] = std::move(object);
    free_.pop();
    return handle;
  }

  const std::shared_ptr<T>& get(uint32_t handle) const {
    if (handle >= objects_.size() || objects_[handle] == nullptr) {
      throw Error(ErrorCode::InvalidArgument,
                  what_ + ": found " + std::to_string(handle) + ", expected the handle of an existing one");
    }
    return objects_[handle];
  }

  void remove(uint32_t handle) {
    get(handle);
    free_.push(handle);
    objects_[handle] = nullptr;
  }

  void clear() {
    objects_.clear();
    free_ = {};
  }

 private:
  std::string what_;
  uint32_t most_;
  std::vector<std::shared_ptr<T>> objects_;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<uint32_t>> free_;
};

}  // namespace spillway
