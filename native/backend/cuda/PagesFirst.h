// Pages of the cache go before weights, on the link and on the disk: a square's attention waits for its pages, while
// the next layer's weights have until this layer's end. Weights come in pieces, and before each of them pages have
// their turn. As pages are never more than two buffers ahead, weights have all the time that these leave.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include "../../kernels/cuda/Stream.h"

namespace spillway {

class PagesFirst {
 public:
  // load(): gives the stream what brings pages, and may wait for some of it.
  template <typename Load>
  void onLink(cudaStream_t stream, Load load) {
    const Loading loading(*this, stream);
    load();
  }
  // read(): reads pages from the disk. On any thread.
  template <typename Read>
  void onDisk(Read read) {
    struct Reading {
      std::atomic<int>& count;
      explicit Reading(std::atomic<int>& count) : count(count) { count.fetch_add(1); }
      ~Reading() { count.fetch_sub(1); }
    } reading(reading_);
    read();
  }

  // Whether pages are being read from the disk.
  bool reading() const { return reading_.load() != 0; }
  // Returns when no pages are on the link. Those whose buffer is not free yet are not, nor are those that are read.
  void await() {
    for (Slot& slot : slots_) {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!slot.open || !slot.begun.hasPassed()) continue;
      given_.wait(lock, [&] { return !slot.giving; });
      if (slot.ended.hasPassed()) {
        slot.open = false;
        continue;
      }
      lock.unlock();
      slot.ended.synchronize();
    }
  }

 private:
  // What the stream does between both events is the load. Whoever waits sleeps: the processor has other things to do.
  struct Slot {
    cuda::Event begun{cudaEventBlockingSync}, ended{cudaEventBlockingSync};
    bool giving = false;  // not all of it has been given to the stream
    bool open = false;    // not known to have ended: the device is asked of no others
  };
  class Loading {
   public:
    Loading(PagesFirst& all, cudaStream_t stream) : all_(all), stream_(stream) {
      std::lock_guard<std::mutex> lock(all_.mutex_);
      slot_ = &all_.slots_[all_.next_++ % all_.slots_.size()];
      slot_->begun.record(stream_);
      slot_->giving = slot_->open = true;
    }
    ~Loading() {
      {
        std::lock_guard<std::mutex> lock(all_.mutex_);
        try {
          slot_->ended.record(stream_);
        } catch (const Error&) {}  // the device has failed, which its task tells
        slot_->giving = false;
      }
      all_.given_.notify_all();
    }
    Loading(const Loading&) = delete;

   private:
    PagesFirst& all_;
    cudaStream_t stream_;
    Slot* slot_;
  };

  std::mutex mutex_;
  std::condition_variable given_;
  std::array<Slot, 16> slots_;  // two a load, of more loads than queues run ahead
  size_t next_ = 0;
  std::atomic<int> reading_{0};
};

}  // namespace spillway
