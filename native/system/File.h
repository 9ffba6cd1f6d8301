// A regular file, opened for reading. Reads are positioned, so threads may share it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "FileStamp.h"

namespace spillway {

class File {
 public:
  // Throws FileError for whatever cannot be opened or is no regular file.
  explicit File(std::string path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }                       // when it was opened
  FileStamp stamp() const { return FileStamp::of(descriptor_); }  // now

  // Reads exactly `bytes`. Throws FileError for an error or an early end; `field` says in it what was being read.
  void read(uint64_t offset, void* buffer, size_t bytes, const std::string& field) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t bytes_ = 0;
};

}  // namespace spillway
