#include "Arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "Error.h"

namespace spillway {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t wholePages(size_t bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

void* map(size_t bytes) { return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }

// The same, beginning where a huge page does: more than is needed, less what lies before and after.
void* mapAligned(size_t bytes) {
  void* block = map(bytes + kHugePage);
  if (block == MAP_FAILED) return block;
  uint8_t* const start = static_cast<uint8_t*>(block);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(block) % kHugePage) % kHugePage;
  if (before != 0) munmap(start, before);
  munmap(start + before + bytes, kHugePage - before);
  return start + before;
}

}  // namespace

Arena::Arena(size_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePage && bytes < std::numeric_limits<size_t>::max() / 2;
  void* block = huge ? mapAligned(wholePages(bytes)) : map(bytes);
  if (block == MAP_FAILED) {
    throw Error(ErrorCode::Memory, std::string("cannot reserve ") + std::to_string(bytes) + " bytes for " + what +
                                       ": " + std::strerror(errno));
  }
  data_ = static_cast<uint8_t*>(block);
#ifdef MADV_HUGEPAGE
  // Fewer TLB misses, and direct reads that come in one piece: a disk takes up to twice as long to fill hundreds of
  // small pages that lie scattered (native/bench/disk.cpp). Only a wish: systems need not have huge pages to give.
  if (huge) madvise(block, bytes, MADV_HUGEPAGE);
#endif
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace spillway
