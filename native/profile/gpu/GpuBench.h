// What all measurements on a GPU share: its memory, a stream, pinned memory, and how large what is measured may be.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "../../kernels/cuda/MemoryPool.h"
#include "../../backend/cuda/Device.h"
#include "../../backend/cuda/Link.h"
#include "../Workbench.h"

namespace spillway {

class GpuBench {
 public:
  // Reserves memory, and looks how fast the device is. For the thread that measures, alone. Throws
  // Error(InvalidArgument) for a device that there is not, Error(Memory).
  explicit GpuBench(const Workbench& bench);

  // Memory of the device, filled with bytes that are no NaN and no infinity as halves or floats: what kernels compute
  // with them is of no interest. Measurements take it anew each round and give it back before the next one begins.
  // Throws Error(Memory), naming `what`.
  Device::Piece take(size_t bytes, const char* what);
  size_t memoryBytes() const { return memoryBytes_; }  // of the device, altogether
  uint8_t* pinned() const { return pinnedMemory_.data; }
  size_t pinnedBytes() const { return pinnedMemory_.bytes; }
  Link& link() { return link_; }
  cudaStream_t stream() const { return link_.stream(); }
  // The device is no more than a toy (it is emulated), or hardly any time is to be spent: everything is measured with
  // next to nothing.
  bool small() const { return small_; }

  // The seconds of one call of `launch`, which gives the stream some work, of so many that are given at once: as tasks
  // follow each other, without the host.
  template <typename Body>
  double timedLaunches(size_t count, Body launch) {
    return timed([&] {
             for (size_t i = 0; i < count; i++) launch();
             link_.finish();
           }) /
           static_cast<double>(count);
  }
  // Samples of these seconds, divided by `units`. As many calls make one as take some milliseconds; their number is
  // found in the first round.
  template <typename Body>
  void sample(const Workbench& bench, Samples& into, size_t& calls, double units, Body launch) {
    if (calls == 0) {
      launch();  // code is brought to the device when it is first used
      link_.finish();
      calls = small_ ? 1 : bench.unitsPerSample(1, kMostCalls, [&](size_t count) {
        return timedLaunches(count, launch) * static_cast<double>(count);
      });
    }
    bench.sample(into, small_ ? 0 : kSeconds, small_ ? 1 : 2, [&] { return timedLaunches(calls, launch) / units; });
  }

  static constexpr double kSeconds = 0.012;  // a point and round

 private:
  static constexpr size_t kMostCalls = 256;
  bool isSlow();

  size_t memoryBytes_;
  Device device_;
  StreamsDone done_;
  cuda::MemoryPool pinned_;
  cuda::MemoryPool::Block linkMemory_, pinnedMemory_;
  Link link_;  // ends first: copies use what is above
  bool small_ = false;
};

}  // namespace spillway
