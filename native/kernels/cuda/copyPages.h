// Pages of the cache between pinned host memory and the device, either way, by a kernel that reads and writes there,
// past the copy engine: what attention waits for does not stand after weights that are under way (copyPinned.h), and
// many small pages are one launch.
#pragma once
#include "gpu.h"

namespace spillway::cuda {

struct PageCopy {
  const uint8_t* from;
  uint8_t* to;
};

// `copies` is memory that the device can read, pinned host memory included; it and the pages do not change before the
// stream has done it, but for places of tokens in the page that what reads the copy does not look at. pageBytes: a
// multiple of 16, as are all addresses. No page of these is written and read.
void copyPages(cudaStream_t stream, const PageCopy* copies, size_t count, size_t pageBytes);

}  // namespace spillway::cuda
