// What comes before what on a device's streams: vector clocks, as the host knows them from the events that it has put
// between streams, and from what it has waited for. Every stretch of work of a stream has a number, from 1 on.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace spillway {

enum class StreamIndex : uint8_t { Weights, Compute, Attend, Up, Down, CacheUp, CacheDown };
constexpr size_t kStreams = 7;

// Of each stream all work up to a number.
struct StreamClock {
  std::array<uint64_t, kStreams> upTo{};

  uint64_t& operator[](StreamIndex stream) { return upTo[static_cast<size_t>(stream)]; }
  void join(const StreamClock& other) {
    for (size_t s = 0; s < kStreams; s++) upTo[s] = std::max(upTo[s], other.upTo[s]);
  }
  bool covers(const StreamClock& other) const {
    for (size_t s = 0; s < kStreams; s++) {
      if (upTo[s] < other.upTo[s]) return false;
    }
    return true;
  }
};

// What the host knows to be done. Any thread.
class StreamsDone {
 public:
  void add(const StreamClock& clock) {
    std::lock_guard<std::mutex> lock(mutex_);
    clock_.join(clock);
  }
  StreamClock clock() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return clock_;
  }

 private:
  mutable std::mutex mutex_;
  StreamClock clock_;
};

}  // namespace spillway
