// What all measurements share: memory, threads, time, and the word to stop.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../kernels/cpu/Kernels.h"
#include "../system/Arena.h"
#include "../system/Clock.h"
#include "../system/Error.h"
#include "../system/ThreadPool.h"
#include "ProfileProgress.h"
#include "Samples.h"

namespace spillway {

constexpr size_t kLeastProfileMemory = size_t{16} << 20;
constexpr size_t kLeastGpuProfileMemory = size_t{64} << 20;

// A GPU that is to be measured beside the processor.
struct GpuProfileOptions {
  uint32_t device = 0;
  uint64_t memoryBytes = 0;  // most that is taken there; best more than the device's caches hold
};

struct ProfileOptions {
  unsigned threads = 1;  // all that shall be used; what is measured with one thread is measured beside it
  // A thread for each core: measured beside them where that is fewer. More than `threads` are as many.
  unsigned coreThreads = 1;
  std::vector<InstructionSet> instructionSets;            // all that shall be looked at, the one that runs use first
  std::vector<size_t> tokenCounts = {1, 4, 16, 64, 256};  // of products
  // Of products: those that are wanted.
  std::vector<std::string> weights = {"q4", "q8", "f16", "f32", "q4_k", "q6_k"};
  uint32_t pageTokens = 32;                  // of the KV cache
  size_t memoryBytes = size_t{128} << 20;    // to work in; best more than the processor's caches hold
  std::string diskFolder;                    // where stores and spill files go; empty: the disk is not looked at
  uint64_t diskBytes = uint64_t{256} << 20;  // most that is written there
  std::optional<GpuProfileOptions> gpu;      // without: none is looked at
  double budget = 1;  // 1: some ten seconds, and some four for a GPU. Time and repetitions grow and shrink with it
  // Only how fast memory and the disk are read, and how fast products are, on all threads.
  bool speedOnly = false;
};

// One instruction set on a number of threads.
struct ComputeSetting {
  InstructionSet set;
  ThreadPool* pool;
  bool aside;  // a set that runs do not use by default: measured in the first round alone, and with less
};

class Workbench {
 public:
  // Throws Error(InvalidArgument) for options that make no sense.
  Workbench(const ProfileOptions& options, ProfileProgress& progress);

  const ProfileOptions& options() const { return options_; }
  uint8_t* memory() { return arena_.data(); }  // every measurement fills it anew, each round
  size_t memoryBytes() const { return arena_.bytes(); }
  ThreadPool& all() { return all_; }
  ThreadPool& one() { return one_; }
  InstructionSet best() const { return options_.instructionSets.front(); }
  // The best set on all threads; then on one, and on one for each core, where these are something else; then, if
  // wanted, the others on all threads.
  std::vector<ComputeSetting> settings(bool others);

  // Throws Error(Cancelled) once it was told to stop.
  void check() const {
    progress_.tick();
    if (progress_.stopped.load(std::memory_order_relaxed)) throw Error(ErrorCode::Cancelled, "cancelled");
  }

  // So little time that figures are hardly more than there: for tests.
  bool glance() const { return options_.budget < 0.1; }

  // Takes samples for about `seconds` (at a budget of 1), at least `least` of them, a few more where these were
  // disturbed. body() returns the seconds of one.
  template <typename Body>
  void sample(Samples& into, double seconds, size_t least, Body body) const {
    const double end = monotonicSeconds() + seconds * options_.budget;
    if (glance()) least = 1;
    size_t undisturbed = 0;
    for (size_t taken = 0;
         taken < least || monotonicSeconds() < end || (undisturbed < least && taken < kTries * least && !glance());
         taken++) {
      check();
      const Timing each = observed(body);
      into.add(each.seconds, each.disturbed);
      undisturbed += each.disturbed ? 0 : 1;
    }
  }

  // The seconds that body() returns, of which what a pause added (the processor was somebody else's, or a cgroup's
  // quota was used up) is no part: a few tries where it has to be.
  template <typename Body>
  double undisturbed(Body body) const {
    double least = std::numeric_limits<double>::infinity();
    for (size_t tries = 0; tries < kTries; tries++) {
      check();
      const Timing each = observed(body);
      least = std::min(least, each.seconds);
      if (!each.disturbed) break;
    }
    return least;
  }

  // How many units (outputs, rows, ...) make a sample of about kSampleSeconds: a multiple of `step`, at least that and
  // at most `most`. body(units) returns the seconds that they took.
  template <typename Body>
  size_t unitsPerSample(size_t step, size_t most, Body body) const {
    check();
    if (step >= most) return most;
    if (glance()) return step;
    // Few units are slow for their number (threads that find nothing to do, buffers that are filled for them alone), so
    // their number is felt for.
    body(step);  // woke threads and touched memory
    size_t units = step;
    for (;;) {
      const double seconds = undisturbed([&] { return body(units); });
      if (seconds >= kSampleSeconds / 2 || 2 * units >= most) {
        const double wanted = static_cast<double>(units) * (seconds > 0 ? kSampleSeconds / seconds : 1);
        if (wanted >= static_cast<double>(most)) return most;
        return std::max<size_t>(1, static_cast<size_t>(wanted) / step) * step;
      }
      units *= 2;
      check();
    }
  }
  static constexpr double kSampleSeconds = 0.005;

 private:
  static constexpr size_t kTries = 3;  // where neighbours take the processor in every sample, more of them are in vain

  struct Timing {
    double seconds;
    bool disturbed;  // a thread of ours was stopped meanwhile, for somebody else or for want of quota
  };
  template <typename Body>
  static Timing observed(Body body) {
    const long before = involuntarySwitches();
    const double seconds = body();
    return {seconds, involuntarySwitches() != before};
  }
  static long involuntarySwitches();  // of all threads of this process, so far

  ProfileOptions options_;
  ProfileProgress& progress_;
  Arena arena_;
  ThreadPool all_, one_, cores_;
};

// Seconds that body() takes.
template <typename Body>
double timed(Body body) {
  const double start = monotonicSeconds();
  body();
  return monotonicSeconds() - start;
}

}  // namespace spillway
