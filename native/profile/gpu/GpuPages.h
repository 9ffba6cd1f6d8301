// Pages of a KV cache on the device, rows of which each has the same number, and their tables.
#pragma once
#include <vector>

#include "../../kernels/cuda/Attention.h"
#include "../cachePages.h"
#include "GpuBench.h"

namespace spillway {

class GpuPages {
 public:
  // `rows` rows of pages for `context` tokens each, or as many rows as there is memory for, one at least.
  GpuPages(GpuBench& gpu, const CacheLayout& layout, size_t rows, uint32_t context, size_t mostBytes)
      : pagesPerRow_((context + layout.pageTokens - 1) / layout.pageTokens),
        rows_(std::max<size_t>(1, std::min(rows, mostBytes / (pagesPerRow_ * cachePageBytes(layout))))) {
    const size_t pageBytes = cachePageBytes(layout), pages = rows_ * pagesPerRow_;
    memory_ = gpu.take(pages * pageBytes, "profiling the GPU's attention");
    table_ = gpu.take(pages * sizeof(uint8_t*), "profiling the GPU's attention");
    std::vector<const uint8_t*> table;
    for (size_t page = 0; page < pages; page++) table.push_back(memory_.data() + page * pageBytes);
    gpu.link().upload(table_.data(), table.data(), pages * sizeof(uint8_t*));
  }

  size_t rows() const { return rows_; }
  const uint8_t* const* row(size_t row) const {
    return reinterpret_cast<const uint8_t* const*>(table_.data()) + row * pagesPerRow_;
  }

 private:
  size_t pagesPerRow_, rows_;
  Device::Piece memory_, table_;
};

// Something the device reads, from the host.
template <typename T>
Device::Piece onDevice(GpuBench& gpu, const std::vector<T>& values, const char* what) {
  Device::Piece piece = gpu.take(values.size() * sizeof(T), what);
  gpu.link().upload(piece.data(), values.data(), values.size() * sizeof(T));
  return piece;
}

}  // namespace spillway
