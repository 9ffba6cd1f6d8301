// What tests put between the disk classes and the system, so that every error path can be walked without a broken disk.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spillway {

enum class DiskOperation {
  Open,      // offset and bytes 0
  Read,      // one request, not one call of DirectFile::read
  Write,     // the same
  Allocate,  // bytes: the file's size
  Sync,      // a file or its folder
  Rename,
  RingSetup,  // io_uring_setup
  RingEnter,  // io_uring_enter, to submit; bytes: requests
};

class DiskFaults {
 public:
  virtual ~DiskFaults() = default;
  // Called before each operation, by any thread, also by several at once; must not throw.
  // 0: goes on. Negative: the operation is not carried out and fails with that -errno. Positive: a read or write
  // reports at most so many bytes. DiskFaults::kEnd: a read finds the file's end.
  virtual int64_t before(DiskOperation operation, uint64_t offset, size_t bytes) = 0;

  // Called after a read request that went well, with what was read; must not throw. What it changes is what the reader
  // gets.
  virtual void afterRead(uint64_t offset, uint8_t* memory, size_t bytes) { (void)offset, (void)memory, (void)bytes; }

  static constexpr int64_t kEnd = INT64_MIN;
};

}  // namespace spillway
