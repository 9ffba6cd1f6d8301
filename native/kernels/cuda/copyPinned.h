// Pinned host memory to the device by a kernel that reads it, past the copy engine. That engine does what it is given
// in the order in which it is given it, of all streams together: 64 KiB wait 78 ms after 4 GiB of weights on an H200,
// in one copy as in pieces of 4 MiB (bench_cudaLink).
#pragma once
#include "gpu.h"

namespace spillway::cuda {

// `from` does not change before the stream has done it.
void copyPinned(cudaStream_t stream, const void* from, void* to, size_t bytes);

}  // namespace spillway::cuda
