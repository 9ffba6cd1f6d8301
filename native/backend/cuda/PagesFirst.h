// Pages of the cache go before weights, on the link and on the disk: a square's attention waits for its pages, while
// the next layer's weights have until this layer's end. Weights come in pieces, and before each of them pages have
// their turn. As pages are never more than two buffers ahead, weights have all the time that these leave.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "../../kernels/cuda/Stream.h"

namespace spillway {

class PagesFirst {
 public:
  // give(): gives the stream what brings pages, and may wait for some of it.
  template <typename Give>
  void onLink(cudaStream_t stream, Give give) {
    const Loading loading(*this, stream);
    give();
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
    std::unique_lock<std::mutex> lock(mutex_);
    for (size_t i = 0; i < open_.size();) {
      const std::shared_ptr<Load> load = open_[i];
      if (!load->begun.hasPassed()) {
        i++;
        continue;
      }
      given_.wait(lock, [&] { return !load->giving; });
      if (!load->ended.hasPassed()) {
        lock.unlock();
        load->ended.synchronize();
        lock.lock();
      }
      open_.erase(std::remove(open_.begin(), open_.end(), load), open_.end());
      i = 0;  // others may have come and gone
    }
  }

 private:
  // What the stream does between both events. Whoever waits sleeps: the processor has other things to do.
  struct Load {
    cuda::Event begun{cudaEventBlockingSync}, ended{cudaEventBlockingSync};
    bool giving = true;  // not all of it has been given to the stream
  };
  class Loading {
   public:
    Loading(PagesFirst& all, cudaStream_t stream) : all_(all), stream_(stream), load_(std::make_shared<Load>()) {
      std::lock_guard<std::mutex> lock(all_.mutex_);
      all_.forgetEnded();
      load_->begun.record(stream_);
      all_.open_.push_back(load_);
    }
    ~Loading() {
      {
        std::lock_guard<std::mutex> lock(all_.mutex_);
        try {
          load_->ended.record(stream_);
        } catch (const Error&) {}  // the device has failed, which its task tells
        load_->giving = false;
      }
      all_.given_.notify_all();
    }
    Loading(const Loading&) = delete;

   private:
    PagesFirst& all_;
    cudaStream_t stream_;
    std::shared_ptr<Load> load_;
  };
  // Where no weights wait nobody else does.
  void forgetEnded() {
    const auto hasEnded = [](const std::shared_ptr<Load>& load) { return !load->giving && load->ended.hasPassed(); };
    open_.erase(std::remove_if(open_.begin(), open_.end(), hasEnded), open_.end());
  }

  std::mutex mutex_;
  std::condition_variable given_;
  std::vector<std::shared_ptr<Load>> open_;  // not known to have ended
  std::atomic<int> reading_{0};
};

}  // namespace spillway
