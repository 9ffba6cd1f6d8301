#include "CacheMemory.h"

#include <limits>
#include <string>

#include "../system/Error.h"

namespace spillway {

CacheMemory::CacheMemory(const CacheLayout& layout, uint32_t layers, uint32_t pages)
    : layout_(layout), layers_(layers), pages_(pages), pageBytes_(cachePageBytes(layout)) {
  const size_t count = size_t(layers) * pages;  // at most 2^12 x 2^32
  if (count > std::numeric_limits<size_t>::max() / 2 / pageBytes_) {
    throw Error(ErrorCode::Memory, "the KV cache: " + std::to_string(count) + " pages of " +
                                       std::to_string(pageBytes_) + " bytes are more than can be addressed");
  }
  bytes_ = count * pageBytes_;
}

}  // namespace spillway
