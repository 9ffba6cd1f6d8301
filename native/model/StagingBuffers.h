// Buffers that a square's pages on disk pass through: load_cache fills them, attention adds new tokens, store_cache
// writes what became complete. Which holds whose pages when is the caller's plan; here it is only checked, so that a
// wrong plan is an error and never a wrong result. A buffer that no running task uses may be claimed for another square
// at any time; tasks of the square that it belonged to then fail.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "../system/Arena.h"
#include "../system/Error.h"

namespace spillway {

class StagingBuffers {
 public:
  struct Square {
    uint64_t batch = 0;  // its serial
    uint32_t layer = 0;
  };
  enum class Purpose : uint8_t {
    Load,          // claims the buffer
    AttendLoaded,  // after Load
    AttendFresh,   // claims it, where nothing has to be loaded
    Store,         // after attention
  };

  // bytes: of each, a multiple of 4096.
  void reserve(uint32_t count, size_t bytes) {
    block_ = Arena(count * bytes, "staging buffers of the KV cache");
    bytes_ = bytes;
    slots_.resize(count);
  }

  // A task at work on a buffer, alone. Throws Error(InvalidArgument) where another is, or the buffer does not hold what
  // the task needs.
  class Use {
   public:
    Use(StagingBuffers& buffers, uint32_t buffer, Square square, Purpose purpose)
        : buffers_(buffers), buffer_(buffer), purpose_(purpose) {
      std::lock_guard<std::mutex> lock(buffers.mutex_);
      Slot& slot = buffers.slots_[buffer];
      if (slot.busy)
        throw Error(ErrorCode::InvalidArgument,
                    name() + ": found in use, expected to be free: the tasks that use it must have ended");
      if (purpose == Purpose::Load || purpose == Purpose::AttendFresh) {
        slot.square = square;
        slot.holds = Holds::Nothing;
      } else {
        slot.check(name(), square, purpose == Purpose::Store ? Holds::Attended : Holds::Loaded);
      }
      slot.busy = true;
    }
    ~Use() {
      std::lock_guard<std::mutex> lock(buffers_.mutex_);
      Slot& slot = buffers_.slots_[buffer_];
      slot.busy = false;
      if (purpose_ == Purpose::Store) return;
      slot.holds = !finished_ ? Holds::Nothing : purpose_ == Purpose::Load ? Holds::Loaded : Holds::Attended;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    uint8_t* data() const { return buffers_.block_.data() + buffer_ * buffers_.bytes_; }
    // The task went well. Without it the buffer holds nothing from then on.
    void finish() { finished_ = true; }

   private:
    std::string name() const { return "staging buffer " + std::to_string(buffer_); }

    StagingBuffers& buffers_;
    uint32_t buffer_;
    Purpose purpose_;
    bool finished_ = false;
  };

 private:
  enum class Holds : uint8_t { Nothing, Loaded, Attended };
  struct Slot {
    Square square;
    Holds holds = Holds::Nothing;
    bool busy = false;

    void check(const std::string& name, Square wanted, Holds expected) const {
      const bool same = square.batch == wanted.batch && square.layer == wanted.layer;
      if (same && holds == expected) return;
      const char* const found = holds == Holds::Nothing  ? "nothing"
                                : !same                  ? "pages of another square"
                                : holds == Holds::Loaded ? "pages without their new tokens"
                                                         : "pages that attention has read already";
      throw Error(ErrorCode::InvalidArgument,
                  name + ": found " + found + ", expected " +
                      (expected == Holds::Loaded ? "what load_cache read" : "what attention left") + " of layer " +
                      std::to_string(wanted.layer) + " of this batch");
    }
  };

  Arena block_;
  size_t bytes_ = 0;
  std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace spillway
