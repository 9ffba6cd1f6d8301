#include "Link.h"

#include <algorithm>
#include <cstring>

#include "../../kernels/cuda/copyPinned.h"
#include "../../system/Error.h"

namespace spillway {

Link::Link(const Device& device, StreamsDone& done, StreamIndex index, Uploads uploads, uint8_t* pinned,
           size_t pieceBytes, size_t pieces)
    : device_(device), done_(done), index_(index), uploads_(uploads), pinned_(pinned), pieceBytes_(pieceBytes) {
  for (size_t i = 0; i < pieces; i++) events_.push_back(std::make_unique<cuda::Event>());
}

void Link::finish() {
  stream_.synchronize();
  done_.add(advanceClock());
}

void Link::after(const std::vector<std::shared_ptr<Fence>>& before) {
  clock_.join(done_.clock());
  for (const auto& each : before) {
    const auto& fence = static_cast<const StreamFence&>(*each);
    if (fence.stream() != index_) fence.holdUp(stream_.get());
    clock_.join(fence.clock());
  }
}

std::shared_ptr<Fence> Link::fence() {
  return std::make_shared<StreamFence>(device_, done_, index_, stream_.get(), advanceClock());
}

uint8_t* Link::nextPiece() {
  events_[at_]->synchronize();
  return piece(at_);
}

uint8_t* Link::freePiece(size_t filling) const {
  if (pages_ != nullptr && pages_->reading()) return nullptr;
  const size_t index = (at_ + filling) % events_.size();
  return filling < events_.size() && events_[index]->hasPassed() ? piece(index) : nullptr;
}

void Link::send(void* to, size_t bytes) {
  if (pages_ != nullptr) pages_->await();
  if (uploads_ == Uploads::Kernel)
    cuda::copyPinned(stream_.get(), piece(at_), to, bytes);
  else
    cuda::check(cudaMemcpyAsync(to, piece(at_), bytes, cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
  passOn();
}

void Link::sendPinned(void* to, const uint8_t* from, size_t bytes, const std::atomic<bool>& stopped) {
  const auto give = [&](size_t at, size_t some) {
    cuda::check(cudaMemcpyAsync(static_cast<uint8_t*>(to) + at, from + at, some, cudaMemcpyHostToDevice, stream_.get()),
                "cudaMemcpyAsync");
  };
  if (pages_ == nullptr) return give(0, bytes);
  for (size_t at = 0; at < bytes; at += pieceBytes_) {
    events_[(at_ + events_.size() - 2) % events_.size()]->synchronize();
    if (stopped.load()) throw Error(ErrorCode::Cancelled, "cancelled");
    pages_->await();
    give(at, std::min(pieceBytes_, bytes - at));
    passOn();
  }
}

// The table stands in a piece, which the kernel reads where it is.
void Link::copyPages(const cuda::PageCopy* copies, size_t count, size_t pageBytes) {
  const size_t most = pieceBytes_ / sizeof(cuda::PageCopy);
  for (size_t first = 0; first < count; first += most) {
    const size_t some = std::min(most, count - first);
    auto* table = reinterpret_cast<cuda::PageCopy*>(nextPiece());
    std::copy_n(copies + first, some, table);
    cuda::copyPages(stream_.get(), table, some, pageBytes);
    passOn();
  }
}

// Bytes that a thread copies for longer than it takes to wake it.
constexpr size_t kCopyChunk = size_t(512) << 10;

void Link::copy(void* to, const void* from, size_t bytes) const {
  if (copiers_ == nullptr || bytes <= kCopyChunk) {
    std::memcpy(to, from, bytes);
    return;
  }
  copiers_->parallelFor((bytes + kCopyChunk - 1) / kCopyChunk, [&](size_t i, unsigned) {
    const size_t at = i * kCopyChunk;
    std::memcpy(static_cast<uint8_t*>(to) + at, static_cast<const uint8_t*>(from) + at,
                std::min(kCopyChunk, bytes - at));
  });
}

void Link::upload(void* to, const void* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += pieceBytes_) {
    const size_t some = std::min(pieceBytes_, bytes - at);
    copy(nextPiece(), static_cast<const uint8_t*>(from) + at, some);
    send(static_cast<uint8_t*>(to) + at, some);
  }
}

void Link::download(void* to, const void* from, size_t bytes) {
  const auto sizeOf = [&](size_t i) { return std::min(pieceBytes_, bytes - i * pieceBytes_); };
  receive((bytes + pieceBytes_ - 1) / pieceBytes_,
          [&](size_t i, uint8_t* piece) {
            cuda::check(cudaMemcpyAsync(piece, static_cast<const uint8_t*>(from) + i * pieceBytes_, sizeOf(i),
                                        cudaMemcpyDeviceToHost, stream_.get()),
                        "cudaMemcpyAsync");
          },
          [&](size_t i, const uint8_t* piece) { copy(static_cast<uint8_t*>(to) + i * pieceBytes_, piece, sizeOf(i)); });
}

}  // namespace spillway
