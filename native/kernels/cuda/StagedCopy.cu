#include "StagedCopy.h"

#include <algorithm>

namespace spillway::cuda {

StagedCopy::StagedCopy(MemoryPool& pinned, size_t pieceBytes, size_t buffers)
    : pinned_(pinned), pieceBytes_(pieceBytes) {
  // One block, cut up: a constructor that fails has nothing to give back.
  stride_ = MemoryPool::aligned(pieceBytes);
  for (size_t i = 0; i < buffers; i++) copied_.push_back(std::make_unique<Event>());
  memory_ = pinned.take(stride_ * buffers, nullptr, std::to_string(buffers) + " staging buffers");
  check(cudaStreamSynchronize(nullptr),
        "cudaStreamSynchronize");  // the host writes here: whoever had the memory before must be done
}

StagedCopy::~StagedCopy() {
  // Copies read the buffers until they end.
  for (const auto& event : copied_) event->synchronize();
  pinned_.giveBack(memory_, nullptr);
}

void StagedCopy::toDevice(uint8_t* device, size_t bytes, cudaStream_t stream,
                          const std::function<void(uint8_t* buffer, size_t offset, size_t bytes)>& fill) {
  for (size_t offset = 0; offset < bytes; offset += pieceBytes_) {
    const size_t piece = std::min(pieceBytes_, bytes - offset);
    uint8_t* buffer = memory_.data + next_ * stride_;
    Event& copied = *copied_[next_];
    next_ = (next_ + 1) % copied_.size();
    copied.synchronize();
    fill(buffer, offset, piece);
    check(cudaMemcpyAsync(device + offset, buffer, piece, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    copied.record(stream);
  }
}

}  // namespace spillway::cuda
