// What the system says of an open file that another file does not have, and that changes with every write to it.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <string>

namespace spillway {

struct FileStamp {
  uint64_t device = 0, inode = 0;
  int64_t bytes = -1;
  // In nanoseconds since 1970, modulo 2^64: of its contents, which programs can set, and of whatever is known of it,
  // which they cannot.
  int64_t modified = 0, changed = 0;

  // Of a file that the system says nothing about it stays as above.
  static FileStamp of(int descriptor) {
    struct stat facts{};
    if (fstat(descriptor, &facts) != 0) return {};
#ifdef __APPLE__
    const timespec modified = facts.st_mtimespec, changed = facts.st_ctimespec;
#else
    const timespec modified = facts.st_mtim, changed = facts.st_ctim;
#endif
    return {uint64_t(facts.st_dev), uint64_t(facts.st_ino), facts.st_size, nanoseconds(modified), nanoseconds(changed)};
  }

  bool known() const { return bytes >= 0; }
  // As src/model/identity/FileStamp.ts writes it.
  std::string text() const {
    const auto next = [](auto number) { return ":" + std::to_string(number); };
    return std::to_string(device) + next(inode) + next(bytes) + next(modified) + next(changed);
  }
  bool operator==(const FileStamp& other) const {
    return device == other.device && inode == other.inode && bytes == other.bytes && modified == other.modified &&
           changed == other.changed;
  }

 private:
  static int64_t nanoseconds(const timespec& time) {
    return static_cast<int64_t>(static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec));
  }
};

}  // namespace spillway
