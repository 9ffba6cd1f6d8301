// A stream of the device and the pinned pieces of host memory that data crosses the link through: while one is on the
// link the next is being filled or emptied. For one thread at a time.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "../../kernels/cuda/Stream.h"
#include "../../kernels/cuda/copyPages.h"
#include "../../system/ThreadPool.h"
#include "Device.h"
#include "PagesFirst.h"
#include "StreamFence.h"

namespace spillway {

// Who brings pieces to the device: the copy engine, which has the link's whole bandwidth, and where everything waits
// for what it was given before; or a kernel that reads them, for what others' copies must not hold up.
// Links of the copy engine carry much: who waits for their pieces sleeps.
enum class Uploads : uint8_t { CopyEngine, Kernel };

class Link {
 public:
  // pinned: pieces x pieceBytes, which outlive this. done: of all links of the device; outlives this, too.
  Link(const Device& device, StreamsDone& done, StreamIndex index, Uploads uploads, uint8_t* pinned, size_t pieceBytes,
       size_t pieces);

  // Of the thread that calls: CUDA keeps the device a thread works with.
  void use() const { device_.use(); }
  cudaStream_t stream() const { return stream_.get(); }
  size_t pieceBytes() const { return pieceBytes_; }

  // A piece that is not on the link any more, to be filled, and its way to the device, after what the stream has been
  // given so far.
  uint8_t* nextPiece();
  void send(void* to, size_t bytes);
  // From memory that is pinned: in one go, or, where pages go first, in pieces of which two of its own are under way at
  // most.
  void sendPinned(void* to, const uint8_t* from, size_t bytes, const std::atomic<bool>& stopped);
  // No piece is free while pages are read from the disk, but for one to go on with (nextPiece()). onLink: where pages
  // come, each piece that is sent waits for those that are on the link.
  void giveWayTo(PagesFirst& pages, bool onLink) {
    pages_ = &pages;
    pagesCome_ = onLink;
  }
  // Who fills and empties large pieces from now on, of what is not pinned; by default who calls, alone.
  void copyBy(ThreadPool& copiers) { copiers_ = &copiers; }
  // The piece that is sent after `filling` others, which are being filled; null while it is one of them, on the link,
  // or has to give way.
  uint8_t* freePiece(size_t filling) const;

  // Any number of bytes; `from` may change when it returns. The device has them after what the stream has been given so
  // far.
  void upload(void* to, const void* from, size_t bytes);
  // Returns when they are there.
  void download(void* to, const void* from, size_t bytes);
  // Pages between the device and memory that is pinned, either way: after what the stream has been given so far. See
  // copyPages().
  void copyPages(const cuda::PageCopy* copies, size_t count, size_t pageBytes);
  // The same with memory that is not, small pages many in a piece: from there, which may change when it returns; to
  // there, where they are when it returns.
  void uploadPages(const cuda::PageCopy* copies, size_t count, size_t pageBytes);
  void downloadPages(const cuda::PageCopy* copies, size_t count, size_t pageBytes);
  // What comes down in so many pieces, as many of them on their way as there are: fill(i, piece) gives the stream what
  // fills it, take(i, piece) finds it full, in order. Returns when all are taken.
  template <typename Fill, typename Take>
  void receive(size_t count, Fill fill, Take take) {
    const size_t ahead = events_.size() - 1, first = at_;
    for (size_t i = 0; i < count + ahead; i++) {
      if (i < count) {
        fill(i, piece(at_));
        passOn();
      }
      if (i < ahead) continue;
      const size_t taken = (first + i - ahead) % events_.size();
      events_[taken]->synchronize();
      take(i - ahead, piece(taken));
    }
  }
  // The next piece is on the link now: the stream has been given what reads it.
  void passOn() {
    events_[at_]->record(stream_.get());
    at_ = (at_ + 1) % events_.size();
  }
  // Until all of the stream's work is done.
  void finish();

  // What the stream is given from now on waits for these fences of the same device; the caller does not.
  void after(const std::vector<std::shared_ptr<Fence>>& before);
  // Gives the stream a task's work, and leaves its end in `launch`. What body throws goes through, once the stream has
  // ended what it was given: it uses what others may have next.
  template <typename Body>
  void launch(Launch& launch, Body body) {
    try {
      body();
      launch.left = fence();
    } catch (...) {
      try {
        finish();
      } catch (const std::exception&) {}
      throw;
    }
  }
  // The end of what the stream has been given so far.
  std::shared_ptr<Fence> fence();
  // What comes before whatever the stream is given now, and the number of that.
  StreamIndex index() const { return index_; }
  const StreamClock& clock() const { return clock_; }
  uint64_t next() const { return StreamClock(clock_)[index_] + 1; }

 private:
  const StreamClock& advanceClock() {
    clock_[index_]++;
    return clock_;
  }
  template <typename Body>
  void inChunks(size_t bytes, size_t chunk, Body body) const;
  void copy(void* to, const void* from, size_t bytes) const;
  void downloadWhole(const cuda::PageCopy* copies, size_t count, size_t bytes);
  size_t pagesOfPiece(size_t pageBytes) const;
  void copyThroughPiece(const cuda::PageCopy* copies, size_t count, size_t pageBytes, uint8_t* piece, bool down);
  uint8_t* piece(size_t index) const { return pinned_ + index * pieceBytes_; }

  const Device& device_;
  StreamsDone& done_;
  const StreamIndex index_;
  const Uploads uploads_;
  StreamClock clock_;
  uint8_t* pinned_;
  size_t pieceBytes_;
  size_t at_ = 0;
  PagesFirst* pages_ = nullptr;
  bool pagesCome_ = false;
  ThreadPool* copiers_ = nullptr;
  std::vector<std::unique_ptr<cuda::Event>> events_;  // a piece's last copy has ended
  cuda::Stream stream_;                               // ends first: copies use what is above
};

}  // namespace spillway
