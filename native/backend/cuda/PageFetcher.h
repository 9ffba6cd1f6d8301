// Pages of the cache that live in host memory and on disk and come to the device where it attends: buffers for those of
// a square, one after another, and two streams, so that the next square's pages come, and the last one's go back, while
// this one attends. Where the host's pages are not pinned, and for pages of the disk, they cross through the streams'
// pieces.
#pragma once
#include <functional>
#include <optional>

#include "../../model/CacheMemory.h"
#include "../../model/FetchedPages.h"
#include "../../model/RuntimeOptions.h"
#include "../Backend.h"
#include "BufferOrder.h"
#include "HostPin.h"
#include "Link.h"

namespace spillway {

class PageFetcher {
 public:
  // pin: of all host pages, where it is made before any of them moves.
  PageFetcher(const GpuOptions& options, const CacheMemory& hostPages, const HostPin& pin);

  // On the device.
  size_t bytes() const { return bytes_; }
  // buffers: bytes() of device memory. first: what crosses the link upwards gives way to loads. makeLink(link, index)
  // makes each of the two links.
  void reserve(uint8_t* buffers, PagesFirst& first,
               const std::function<void(std::optional<Link>&, StreamIndex)>& makeLink);
  void copyBy(ThreadPool& copiers) {
    up_->copyBy(copiers);
    down_->copyBy(copiers);
  }

  // Brings a square's pages, as far as a buffer has room for them, to that of the staging. readDisk fills the staging
  // memory, if there are any on disk; called when the others are on their way.
  void load(const FetchedPages& pages, size_t layer, const Staging& staging, const std::function<void()>& readDisk,
            Launch& launch);
  // Takes the pages with new tokens back that are in the buffer still, those for the disk to the staging memory. Where
  // there are such, they are there when it returns.
  void store(const FetchedPages& pages, size_t layer, const Staging& staging, Launch& launch);

  // Before attention is given to a stream: it reads the buffer's pages, and writes to it.
  uint8_t* attend(const FetchedPages& pages, const Staging& staging, const Link& link);
  // Of a square that is larger than a buffer, between one group of its ranges and the next, on that stream: takes back
  // the pages of the group before with new tokens, and brings those of this one.
  void next(const FetchedPages& pages, size_t group, size_t layer, const Staging& staging, Link& link);

 private:
  // Those in host memory, or those in staging memory.
  void bring(const FetchedGroup& group, size_t layer, const Staging& staging, Link& link);
  void bringStaged(const FetchedGroup& group, const Staging& staging, Link& link);
  void takeBack(const FetchedGroup& group, size_t layer, const Staging& staging, Link& link);
  // A page of the pool that the device reads and writes where it is.
  bool isPinned(int32_t home) const { return home >= 0 && pin_.pinned(); }
  uint8_t* homeOf(int32_t home, size_t layer, const Staging& staging) const {
    return home < 0 ? staging.place(home) : hostPages_.page(layer, static_cast<size_t>(home));
  }
  uint8_t* memory(const Staging& staging) const {
    return buffers_ + static_cast<size_t>(staging.buffer) * bufferBytes_;
  }

  const CacheMemory& hostPages_;
  const HostPin& pin_;
  size_t pageBytes_, bufferBytes_, bytes_;
  uint8_t* buffers_ = nullptr;
  BufferOrder order_{"cache buffer"};
  uint32_t count_;
  PagesFirst* first_ = nullptr;
  std::optional<Link> up_, down_;
};

}  // namespace spillway
