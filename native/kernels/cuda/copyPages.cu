#include "copyPages.h"

#include <algorithm>

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;
// As many as cover the link's latency, and no more: attention has the rest of the device.
constexpr unsigned kMostBlocks = 64;

// A block takes a stretch of one page, a word a thread, then the next but gridDim.x - 1.
__global__ void copyPagesKernel(const PageCopy* copies, size_t count, uint32_t words) {
  const uint32_t stretches = (words + kThreads - 1) / kThreads;
  for (size_t s = blockIdx.x; s < count * stretches; s += gridDim.x) {
    const PageCopy copy = copies[s / stretches];
    const uint32_t word = static_cast<uint32_t>(s % stretches) * kThreads + threadIdx.x;
    if (word < words) reinterpret_cast<uint4*>(copy.to)[word] = reinterpret_cast<const uint4*>(copy.from)[word];
  }
}

}  // namespace

void copyPages(cudaStream_t stream, const PageCopy* copies, size_t count, size_t pageBytes) {
  const uint32_t words = static_cast<uint32_t>(pageBytes / sizeof(uint4));
  const unsigned blocks = std::min(divideUp(count * divideUp(words, kThreads), 1), kMostBlocks);
  launch("copyPages", copyPagesKernel, blocks, kThreads, 0, stream, copies, count, words);
}

}  // namespace spillway::cuda
