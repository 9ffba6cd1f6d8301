// Buffers that layers stream into. Which holds which layer when is the caller's plan; here it is only checked, so that
// a wrong plan is an error and never a wrong result.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "../system/Arena.h"
#include "../system/Error.h"

namespace spillway {

class WeightBuffers {
 public:
  // bytes: of each, a multiple of 4096.
  void reserve(uint32_t count, size_t bytes) {
    block_ = Arena(count * bytes, "weight buffers");
    place(count, bytes, block_.data());
  }
  // In memory of another owner; it may be a device's.
  void place(uint32_t count, size_t bytes, uint8_t* memory) {
    data_ = memory;
    bytes_ = bytes;
    slots_.resize(count);
  }

  // A layer on its way into a buffer. Until finish() the buffer holds nothing.
  class Filling {
   public:
    Filling(WeightBuffers& buffers, uint32_t buffer) : buffers_(buffers), buffer_(buffer) {
      std::lock_guard<std::mutex> lock(buffers.mutex_);
      Slot& slot = buffers.slots_[buffer];
      if (slot.users != 0)
        throw Error(
            ErrorCode::InvalidArgument,
            buffers.name(buffer) + ": found in use, expected to be free: its last compute task must have ended");
      slot.layer = kNone;
      slot.filling = true;
    }
    ~Filling() {
      std::lock_guard<std::mutex> lock(buffers_.mutex_);
      buffers_.slots_[buffer_].filling = false;
    }
    Filling(const Filling&) = delete;
    Filling& operator=(const Filling&) = delete;

    uint8_t* data() const { return buffers_.data_ + buffer_ * buffers_.bytes_; }
    // absentExperts: of the layer's, all of which are still to come; 0: everything is there.
    void finish(uint32_t layer, uint32_t absentExperts = 0) {
      std::lock_guard<std::mutex> lock(buffers_.mutex_);
      buffers_.slots_[buffer_].layer = layer;
      buffers_.slots_[buffer_].absent.assign(absentExperts, true);
    }

   private:
    WeightBuffers& buffers_;
    uint32_t buffer_;
  };

  // A task that computes with a layer in a buffer.
  class Use {
   public:
    Use(WeightBuffers& buffers, uint32_t buffer, uint32_t layer) : buffers_(buffers), buffer_(buffer) {
      std::lock_guard<std::mutex> lock(buffers.mutex_);
      Slot& slot = buffers.slots_[buffer];
      if (slot.filling || slot.layer != layer) {
        throw Error(ErrorCode::InvalidArgument, buffers.name(buffer) + ": found " +
                                                    (slot.filling          ? "a layer that is being loaded"
                                                     : slot.layer == kNone ? "nothing"
                                                                           : "layer " + std::to_string(slot.layer)) +
                                                    ", expected layer " + std::to_string(layer));
      }
      slot.users++;
    }
    ~Use() {
      std::lock_guard<std::mutex> lock(buffers_.mutex_);
      buffers_.slots_[buffer_].users--;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    uint8_t* data() const { return buffers_.data_ + buffer_ * buffers_.bytes_; }
    // Experts that are still to come, by number; empty where there are none. For one thread at a time: the one that
    // computes.
    std::vector<bool>& absent() const { return buffers_.slots_[buffer_].absent; }

   private:
    WeightBuffers& buffers_;
    uint32_t buffer_;
  };

 private:
  static constexpr uint64_t kNone = ~uint64_t(0);
  struct Slot {
    uint64_t layer = kNone;
    uint32_t users = 0;
    bool filling = false;
    std::vector<bool> absent;
  };
  static std::string name(uint32_t buffer) { return "weight buffer " + std::to_string(buffer); }

  Arena block_;
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
  std::mutex mutex_;
  std::vector<Slot> slots_;
};

}  // namespace spillway
