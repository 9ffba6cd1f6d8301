#include "MemoryPool.h"

#include <algorithm>

namespace spillway::cuda {

MemoryPool::MemoryPool(MemoryKind kind, size_t capacityBytes)
    : kind_(kind), capacityBytes_(capacityBytes / kAlignment * kAlignment) {
  if (capacityBytes_ == 0) return;
  void* memory = nullptr;
  const cudaError_t error = kind == MemoryKind::Device ? cudaMalloc(&memory, capacityBytes_)
                                                       : cudaHostAlloc(&memory, capacityBytes_, cudaHostAllocDefault);
  if (error != cudaSuccess) {
    cudaGetLastError();
    std::string there = cudaGetErrorString(error);
    size_t free = 0, total = 0;
    if (kind == MemoryKind::Device && cudaMemGetInfo(&free, &total) == cudaSuccess)
      there = std::to_string(free) + " of its " + std::to_string(total) + " bytes are free";
    throw Error(ErrorCode::Memory, std::string(kind == MemoryKind::Device ? "GPU memory" : "pinned memory") +
                                       ": asked for " + std::to_string(capacityBytes_) + " bytes, " + there);
  }
  data_ = static_cast<uint8_t*>(memory);
  free_[0] = {capacityBytes_, {}};
}

MemoryPool::~MemoryPool() {
  if (data_ == nullptr) return;
  if (kind_ == MemoryKind::Device)
    cudaFree(data_);
  else
    cudaFreeHost(data_);
}

MemoryPool::Block MemoryPool::take(size_t bytes, cudaStream_t stream, const std::string& what) {
  if (bytes <= capacityBytes_) {
    bytes = aligned(std::max<size_t>(bytes, 1));
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second.bytes < bytes) continue;
      const size_t offset = at->first;
      Piece piece = std::move(at->second);
      free_.erase(at);
      for (const Use& use : piece.uses)
        if (use.stream != stream) use.end->holdUp(stream);
      if (piece.bytes > bytes) free_[offset + bytes] = {piece.bytes - bytes, std::move(piece.uses)};
      usedBytes_ += bytes;
      peakBytes_ = std::max(peakBytes_, usedBytes_);
      return {data_ + offset, bytes};
    }
  }
  size_t longest = 0;
  for (const auto& [offset, piece] : free_) longest = std::max(longest, piece.bytes);
  throw Error(ErrorCode::Memory, what + ": asked for " + std::to_string(bytes) + " bytes of " +
                                     (kind_ == MemoryKind::Device ? "GPU" : "pinned") + " memory, " +
                                     std::to_string(capacityBytes_ - usedBytes_) + " of " +
                                     std::to_string(capacityBytes_) + " are free, " + std::to_string(longest) +
                                     " of them in one piece");
}

void MemoryPool::giveBack(const Block& block, cudaStream_t stream) {
  Piece piece = {block.bytes, {{stream, std::make_shared<Event>()}}};
  piece.uses[0].end->record(stream);
  size_t offset = static_cast<size_t>(block.data - data_);
  usedBytes_ -= block.bytes;
  // A stream's later end covers its earlier ones.
  const auto absorb = [&piece, stream](const Piece& other) {
    piece.bytes += other.bytes;
    for (const Use& use : other.uses)
      if (use.stream != stream) piece.uses.push_back(use);
  };
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + block.bytes) {
    absorb(next->second);
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.bytes == offset) {
      offset = before->first;
      absorb(before->second);
      free_.erase(before);
    }
  }
  free_[offset] = std::move(piece);
}

}  // namespace spillway::cuda
