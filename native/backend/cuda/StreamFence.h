// The end of a task's work in its stream.
#pragma once
#include "../../kernels/cuda/Stream.h"
#include "../../system/Launch.h"
#include "Device.h"
#include "StreamClock.h"

namespace spillway {

class StreamFence : public Fence {
 public:
  // After what the stream has been given so far, which is, with all that comes before it, `clock`. Device and done
  // outlive this.
  StreamFence(const Device& device, StreamsDone& done, StreamIndex stream, cudaStream_t handle,
              const StreamClock& clock)
      : device_(device), done_(done), stream_(stream), clock_(clock), event_(cudaEventBlockingSync) {
    event_.record(handle);
  }

  void await() override {
    device_.use();
    event_.synchronize();
    done_.add(clock_);
  }

  StreamIndex stream() const { return stream_; }
  const StreamClock& clock() const { return clock_; }
  void holdUp(cudaStream_t stream) const { event_.holdUp(stream); }

 private:
  const Device& device_;
  StreamsDone& done_;
  StreamIndex stream_;
  StreamClock clock_;
  cuda::Event event_;  // who waits for it sleeps: the processor has other things to do
};

}  // namespace spillway
