// Whether tasks on weight buffers have events between them. Launched one behind the other, on several streams, they
// overlap unless an event holds one up: a plan that lacks one is an error here, and never a wrong result.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "../../system/Error.h"
#include "Link.h"

namespace spillway {

class BufferOrder {
 public:
  void resize(uint32_t buffers) { slots_.resize(buffers); }

  // Before the stream is given work that fills the buffer, or reads it. Throw Error(InvalidArgument) where what it must
  // come after is not known to.
  void fill(uint32_t buffer, const Link& link) {
    std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[buffer];
    if (!link.clock().covers(slot.read) || !link.clock().covers(slot.filled)) {
      throw Error(
          ErrorCode::InvalidArgument,
          name(buffer) +
              ": found in use on the device, expected to be free: the load must wait for its last compute task");
    }
    slot.read = {};
    slot.filled = {};
    slot.filled[link.index()] = link.next();
  }
  void read(uint32_t buffer, const Link& link) {
    std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[buffer];
    if (!link.clock().covers(slot.filled)) {
      throw Error(
          ErrorCode::InvalidArgument,
          name(buffer) + ": found on its way to the device, expected to be there: the task must wait for the load");
    }
    slot.read[link.index()] = link.next();
  }

 private:
  struct Slot {
    StreamClock filled, read;
  };
  static std::string name(uint32_t buffer) { return "weight buffer " + std::to_string(buffer); }

  std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace spillway
