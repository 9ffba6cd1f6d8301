// From a source that fills host memory (a file, a cache page) to the device, in pieces through pinned buffers: one
// piece is on the link while the next is being filled. For one thread at a time.
#pragma once
#include <functional>
#include <vector>

#include "MemoryPool.h"

namespace spillway::cuda {

class StagedCopy {
 public:
  // Takes `buffers` (2 or more) of `pieceBytes` each from a pinned pool, which outlives it.
  StagedCopy(MemoryPool& pinned, size_t pieceBytes, size_t buffers);
  ~StagedCopy();
  StagedCopy(const StagedCopy&) = delete;
  StagedCopy& operator=(const StagedCopy&) = delete;

  // fill(buffer, offset, bytes) brings bytes [offset, offset + bytes) of the source. Returns when all has been asked
  // for; the copies end in `stream`. What fill throws goes through; pieces before it are copied.
  void toDevice(uint8_t* device, size_t bytes, cudaStream_t stream,
                const std::function<void(uint8_t* buffer, size_t offset, size_t bytes)>& fill);

 private:
  MemoryPool& pinned_;
  size_t pieceBytes_, stride_ = 0, next_ = 0;
  MemoryPool::Block memory_{};
  std::vector<std::unique_ptr<Event>> copied_;  // a buffer's last piece has left it
};

}  // namespace spillway::cuda
