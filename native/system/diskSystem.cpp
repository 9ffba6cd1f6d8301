#include "diskSystem.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace spillway::disk {

namespace {

template <typename Call>
int untilDone(Call call) {
  int result;
  do {
    result = call();
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

// A system without reservations gives the length alone.
int extend(int descriptor, uint64_t bytes) {
  struct stat facts{};
  if (fstat(descriptor, &facts) != 0) return errno;
  if (static_cast<uint64_t>(facts.st_size) >= bytes) return 0;
  return untilDone([&] { return ftruncate(descriptor, static_cast<off_t>(bytes)); });
}

}  // namespace

int setDirect(int descriptor, bool direct) {
#ifdef __APPLE__
  return untilDone([&] { return fcntl(descriptor, F_NOCACHE, direct ? 1 : 0) == -1 ? -1 : 0; });
#elif defined(O_DIRECT)
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0) return errno;
  return untilDone([&] { return fcntl(descriptor, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT); });
#else
  (void)descriptor;
  return direct ? EINVAL : 0;
#endif
}

size_t directBlock(int descriptor, size_t most) {
#ifdef STATX_DIOALIGN
  struct statx facts{};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) != 0 || (facts.stx_mask & STATX_DIOALIGN) == 0)
    return most;
  constexpr size_t kLeast = 512;
  const size_t block = std::max({kLeast, size_t{facts.stx_dio_offset_align}, size_t{facts.stx_dio_mem_align}});
  // 0: the file takes no direct requests.
  return facts.stx_dio_offset_align != 0 && block <= most && most % block == 0 ? block : most;
#else
  (void)descriptor;
  return most;
#endif
}

void readNothingAhead(int descriptor) {
#ifdef POSIX_FADV_RANDOM
  // Reading ahead also makes units of many pages, which leave the cache only as a whole.
  (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_RANDOM);
#elif defined(__APPLE__)
  (void)fcntl(descriptor, F_RDAHEAD, 0);
#else
  (void)descriptor;
#endif
}

void dropFromCache(int descriptor, uint64_t offset, uint64_t bytes) {
#ifdef POSIX_FADV_DONTNEED
  (void)posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_DONTNEED);
#else
  (void)descriptor, (void)offset, (void)bytes;
#endif
}

int flushRange(int descriptor, uint64_t offset, uint64_t bytes) {
#ifdef __linux__
  const int error = untilDone([&] {
    return sync_file_range(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  });
  return error == EINVAL || error == ENOSYS || error == ESPIPE || error == EOPNOTSUPP ? 0 : error;
#else
  (void)descriptor, (void)offset, (void)bytes;
  return 0;
#endif
}

int reserve(int descriptor, uint64_t bytes) {
#ifdef __linux__
  // Not posix_fallocate: where the file system cannot, the C library would write a byte into every block.
  const int error = untilDone([&] { return fallocate(descriptor, 0, 0, static_cast<off_t>(bytes)); });
  return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL ? extend(descriptor, bytes) : error;
#elif defined(__APPLE__)
  fstore_t store{};
  store.fst_flags = F_ALLOCATEALL;
  store.fst_posmode = F_PEOFPOSMODE;
  struct stat facts{};
  if (fstat(descriptor, &facts) != 0) return errno;
  if (static_cast<uint64_t>(facts.st_size) >= bytes) return 0;
  store.fst_length = static_cast<off_t>(bytes) - facts.st_size;
  const int error = untilDone([&] { return fcntl(descriptor, F_PREALLOCATE, &store) == -1 ? -1 : 0; });
  return error == ENOSPC ? error : extend(descriptor, bytes);
#else
  return extend(descriptor, bytes);
#endif
}

int sync(int descriptor) {
#ifdef __APPLE__
  // fsync leaves data in the drive's cache there.
  if (untilDone([&] { return fcntl(descriptor, F_FULLFSYNC) == -1 ? -1 : 0; }) == 0) return 0;
#endif
  return untilDone([&] { return fsync(descriptor); });
}

int syncFolder(const std::string& folder) {
  int descriptor;
  do {
    descriptor = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return errno;
  const int error = sync(descriptor);
  ::close(descriptor);
  return error == EINVAL || error == ENOTSUP ? 0 : error;  // a file system that has nothing to do there
}

std::string folderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace spillway::disk
