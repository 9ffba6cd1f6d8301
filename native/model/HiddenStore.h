// Hidden states of a slot between two layers: of however many tokens it has the first part in memory, the rest in an
// extent of the spill file.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "../system/Arena.h"
#include "../system/DirectFile.h"
#include "../system/ExtentPool.h"

namespace spillway {

class HiddenStore {
 public:
  // Of the file: tokens past the resident ones, rounded up to 4096.
  static uint64_t fileBytes(uint32_t hiddenSize, uint32_t tokens, uint32_t residentTokens);

  // extents: of the file. Throws Error(InvalidArgument), with numbers, where no free one is large enough.
  HiddenStore(uint32_t hiddenSize, uint32_t tokens, uint32_t residentTokens, std::shared_ptr<ExtentPool> extents);
  ~HiddenStore();
  HiddenStore(const HiddenStore&) = delete;
  HiddenStore& operator=(const HiddenStore&) = delete;

  uint32_t tokens() const { return tokens_; }

  // Both move the first `tokens` tokens, at most tokens(), from and to `hidden`; of what is stored the same share as of
  // all is on disk, in whole blocks of 4096 bytes. hidden: 4096-byte aligned, with room for whole
  // multiples of 4096 bytes, of which what is after the tokens may be read and written. Throw FileError, and
  // Error(InvalidArgument) for a store that does not hold so many (it holds none after a failed store()) or that
  // another task is at work on.
  void store(DirectFile* file, const uint8_t* hidden, uint32_t tokens);
  void load(DirectFile* file, uint8_t* hidden, uint32_t tokens);

 private:
  class Use;
  size_t bytesOf(uint32_t tokens) const { return size_t(tokens) * hiddenSize_ * sizeof(float); }
  size_t inMemoryOf(uint32_t tokens) const;  // bytes of so many tokens and of what is after them, whole blocks

  uint32_t hiddenSize_;
  uint32_t tokens_;
  uint32_t residentTokens_;
  uint64_t extentBytes_;
  uint64_t extent_ = 0;
  std::shared_ptr<ExtentPool> extents_;
  Arena resident_;
  std::mutex mutex_;
  bool busy_ = false;
  uint32_t held_ = 0;  // tokens
};

}  // namespace spillway
