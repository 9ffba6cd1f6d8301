#include "Link.h"

#include <algorithm>
#include <cstring>

#include "../../kernels/cuda/copyPinned.h"
#include "../../system/Error.h"

namespace spillway {

// What one thread copies at a time.
constexpr size_t kCopyChunk = size_t(256) << 10;

Link::Link(const Device& device, StreamsDone& done, StreamIndex index, Uploads uploads, uint8_t* pinned,
           size_t pieceBytes, size_t pieces)
    : device_(device), done_(done), index_(index), uploads_(uploads), pinned_(pinned), pieceBytes_(pieceBytes) {
  const unsigned flags = uploads == Uploads::CopyEngine ? cudaEventBlockingSync : cudaEventDefault;
  for (size_t i = 0; i < pieces; i++) events_.push_back(std::make_unique<cuda::Event>(flags));
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
  if (pagesCome_) pages_->await();
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
  if (!pagesCome_) return give(0, bytes);
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

// body(at, bytes) for all of so many bytes, by those who copy where that is more than one thread copies while another
// is woken. chunk: how many belong together.
template <typename Body>
void Link::inChunks(size_t bytes, size_t chunk, Body body) const {
  const size_t chunks = (bytes + chunk - 1) / chunk;
  const auto each = [&](size_t i, unsigned) { body(i * chunk, std::min(chunk, bytes - i * chunk)); };
  if (copiers_ != nullptr && bytes > kCopyChunk) return copiers_->parallelFor(chunks, each);
  for (size_t i = 0; i < chunks; i++) each(i, 0);
}

// Pages that a piece has room for, with their table after them; none of those that are copied by several threads each.
size_t Link::pagesOfPiece(size_t pageBytes) const {
  return pageBytes > kCopyChunk ? 0 : pieceBytes_ / (pageBytes + sizeof(cuda::PageCopy));
}

// So many of them, from the device to the piece or from there: its table is in the piece, too.
void Link::copyThroughPiece(const cuda::PageCopy* copies, size_t count, size_t pageBytes, uint8_t* piece, bool down) {
  auto* table = reinterpret_cast<cuda::PageCopy*>(piece + count * pageBytes);
  for (size_t i = 0; i < count; i++) {
    uint8_t* place = piece + i * pageBytes;
    table[i] = down ? cuda::PageCopy{copies[i].from, place} : cuda::PageCopy{place, copies[i].to};
  }
  cuda::copyPages(stream_.get(), table, count, pageBytes);
}

void Link::uploadPages(const cuda::PageCopy* copies, size_t count, size_t pageBytes) {
  const size_t most = pagesOfPiece(pageBytes);
  if (most == 0) {
    for (size_t i = 0; i < count; i++) upload(copies[i].to, copies[i].from, pageBytes);
    return;
  }
  for (size_t first = 0, some; first < count; first += some) {
    some = std::min(most, count - first);
    uint8_t* piece = nextPiece();
    inChunks(some * pageBytes, pageBytes,
             [&](size_t at, size_t bytes) { std::memcpy(piece + at, copies[first + at / pageBytes].from, bytes); });
    copyThroughPiece(copies + first, some, pageBytes, piece, false);
    passOn();
  }
}

// Each by itself, in as many pieces as it takes.
void Link::downloadWhole(const cuda::PageCopy* copies, size_t count, size_t bytes) {
  const size_t parts = (bytes + pieceBytes_ - 1) / pieceBytes_;
  const auto at = [&](size_t i) { return i % parts * pieceBytes_; };
  const auto sizeOf = [&](size_t i) { return std::min(pieceBytes_, bytes - at(i)); };
  receive(
      count * parts,
      [&](size_t i, uint8_t* piece) {
        cuda::check(
            cudaMemcpyAsync(piece, copies[i / parts].from + at(i), sizeOf(i), cudaMemcpyDeviceToHost, stream_.get()),
            "cudaMemcpyAsync");
      },
      [&](size_t i, const uint8_t* piece) { copy(copies[i / parts].to + at(i), piece, sizeOf(i)); });
}

void Link::downloadPages(const cuda::PageCopy* copies, size_t count, size_t pageBytes) {
  const size_t most = pagesOfPiece(pageBytes);
  if (most == 0) return downloadWhole(copies, count, pageBytes);
  const auto some = [&](size_t i) { return std::min(most, count - i * most); };
  receive((count + most - 1) / most,
          [&](size_t i, uint8_t*) { copyThroughPiece(copies + i * most, some(i), pageBytes, nextPiece(), true); },
          [&](size_t i, const uint8_t* piece) {
            inChunks(some(i) * pageBytes, pageBytes, [&](size_t at, size_t bytes) {
              std::memcpy(copies[i * most + at / pageBytes].to, piece + at, bytes);
            });
          });
}

void Link::copy(void* to, const void* from, size_t bytes) const {
  inChunks(bytes, kCopyChunk, [&](size_t at, size_t some) {
    std::memcpy(static_cast<uint8_t*>(to) + at, static_cast<const uint8_t*>(from) + at, some);
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
  const cuda::PageCopy all{static_cast<const uint8_t*>(from), static_cast<uint8_t*>(to)};
  downloadWhole(&all, 1, bytes);
}

}  // namespace spillway
