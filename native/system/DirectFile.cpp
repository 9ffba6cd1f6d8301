#include "DirectFile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "Error.h"
#include "IoQueue.h"
#include "Transfer.h"
#include "diskSystem.h"
#include "environmentFaults.h"

namespace spillway {

namespace {

constexpr unsigned kMostDepth = 1024;
constexpr size_t kMostRequestBytes = size_t{1} << 30;  // Linux moves at most 2 GiB a call

void check(const DirectOptions& options) {
  if (options.depth < 1 || options.depth > kMostDepth) {
    throw Error(ErrorCode::InvalidArgument,
                "depth: found " + std::to_string(options.depth) + ", expected 1 to " + std::to_string(kMostDepth));
  }
  if (options.requestBytes == 0 || options.requestBytes % DirectFile::kAlignment != 0 ||
      options.requestBytes > kMostRequestBytes) {
    throw Error(ErrorCode::InvalidArgument, "requestBytes: found " + std::to_string(options.requestBytes) +
                                                ", expected a multiple of " + std::to_string(DirectFile::kAlignment) +
                                                " of at most " + std::to_string(kMostRequestBytes));
  }
}

void checkAligned(const char* name, uint64_t value, size_t alignment = DirectFile::kAlignment) {
  if (value % alignment == 0) return;
  throw Error(ErrorCode::InvalidArgument, std::string(name) + ": found " + std::to_string(value) +
                                              ", expected a multiple of " + std::to_string(alignment));
}

void check(const DirectFile::ReadRange& range, bool writing, size_t alignment = DirectFile::kAlignment) {
  checkAligned("offset", range.offset, alignment);
  checkAligned(writing ? "source" : "destination", reinterpret_cast<uintptr_t>(range.destination), alignment);
  if (writing) checkAligned("bytes", range.bytes);
  constexpr uint64_t kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (range.offset > kMost || range.bytes > kMost - range.offset) {
    throw Error(ErrorCode::InvalidArgument, "offset: found " + std::to_string(range.offset) + " with " +
                                                std::to_string(range.bytes) + " bytes, expected less than 2^63 in all");
  }
}

int injected(DiskFaults* faults, DiskOperation operation, size_t bytes = 0) {
  const int64_t fault = faults == nullptr ? 0 : faults->before(operation, 0, bytes);
  return fault < 0 ? static_cast<int>(-fault) : 0;
}

}  // namespace

// A queue of requests for the time of one call.
struct DirectFile::Lease {
  explicit Lease(DirectFile& from) : file(from) {
    {
      std::lock_guard<std::mutex> lock(file.mutex_);
      if (!file.idle_.empty()) {
        queue = std::move(file.idle_.back());
        file.idle_.pop_back();
        return;
      }
    }
    queue = makeIoQueue(file.options_.backend, file.options_.depth, file.options_.faults);
    std::lock_guard<std::mutex> lock(file.mutex_);
    file.idle_.reserve(++file.queues_);  // so that giving it back cannot fail
  }
  ~Lease() {
    std::lock_guard<std::mutex> lock(file.mutex_);
    file.idle_.push_back(std::move(queue));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  DirectFile& file;
  std::unique_ptr<IoQueue> queue;
};

DirectFile::DirectFile(std::string path, Access access, const DirectOptions& options)
    : path_(std::move(path)), options_(options) {
  check(options_);
  if (options_.faults == nullptr) {
    ownFaults_ = environmentFaults(path_);
    options_.faults = ownFaults_.get();
  }
  open(access);
  try {
    if (options_.direct) direct_ = disk::setDirect(descriptor_, true) == 0;
    if (direct()) blockBytes_ = disk::directBlock(descriptor_, kAlignment);
    if (!direct()) disk::readNothingAhead(descriptor_);
    options_.backend = environmentBackend(options_.backend);
    // Through the page cache io_uring brings nothing: reads are as fast by threads, and writes faster (two to three
    // times, measured on ext4).
    if (options_.backend == IoBackend::Auto && !direct()) options_.backend = IoBackend::Threads;
    backend_ = Lease(*this).queue->backend();
  } catch (...) {
    if (access == Access::Create) ::unlink(path_.c_str());
    ::close(descriptor_);
    throw;
  }
}

DirectFile::~DirectFile() {
  if (!direct()) disk::dropFromCache(descriptor_, 0, 0);
  ::close(descriptor_);
}

void DirectFile::open(Access access) {
  const char* const expected = access == Access::Read     ? "a file that can be read"
                               : access == Access::Create ? "a file that can be created"
                                                          : "a file that can be read and written";
  if (path_.find('\0') != std::string::npos)
    throw FileError(path_.substr(0, path_.find('\0')), "path", "a zero byte in it", "a path");
  // Non-blocking, so that a FIFO does not hang us; O_DIRECT comes later, since open() may create the file before it
  // refuses the flag. What is written to is never somewhere else: in a folder that others write to a link might lead to
  // a file of the user's.
  const int flags = O_CLOEXEC | O_NONBLOCK | (access == Access::Read ? O_RDONLY : O_RDWR | O_NOFOLLOW) |
                    (access == Access::Create ? O_CREAT | O_EXCL : 0);
  int error = injected(options_.faults, DiskOperation::Open);
  while (error == 0 && descriptor_ < 0) {
    descriptor_ = ::open(path_.c_str(), flags, 0600);
    if (descriptor_ < 0 && errno != EINTR) error = errno;
  }
  if (error != 0) throw FileError(path_, "file", std::strerror(error), expected);
  struct stat facts{};
  if (fstat(descriptor_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(descriptor_);
    throw FileError(path_, "file", S_ISDIR(facts.st_mode) ? "a folder" : "something that is not a regular file",
                    "a regular file");
  }
  // io_uring takes the flag at its word, also for regular files.
  const int current = fcntl(descriptor_, F_GETFL);
  if (current < 0 || fcntl(descriptor_, F_SETFL, current & ~O_NONBLOCK) != 0) {
    const int reason = errno;
    ::close(descriptor_);
    throw FileError(path_, "file", std::strerror(reason), expected);
  }
  size_ = static_cast<uint64_t>(facts.st_size);
}

void DirectFile::read(uint64_t offset, size_t bytes, void* destination, const std::string& what) {
  const ReadRange range{offset, bytes, destination};
  transfer(false, &range, 1, what);
}

void DirectFile::read(const ReadRange* ranges, size_t count, const std::string& what) {
  transfer(false, ranges, count, what);
}

void DirectFile::read(uint64_t offset, uint64_t bytes, const Pieces& pieces, const std::string& what) {
  checkAligned("pieces.bytes", pieces.bytes);
  if (pieces.bytes == 0) throw Error(ErrorCode::InvalidArgument, "pieces.bytes: found 0, expected 1 or more");
  check({offset, bytes, nullptr}, false);
  std::vector<ReadRange> ranges;
  ranges.reserve(bytes / pieces.bytes + 1);
  for (uint64_t at = 0; at < bytes; at += pieces.bytes)
    ranges.push_back({offset + at, static_cast<size_t>(std::min(pieces.bytes, bytes - at)), nullptr});
  Pieces checked = pieces;
  checked.next = [&](uint64_t at, bool wait) {
    uint8_t* memory = pieces.next(at, wait);
    if (memory == nullptr && wait)
      throw Error(ErrorCode::InvalidArgument, "pieces.next: found no memory, expected some: no piece is under way");
    checkAligned("pieces.next", reinterpret_cast<uintptr_t>(memory));
    return memory;
  };
  transfer(false, ranges.data(), ranges.size(), what, &checked);
}

void DirectFile::write(uint64_t offset, size_t bytes, const void* source, const std::string& what) {
  const ReadRange range{offset, bytes, const_cast<void*>(source)};
  transfer(true, &range, 1, what);
}

void DirectFile::write(const WriteRange* ranges, size_t count, const std::string& what) {
  std::vector<ReadRange> same;
  same.reserve(count);
  for (size_t i = 0; i < count; i++)
    same.push_back({ranges[i].offset, ranges[i].bytes, const_cast<void*>(ranges[i].source)});
  transfer(true, same.data(), count, what);
}

void DirectFile::transfer(bool writing, const ReadRange* ranges, size_t count, const std::string& what,
                          const Pieces* pieces) {
  for (size_t i = 0; i < count; i++) check(ranges[i], writing, writing ? kAlignment : blockBytes_);
  Lease lease(*this);
  const Transfer::Failure failure =
      Transfer({descriptor_, writing, direct_, options_, blockBytes_}, *lease.queue, ranges, count, pieces).run();
  if (failure.failed) {
    const ReadRange& range = ranges[failure.range];
    const std::string expected = std::to_string(range.bytes) + (writing ? " bytes written" : " bytes");
    if (failure.error != 0)
      throwAt(range.offset, what,
              std::string(std::strerror(failure.error)) + " at offset " + std::to_string(failure.offset), expected);
    // Other requests may have met the end first, further on.
    struct stat facts{};
    uint64_t end = failure.offset;
    if (fstat(descriptor_, &facts) == 0) end = std::min(end, static_cast<uint64_t>(facts.st_size));
    throwAt(range.offset, what, std::to_string(end - std::min(end, range.offset)) + " bytes", expected);
  }
  if (writing) afterWrite(ranges, count, what);
  if (options_.traffic != nullptr) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) bytes += ranges[i].bytes;
    (writing ? options_.traffic->written : options_.traffic->read).fetch_add(bytes, std::memory_order_relaxed);
  }
  if (writing || direct()) return;
  // Requests dropped their own pages; what the system read ahead, or keeps in units larger than a request, goes now.
  for (size_t i = 0; i < count; i++) {
    if (ranges[i].bytes != 0) disk::dropFromCache(descriptor_, ranges[i].offset, DirectFile::aligned(ranges[i].bytes));
  }
}

void DirectFile::afterWrite(const ReadRange* ranges, size_t count, const std::string& what) {
  for (size_t i = 0; i < count; i++) {
    const ReadRange& range = ranges[i];
    if (range.bytes == 0) continue;
    if (!direct()) {
      // Only what is on the disk can leave the page cache.
      const int error = disk::flushRange(descriptor_, range.offset, range.bytes);
      if (error != 0) throwAt(range.offset, what, std::strerror(error), std::to_string(range.bytes) + " bytes written");
      disk::dropFromCache(descriptor_, range.offset, range.bytes);
    }
    growTo(range.offset + range.bytes);
  }
}

void DirectFile::growTo(uint64_t bytes) {
  uint64_t size = size_.load();
  while (size < bytes && !size_.compare_exchange_weak(size, bytes)) {}
}

void DirectFile::allocate(uint64_t bytes) {
  if (bytes == 0) return;
  int error = injected(options_.faults, DiskOperation::Allocate, static_cast<size_t>(bytes));
  if (error == 0)
    error =
        bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ? EFBIG : disk::reserve(descriptor_, bytes);
  if (error != 0)
    throw FileError(path_, "reservation", std::strerror(error), std::to_string(bytes) + " bytes of free space");
  growTo(bytes);
}

void DirectFile::sync() {
  int error = injected(options_.faults, DiskOperation::Sync);
  if (error == 0) error = disk::sync(descriptor_);
  if (error != 0) throw FileError(path_, "sync", std::strerror(error), "all data on the disk");
}

void DirectFile::throwAt(uint64_t offset, const std::string& what, const std::string& found,
                         const std::string& expected) const {
  throw FileError(path_, (what.empty() ? "" : what + " ") + "at offset " + std::to_string(offset), found, expected);
}

}  // namespace spillway
