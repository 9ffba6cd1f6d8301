#include "Arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "Error.h"

namespace spillway {

Arena::Arena(size_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) {
    throw Error(ErrorCode::Memory, std::string("cannot reserve ") + std::to_string(bytes) + " bytes for " + what + ": " + std::strerror(errno));
  }
  data_ = static_cast<uint8_t*>(block);
#ifdef MADV_HUGEPAGE
  // Fewer TLB misses where the system has huge pages to give; only a wish, and small blocks would grow by it.
  constexpr size_t kHugePage = size_t(2) << 20;
  if (bytes >= 4 * kHugePage) madvise(block, bytes, MADV_HUGEPAGE);
#endif
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Arena::Arena(Arena&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace spillway
