// Reads and writes that are under way at the same time, on behalf of one thread. What system calls carry them out is
// the subclass's matter.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace spillway {

class DiskFaults;
enum class IoBackend;

struct IoRequest {
  bool writing;
  int descriptor;
  uint64_t offset;
  void* memory;  // must live until the request's result was taken
  size_t bytes;  // below 2 GiB
};

struct IoResult {
  unsigned tag;
  int64_t result;  // bytes moved, perhaps fewer than asked for, or -errno
};

class IoQueue {
 public:
  // No request may be in flight: the kernel, or a thread, would go on writing into its memory.
  virtual ~IoQueue() = default;
  virtual IoBackend backend() const = 0;
  // tag: in [0, depth), and of no other request in flight. What goes wrong comes back as the request's result.
  virtual void start(unsigned tag, const IoRequest& request) = 0;
  // Sees that all that was started is under way: for whoever does something else before the next wait(), which leaves
  // some of many for later where there are results.
  virtual void submit() noexcept = 0;
  // Waits for one of the requests in flight, of which there must be one, or for some of many. Does not throw: whoever
  // has requests in flight cannot leave.
  virtual IoResult wait() noexcept = 0;
};

// What SPILLWAY_DISK_BACKEND says in place of Auto. Throws Error(InvalidArgument) for a name that there is not.
IoBackend environmentBackend(IoBackend otherwise);
// Auto falls back to threads. Ring throws Error(File) where the system refuses.
std::unique_ptr<IoQueue> makeIoQueue(IoBackend backend, unsigned depth, DiskFaults* faults);

}  // namespace spillway
