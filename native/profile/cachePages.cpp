#include "cachePages.h"

#include <cstring>

namespace spillway {

std::vector<const uint8_t*> fillPages(Workbench& bench, const CacheLayout& layout) {
  const size_t bytes = cachePageBytes(layout), count = bench.memoryBytes() / bytes;
  const size_t width = static_cast<size_t>(layout.kvHeads) * layout.headDim;
  uint8_t* memory = bench.memory();
  const std::vector<float> numbers = plainNumbers(2 * width * layout.pageTokens);
  std::memset(memory, 0, bytes);
  for (uint32_t token = 0; token < layout.pageTokens; token++)
    cacheStore(kernelsFor(bench.best()), layout, memory, token, &numbers[2 * token * width],
               &numbers[(2 * token + 1) * width]);
  bench.all().parallelFor(count - 1,
                          [&](size_t page, unsigned) { std::memcpy(memory + (page + 1) * bytes, memory, bytes); });
  std::vector<const uint8_t*> pages;
  for (size_t page = 0; page < count; page++) pages.push_back(memory + page * bytes);
  return pages;
}

}  // namespace spillway
