// Memory of the device, or of the host and pinned, that is reserved at once and never grows: the hard cap of its tier.
// Blocks are taken and given back in the order of streams: a block may be given back while work with it is still
// queued, and whoever takes it next waits on the device, not here. For one thread at a time.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "Stream.h"

namespace spillway::cuda {

enum class MemoryKind { Device, Pinned };

class MemoryPool {
 public:
  struct Block {
    uint8_t* data;
    size_t bytes;  // a multiple of kAlignment
  };
  static constexpr size_t kAlignment = 256;
  static constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // Throws Error(Memory), naming what there is, where the device or the host does not give that much.
  MemoryPool(MemoryKind kind, size_t capacityBytes);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // At least `bytes` for work in `stream`, from the lowest place that has them. `what` is for the message of
  // Error(Memory), which says how much was asked for, how much is free, and how much of it in one piece.
  Block take(size_t bytes, cudaStream_t stream, const std::string& what);
  // After the work that `stream` has been given so far. A block that several streams use: once they have been made to
  // wait for each other.
  void giveBack(const Block& block, cudaStream_t stream);

  size_t capacityBytes() const { return capacityBytes_; }
  size_t usedBytes() const { return usedBytes_; }
  size_t peakBytes() const { return peakBytes_; }

 private:
  // The end of a stream's work with a piece.
  struct Use {
    cudaStream_t stream;
    std::shared_ptr<Event> end;
  };
  struct Piece {
    size_t bytes;
    std::vector<Use> uses;
  };

  MemoryKind kind_;
  size_t capacityBytes_, usedBytes_ = 0, peakBytes_ = 0;
  uint8_t* data_ = nullptr;
  std::map<size_t, Piece> free_;  // by offset; neighbours are merged
};

}  // namespace spillway::cuda
