#include "copyPinned.h"

#include <algorithm>

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;
// What is on its way at a time covers the link's latency: a microsecond or two of 60 GB/s.
constexpr unsigned kMostBlocks = 64;

template <typename Word>
__global__ void copyPinnedKernel(const Word* from, Word* to, size_t n) {
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    to[i] = from[i];
}

template <typename Word>
void copyWords(cudaStream_t stream, const void* from, void* to, size_t bytes) {
  const size_t n = bytes / sizeof(Word);
  launch("copyPinned", copyPinnedKernel<Word>, std::min(divideUp(n, kThreads), kMostBlocks), kThreads, 0, stream,
         static_cast<const Word*>(from), static_cast<Word*>(to), n);
}

}  // namespace

void copyPinned(cudaStream_t stream, const void* from, void* to, size_t bytes) {
  const size_t places = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | bytes;
  if (places % sizeof(uint4) == 0)
    copyWords<uint4>(stream, from, to, bytes);
  else if (places % sizeof(uint32_t) == 0)
    copyWords<uint32_t>(stream, from, to, bytes);
  else
    copyWords<uint8_t>(stream, from, to, bytes);
}

}  // namespace spillway::cuda
