// One GPU and the memory that a runtime has reserved of it. Any thread may take a piece; it comes back when its owner
// goes.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "../../kernels/cuda/MemoryPool.h"

namespace spillway {

class Device {
 public:
  // Throws Error(InvalidArgument) where there is no such device, Error(Memory) where it has not so much free.
  Device(uint32_t index, size_t memoryBytes);

  // Before a thread's first call to CUDA: it works with this device from then on.
  void use() const;

  class Piece {
   public:
    Piece() = default;
    Piece(Device& device, const cuda::MemoryPool::Block& block) : device_(&device), block_(block) {}
    ~Piece() {
      if (device_ != nullptr) device_->giveBack(block_);
    }
    Piece(Piece&& other) noexcept : device_(other.device_), block_(other.block_) { other.device_ = nullptr; }
    Piece& operator=(Piece&& other) noexcept {
      std::swap(device_, other.device_);
      std::swap(block_, other.block_);
      return *this;
    }
    uint8_t* data() const { return block_.data; }
    size_t bytes() const { return block_.bytes; }

   private:
    Device* device_ = nullptr;
    cuda::MemoryPool::Block block_{};
  };
  // Nothing may be under way with a piece when it goes. Throws Error(Memory), naming `what`. Zero bytes are no piece.
  Piece take(size_t bytes, const std::string& what);
  static size_t aligned(size_t bytes) {
    return (bytes + cuda::MemoryPool::kAlignment - 1) / cuda::MemoryPool::kAlignment * cuda::MemoryPool::kAlignment;
  }

 private:
  void giveBack(const cuda::MemoryPool::Block& block);

  int index_;
  std::mutex mutex_;
  std::optional<cuda::MemoryPool> pool_;
};

}  // namespace spillway
