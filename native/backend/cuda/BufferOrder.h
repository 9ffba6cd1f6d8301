// Whether tasks on buffers of the device have events between them. Launched one after the other, on several streams,
// they overlap unless an event holds one up: a plan that lacks one is an error here, and never a wrong result.
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
  // what: the buffers' name, in messages.
  explicit BufferOrder(const char* what) : what_(what) {}
  void resize(uint32_t buffers) { slots_.resize(buffers); }

  // Before the stream is given work that fills the buffer, reads it, or changes what is there. Throw
  // Error(InvalidArgument) where what it must come after is not known to.
  void fill(uint32_t buffer, const Link& link) {
    std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = slots_[buffer];
    if (!link.clock().covers(slot.read) || !link.clock().covers(slot.filled)) {
      throw Error(ErrorCode::InvalidArgument, name(buffer) +
                                                  ": found in use on the device, expected to be free: what fills it "
                                                  "must wait for the last task that uses it");
    }
    slot.read = {};
    slot.filled = {};
    slot.filled[link.index()] = link.next();
  }
  void read(uint32_t buffer, const Link& link) {
    std::lock_guard<std::mutex> lock(mutex_);
    filled(buffer, link).read[link.index()] = link.next();
  }
  void change(uint32_t buffer, const Link& link) {
    std::lock_guard<std::mutex> lock(mutex_);
    Slot& slot = filled(buffer, link);
    slot.filled = {};
    slot.filled[link.index()] = link.next();
  }

 private:
  struct Slot {
    StreamClock filled, read;
  };
  // With the mutex held.
  Slot& filled(uint32_t buffer, const Link& link) {
    Slot& slot = slots_[buffer];
    if (link.clock().covers(slot.filled)) return slot;
    throw Error(
        ErrorCode::InvalidArgument,
        name(buffer) + ": found on its way to the device, expected to be there: the task must wait for what fills it");
  }
  std::string name(uint32_t buffer) const { return what_ + (' ' + std::to_string(buffer)); }

  const std::string what_;
  std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace spillway
