// Pages of the cache go before weights, on the link and on the disk: a square's attention waits for its pages, while
// the next layer's weights have until this layer's end. Weights come in pieces, and before each of them pages have
// their turn. As pages are never more than two buffers ahead, weights have all the time that these leave.
#pragma once
#include <array>
#include <atomic>
#include <mutex>

#include "../../kernels/cuda/Stream.h"

namespace spillway {

class PagesFirst {
 public:
  // load(): gives the stream what brings pages. Of one thread at a time.
  template <typename Load>
  void onLink(cudaStream_t stream, Load load) {
    Slot& slot = slots_[next_++ % slots_.size()];
    record(slot.begun, stream);
    load();
    record(slot.ended, stream);
  }
  // read(): reads pages from the disk.
  template <typename Read>
  void onDisk(Read read) {
    struct Reading {
      std::atomic<bool>& flag;
      explicit Reading(std::atomic<bool>& flag) : flag(flag) { flag.store(true); }
      ~Reading() { flag.store(false); }
    } reading(reading_);
    read();
  }

  // Whether pages are being read from the disk.
  bool reading() const { return reading_.load(); }
  // Returns when no pages are on the link. Those whose buffer is not free yet are not, nor are those that are read.
  void await() {
    for (Slot& slot : slots_)
      if (isOnLink(slot)) slot.ended.synchronize();
  }

 private:
  // What the stream does between both events is the load. Both have come to pass before the first one, and `ended`
  // still has while a load is being given.
  struct Slot {
    cuda::Event begun, ended;
  };
  void record(cuda::Event& event, cudaStream_t stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    event.record(stream);
  }
  bool isOnLink(const Slot& slot) {
    std::lock_guard<std::mutex> lock(mutex_);
    return !slot.ended.hasPassed() && slot.begun.hasPassed();
  }

  std::mutex mutex_;
  std::array<Slot, 16> slots_;  // two a load, of more loads than a queue runs ahead
  size_t next_ = 0;
  std::atomic<bool> reading_{false};
};

}  // namespace spillway
