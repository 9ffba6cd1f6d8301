#include "DirectWriter.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "Error.h"
#include "diskSystem.h"

namespace spillway {

namespace {

// False where another process has the lock. File systems that know no locks count as free.
bool lock(int descriptor) {
  int result;
  do {
    result = flock(descriptor, LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno != EWOULDBLOCK;
}

bool isStillNamed(int descriptor, const std::string& path) {
  struct stat open{}, named{};
  return fstat(descriptor, &open) == 0 && stat(path.c_str(), &named) == 0 && open.st_dev == named.st_dev &&
         open.st_ino == named.st_ino;
}

bool exists(const std::string& path) {
  struct stat facts{};
  return lstat(path.c_str(), &facts) == 0;
}

}  // namespace

DirectWriter::DirectWriter(std::string path, uint64_t bytes, Leftover leftover, const DirectOptions& options)
    : path_(std::move(path)), options_(options) {
  open(leftover, bytes);
  if (resumed_) return;
  try {
    file_->allocate(bytes);
  } catch (...) {
    ::unlink(file_->path().c_str());
    throw;
  }
}

// Other processes may do the same at the same time: they may remove the file that was just found, or finish it and give
// it its name.
void DirectWriter::open(Leftover leftover, uint64_t bytes) {
  const std::string temporary = temporaryPath(path_);
  constexpr int kMostAttempts = 100;
  for (int attempt = 0; attempt < kMostAttempts; attempt++) {
    const bool found = exists(temporary);
    try {
      file_ = std::make_unique<DirectFile>(
          temporary, found ? DirectFile::Access::ReadWrite : DirectFile::Access::Create, options_);
    } catch (const FileError&) {
      if (exists(temporary) != found) continue;
      throw;
    }
    if (!lock(file_->descriptor()))
      throw FileError(temporary, "file", "another process that is writing it", "a file that nobody writes",
                      ErrorCode::Busy);
    if (!isStillNamed(file_->descriptor(), temporary)) continue;
    if (!found) return;
    if (leftover == Leftover::Resume && file_->size() == bytes) {
      resumed_ = true;
      return;
    }
    if (::unlink(temporary.c_str()) != 0 && errno != ENOENT)
      throw FileError(temporary, "file", std::strerror(errno), "a file that can be removed");
  }
  throw FileError(temporary, "file", "a file that appears and disappears", "a file that nobody else writes");
}

DirectWriter::~DirectWriter() {
  if (file_ != nullptr && !committed_ && !keep_) ::unlink(file_->path().c_str());
}

void DirectWriter::commit() {
  file_->sync();
  const int64_t fault = options_.faults == nullptr ? 0 : options_.faults->before(DiskOperation::Rename, 0, 0);
  const int renamed = fault < 0                                                ? static_cast<int>(-fault)
                      : std::rename(file_->path().c_str(), path_.c_str()) == 0 ? 0
                                                                               : errno;
  if (renamed != 0) throw FileError(path_, "rename", std::strerror(renamed), "the finished file under its name");
  committed_ = true;
  file_.reset();
  const int64_t folderFault = options_.faults == nullptr ? 0 : options_.faults->before(DiskOperation::Sync, 0, 0);
  const int synced = folderFault < 0 ? static_cast<int>(-folderFault) : disk::syncFolder(disk::folderOf(path_));
  if (synced != 0) throw FileError(disk::folderOf(path_), "sync", std::strerror(synced), "the file's name on the disk");
}

}  // namespace spillway
