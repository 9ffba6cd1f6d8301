#include "Scratch.h"

#include <algorithm>
#include <string>

#include "Error.h"

namespace spillway {

void* Scratch::takeBytes(size_t bytes) {
  const size_t start = used_;
  if (block_ != nullptr && (start > bytes_ || aligned(bytes) > bytes_ - start)) {
    throw Error(ErrorCode::Memory, "scratch memory: " + std::to_string(bytes) + " bytes wanted, " +
                                       std::to_string(bytes_ - std::min(start, bytes_)) + " left of " +
                                       std::to_string(bytes_));
  }
  used_ = start + aligned(bytes);
  peak_ = std::max(peak_, used_);
  return block_ == nullptr ? nullptr : block_ + start;
}

}  // namespace spillway
