// How far measuring a machine is, and the word to stop; between the thread that measures and one that waits.
#pragma once
#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "../system/Clock.h"

namespace spillway {

struct ProfileProgress {
  std::atomic<bool> stopped{false};  // set from outside to give up
  std::function<void()> changed;     // called from the measuring thread after the rest has changed

  void set(size_t done, size_t total, const std::string& what) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      done_ = done, total_ = total, what_ = what;
    }
    if (changed) changed();
  }
  // Called now and then while a step goes on: whoever waits may want to stop.
  void tick() {
    const double now = monotonicSeconds();
    if (now - ticked_ < 0.05) return;
    ticked_ = now;
    if (changed) changed();
  }
  // Steps that are through, and what the next one is about.
  void get(size_t& done, size_t& total, std::string& what) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    done = done_, total = total_, what = what_;
  }

 private:
  double ticked_ = 0;  // the measuring thread's own
  mutable std::mutex mutex_;
  size_t done_ = 0, total_ = 0;
  std::string what_;
};

}  // namespace spillway
