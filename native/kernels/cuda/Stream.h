// A stream and an event of the device, each with one owner.
#pragma once
#include <utility>

#include "gpu.h"

namespace spillway::cuda {

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  // Work that is under way is finished first: it may use memory that goes next.
  ~Stream() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  void synchronize() const { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

// A point in a stream. Before it is first recorded it has come to pass.
class Event {
 public:
  // flags: how synchronize() waits (cudaEventBlockingSync).
  explicit Event(unsigned flags = cudaEventDefault) {
    check(cudaEventCreateWithFlags(&event_, flags | cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  // Work that the stream is given from now on waits; the caller does not.
  void holdUp(cudaStream_t stream) const { check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }
  void synchronize() const { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  bool hasPassed() const {
    const cudaError_t found = cudaEventQuery(event_);
    if (found == cudaErrorNotReady) {
      cudaGetLastError();  // it counts as one, which the next launch of a kernel would be blamed for
      return false;
    }
    check(found, "cudaEventQuery");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace spillway::cuda
