// Reads weights from their files and packs them for the kernels, on all threads, through one bounded buffer a thread.
#pragma once
#include <atomic>
#include <functional>
#include <vector>

#include "../runtime/File.h"
#include "../runtime/ThreadPool.h"
#include "Weights.h"

namespace spillway {

struct LoadProgress {
  std::atomic<uint64_t> bytes{0};    // of files, done
  std::atomic<bool> stopped{false};  // set from outside to give up: load throws Error(Cancelled)
  std::function<void()> changed;     // called from any thread after `bytes` has grown
};

// `weights` has its memory reserved and its ranges checked. Throws FileError, naming file and role, for what cannot be read.
void loadWeights(const Weights& weights, const std::vector<File>& files, ThreadPool& pool, LoadProgress& progress);

}  // namespace spillway
