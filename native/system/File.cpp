#include "File.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "Error.h"

namespace spillway {

File::File(std::string path) : path_(std::move(path)) {
  if (path_.find('\0') != std::string::npos)
    throw FileError(path_.substr(0, path_.find('\0')), "path", "a zero byte in it", "a path");
  do {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // non-blocking: a FIFO must not hang us
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) throw FileError(path_, "file", std::strerror(errno), "a file that can be read");
  struct stat facts{};
  if (fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(descriptor_);
    throw FileError(path_, "file", S_ISDIR(facts.st_mode) ? "a folder" : "something that is not a regular file",
                    "a regular file");
  }
  bytes_ = static_cast<uint64_t>(facts.st_size);
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)), bytes_(other.bytes_) {}

void File::read(uint64_t offset, void* buffer, size_t bytes, const std::string& field) const {
  char* target = static_cast<char*>(buffer);
  while (bytes > 0) {
    constexpr size_t kMostAtOnce = size_t(1) << 30;  // Linux moves at most 2 GiB a call
    const ssize_t got = ::pread(descriptor_, target, std::min(bytes, kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      throw FileError(path_, field, std::string(std::strerror(errno)) + " at offset " + std::to_string(offset),
                      "readable data");
    }
    if (got == 0)
      throw FileError(path_, field, "the file's end at offset " + std::to_string(offset),
                      std::to_string(bytes) + " bytes more");
    target += got;
    offset += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
}

}  // namespace spillway
