#include <cstring>

#include "CpuPass.h"

namespace spillway {

void copyPages(const CpuPass& pass, size_t layer, const OfToken& copies) {
  if (!pass.batch.copies || pass.measuring) return;
  const size_t bytes = pass.cache.pageBytes();
  pass.forRows(pass.batch.ranges.size(), bytes / sizeof(float), [&](size_t r, unsigned) {
    const BatchRange& range = pass.batch.ranges[r];
    if (range.copyFrom < 0 || static_cast<uint32_t>(range.copyFrom) >= pass.cache.pages()) return;
    if (copies && !copies({static_cast<uint32_t>(r), range.firstPosition})) return;
    std::memcpy(pass.cache.page(layer, static_cast<size_t>(range.copyTo)),
                pass.cache.page(layer, static_cast<size_t>(range.copyFrom)), bytes);
  });
}

}  // namespace spillway
