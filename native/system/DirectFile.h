// A file whose pages do not pass through, or at least do not stay in, the page cache: for weights and KV pages that
// stream from disk. Opened with O_DIRECT where the file system allows it; elsewhere pages are dropped from the cache
// after use. One call moves its data with several requests in flight: by io_uring, or by a few threads where the system
// forbids io_uring.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "DiskFaults.h"
#include "DiskTraffic.h"

namespace spillway {

class IoQueue;

enum class IoBackend { Auto, Ring, Threads };
const char* ioBackendName(IoBackend backend);  // "auto", "ring", "threads"

struct DirectOptions {
  // Auto: the environment's SPILLWAY_DISK_BACKEND (ring, threads) if set, else io_uring where it and O_DIRECT work,
  // else threads. Ring where io_uring does not work: Error(File) with the reason.
  IoBackend backend = IoBackend::Auto;
  bool direct = true;                     // false: never O_DIRECT
  size_t requestBytes = size_t{1} << 20;  // of one request; a multiple of kAlignment
  unsigned depth = 8;                     // requests in flight; at least 1
  DiskFaults* faults =
      nullptr;  // tests only; must outlive the file. Null: what the environment says (environmentFaults.h)
  DiskTraffic* traffic = nullptr;  // counts what is moved; must outlive the file
};

class DirectFile {
 public:
  static constexpr size_t kAlignment = 4096;
  static constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  enum class Access {
    Read,       // an existing regular file
    ReadWrite,  // the same, for reading and writing
    Create,     // a new file (mode 0600) for reading and writing; FileError where the name is taken
  };

  // Throws FileError for what cannot be opened or is no regular file.
  explicit DirectFile(std::string path, Access access = Access::Read, const DirectOptions& options = {});
  ~DirectFile();
  DirectFile(DirectFile&&) = delete;
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const {
    return size_.load(std::memory_order_relaxed);
  }  // bytes when opened, or after allocate() and writes past the end
  bool direct() const { return direct_.load(std::memory_order_relaxed); }  // O_DIRECT is in use
  // The disk reads whole blocks of so many bytes, at most kAlignment.
  size_t blockBytes() const { return blockBytes_; }
  IoBackend backend() const { return backend_; }  // Ring or Threads
  int descriptor() const { return descriptor_; }  // for flock() and the like

  // All of the following block, may be called from several threads at once (each call has its own requests), and return
  // or throw only when no request is in flight any more. `what` says in errors what was being moved ("layer 3").

  // Reads exactly `bytes`, and touches nothing past destination + bytes. offset and destination: multiples of
  // blockBytes(); bytes: any number, best a multiple. Throws FileError("path: WHAT at offset O: found N bytes, expected
  // M bytes") where the file ends earlier (destination is undefined then), FileError with the system's text for EIO and
  // the like, Error(InvalidArgument) for crooked arguments.
  void read(uint64_t offset, size_t bytes, void* destination, const std::string& what = {});
  // Writes at an offset below or beyond the end. offset, bytes and source: multiples of kAlignment. Errors as above
  // (ENOSPC: FileError). Data is on the disk only after sync().
  void write(uint64_t offset, size_t bytes, const void* source, const std::string& what = {});

  // Several ranges with the requests in flight at once, for small scattered pages; each as above. Ranges must not
  // overlap.
  struct ReadRange {
    uint64_t offset;
    size_t bytes;
    void* destination;
  };
  struct WriteRange {
    uint64_t offset;
    size_t bytes;
    const void* source;
  };
  void read(const ReadRange* ranges, size_t count, const std::string& what = {});
  void write(const WriteRange* ranges, size_t count, const std::string& what = {});

  // What is too large for the memory there is, or is worked on while more of it comes: pieces of `bytes` each (of the
  // last: what is left), one after the other, with the requests in flight across their borders. The disk has something
  // to do all the time as long as there is memory for the next piece.
  struct Pieces {
    uint64_t bytes;  // a multiple of kAlignment
    // Memory for the piece that begins so far after the first one. Null: there is none until a piece more has been
    // handed over, or for the moment. `wait`: no other piece is under way, and null is refused.
    std::function<uint8_t*(uint64_t at, bool wait)> next;
    // The piece has been read. In order; those after it may be under way.
    std::function<void(uint64_t at, uint8_t* data, size_t bytes)> full;
    // Before every request; throws to give up.
    std::function<void()> check;
  };
  // As above; what the functions throw goes through. Where a piece cannot be read those before it have been handed
  // over.
  void read(uint64_t offset, uint64_t bytes, const Pieces& pieces, const std::string& what = {});

  // Makes the file `bytes` long and reserves its blocks, so that later writes inside cannot run out of space (file
  // systems that cannot reserve only get the length). Never shortens. Throws FileError (ENOSPC and the like).
  void allocate(uint64_t bytes);
  void sync();  // data and size are on the disk; throws FileError

 private:
  struct Lease;
  void open(Access access);
  void transfer(bool writing, const ReadRange* ranges, size_t count, const std::string& what,
                const Pieces* pieces = nullptr);
  void afterWrite(const ReadRange* ranges, size_t count, const std::string& what);
  void growTo(uint64_t bytes);
  [[noreturn]] void throwAt(uint64_t offset, const std::string& what, const std::string& found,
                            const std::string& expected) const;

  std::string path_;
  std::unique_ptr<DiskFaults> ownFaults_;
  DirectOptions options_;
  int descriptor_ = -1;
  std::atomic<uint64_t> size_{0};
  std::atomic<bool> direct_{false};
  size_t blockBytes_ = kAlignment;
  IoBackend backend_ = IoBackend::Auto;
  std::mutex mutex_;
  std::vector<std::unique_ptr<IoQueue>> idle_;  // those that no call uses now
  size_t queues_ = 0;                           // in all: as many as there were calls at the same time
};

}  // namespace spillway
