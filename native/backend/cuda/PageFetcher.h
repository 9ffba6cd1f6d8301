// Pages of the cache that live in host memory and on disk and come to the device where it attends: buffers for those of
// a square, one after another, and two streams, so that the next square's pages come, and the last one's go back, while
// this one attends. The host's pages are pinned where they are; where the system refuses, and for pages of the disk,
// they cross through the streams' pieces.
#pragma once
#include <functional>
#include <optional>
#include <vector>

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
  PageFetcher(const GpuOptions& options, const CacheMemory& hostPages);

  // On the device.
  size_t bytes() const { return bytes_; }
  // Of the host's cache, once reserved.
  size_t unpinnedBytes() const { return buffers_ == nullptr || pin_.pinned() ? 0 : hostPages_.bytes(); }
  // buffers: bytes() of device memory. makeLink(link, index) makes each of the two links.
  void reserve(uint8_t* buffers, const std::function<void(std::optional<Link>&, StreamIndex)>& makeLink);

  // Brings a square's pages to the staging's buffer. readDisk fills the staging buffer, if there are any; called when the others
  // are on their way. What staging memory is, is free again when it returns.
  void load(const FetchedPages& pages, size_t layer, const Staging& staging, const std::function<void()>& readDisk,
            Launch& launch);
  // Takes the pages with new tokens back, those for the disk to the staging buffer. Where there are such, they are there
  // when it returns.
  void store(const FetchedPages& pages, size_t layer, const Staging& staging, Launch& launch);

  // Before attention is given to a stream: it reads the buffer's pages, and writes to it.
  uint8_t* attend(const FetchedPages& pages, const Staging& staging, const Link& link);

 private:
  uint8_t* memory(const Staging& staging) const { return buffers_ + static_cast<size_t>(staging.buffer) * bufferBytes_; }

  const CacheMemory& hostPages_;
  size_t pageBytes_, bufferBytes_, bytes_;
  uint8_t* buffers_ = nullptr;
  HostPin pin_;
  BufferOrder order_{"cache buffer"};
  uint32_t count_;
  std::vector<cuda::PageCopy> copiesUp_, copiesDown_;  // each of one thread
  std::optional<Link> up_, down_;                      // end first: they use what is above
};

}  // namespace spillway
