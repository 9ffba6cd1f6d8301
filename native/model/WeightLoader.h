// Reads weights from their files and packs them for the kernels, on all threads, through one bounded buffer a thread.
#pragma once
#include <atomic>
#include <functional>
#include <vector>

#include "../system/Error.h"
#include "../system/File.h"
#include "../system/ThreadPool.h"
#include "Weights.h"

namespace spillway {

struct LoadProgress {
  std::atomic<uint64_t> bytes{0};    // done
  std::atomic<bool> stopped{false};  // set from outside to give up
  std::function<void()> changed;     // called from any thread after `bytes` has grown

  void add(uint64_t more) {
    bytes.fetch_add(more);
    if (changed) changed();
  }
  // Throws Error(Cancelled) once `stopped` is set.
  void check() const {
    if (stopped.load(std::memory_order_relaxed)) throw Error(ErrorCode::Cancelled, "cancelled");
  }
};

// `weights` has its memory reserved and its ranges checked. Throws FileError, naming file and role, for what cannot be
// read.
void loadWeights(const Weights& weights, const std::vector<File>& files, ThreadPool& pool, LoadProgress& progress);

}  // namespace spillway
