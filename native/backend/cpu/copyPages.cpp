#include <cstring>

#include "CpuPass.h"

namespace spillway {

void copyPages(const CpuPass& pass, size_t layer, const OfToken& copies) {
  if (!pass.batch.copies || pass.measuring) return;
  const size_t bytes = cachePageBytes(pass.cache.layout(layer));
  const uint32_t group = pass.cache.groups().groupOf(layer);
  pass.forRows(pass.batch.ranges.size(), bytes / sizeof(float), [&](size_t r, unsigned) {
    const BatchRange& range = pass.batch.ranges[r];
    const GroupPages& pages = pass.batch.of(r, group);
    if (pages.copyFrom < 0 || static_cast<uint32_t>(pages.copyFrom) >= pass.cache.pages()) return;
    if (copies && !copies({static_cast<uint32_t>(r), range.firstPosition})) return;
    std::memcpy(pass.cache.page(layer, static_cast<size_t>(pages.copyTo)),
                pass.cache.page(layer, static_cast<size_t>(pages.copyFrom)), bytes);
  });
}

}  // namespace spillway
