#include "IoRing.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "DirectFile.h"
#include "Error.h"

#if defined(__linux__) && defined(__has_include)
#if __has_include(<linux/io_uring.h>)
#define SPILLWAY_HAS_IO_URING 1
#endif
#endif

#ifdef SPILLWAY_HAS_IO_URING
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

// The same numbers on every architecture that has io_uring; old headers of the C library lack them.
#ifndef __NR_io_uring_setup
#define __NR_io_uring_setup 425
#endif
#ifndef __NR_io_uring_enter
#define __NR_io_uring_enter 426
#endif

namespace spillway {

namespace {

[[noreturn]] void refuse(const char* what, int error) {
  throw Error(ErrorCode::File, std::string("io_uring: found \"") + std::strerror(error) + "\" from " + what +
                                   ", expected a working io_uring");
}

// A piece of memory that is shared with the kernel.
class Mapping {
 public:
  Mapping() = default;
  Mapping(int descriptor, uint64_t offset, size_t bytes) : bytes_(bytes) {
    void* start =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, static_cast<off_t>(offset));
    if (start == MAP_FAILED) refuse("mmap", errno);
    start_ = static_cast<uint8_t*>(start);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(start_, other.start_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping() {
    if (start_ != nullptr) munmap(start_, bytes_);
  }
  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(start_ + offset);
  }

 private:
  uint8_t* start_ = nullptr;
  size_t bytes_ = 0;
};

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

void sleepMilliseconds(long milliseconds) {
  const timespec time{0, milliseconds * 1000000};
  nanosleep(&time, nullptr);
}

// One submission entry a tag, so neither ring can overflow. The counters run freely; the mask makes them indices.
class IoRing final : public IoQueue {
 public:
  IoRing(unsigned depth, DiskFaults* faults)
      : faults_(faults),
        descriptor_(setUp(depth, faults, &facts_)),
        vectors_(depth),
        some_(std::max(1u, depth / kSome)) {
    submissions_ = Mapping(descriptor_, IORING_OFF_SQ_RING, facts_.sq_off.array + facts_.sq_entries * sizeof(uint32_t));
    completions_ =
        Mapping(descriptor_, IORING_OFF_CQ_RING, facts_.cq_off.cqes + facts_.cq_entries * sizeof(io_uring_cqe));
    entries_ = Mapping(descriptor_, IORING_OFF_SQES, facts_.sq_entries * sizeof(io_uring_sqe));
    refused_.reserve(depth);
    io_uring_sqe entry{};
    entry.opcode = IORING_OP_NOP;
    push(entry);
    const IoResult result = wait();
    if (result.result < 0) refuse("a no-operation", static_cast<int>(-result.result));
  }

  IoBackend backend() const override { return IoBackend::Ring; }

  void start(unsigned tag, const IoRequest& request) override {
    // The vectored operations are the oldest ones: every kernel with io_uring has them.
    vectors_[tag] = {request.memory, request.bytes};
    io_uring_sqe entry{};
    entry.opcode = request.writing ? IORING_OP_WRITEV : IORING_OP_READV;
    entry.fd = request.descriptor;
    entry.off = request.offset;
    entry.addr = reinterpret_cast<uint64_t>(&vectors_[tag]);
    entry.len = 1;
    entry.user_data = tag;
    push(entry);
  }

  // What the kernel does not take now, wait() offers again.
  void submit() noexcept override {
    if (pending() != 0) enter(pending(), 0);
  }

  IoResult wait() noexcept override {
    constexpr int kMostAttempts = 1000;  // a millisecond each
    for (int attempt = 0;;) {
      if (!refused_.empty()) {
        const IoResult result = refused_.back();
        refused_.pop_back();
        return result;
      }
      IoResult result{};
      const bool ready = take(&result);
      if (ready && pending() < some_) return result;
      // Submits what start() left, and waits unless there is something already.
      const int error = enter(pending(), ready ? 0 : std::max(1u, inFlight_ / kSome));
      if (error != 0 && error != EINTR) {
        const bool passing = error == EAGAIN || error == EBUSY || error == ENOMEM;
        // Requests that the kernel does not take come back failed. Those that it has will complete, however little it
        // says about them.
        if (pending() != 0 && (!passing || ++attempt > kMostAttempts)) takeBack(error);
        if (!ready) sleepMilliseconds(1);
      }
      if (ready) return result;
    }
  }

 private:
  // Of many small requests a call of the kernel would cost as much as the request: as long as so large a part of them
  // is under way, it is called for some at once.
  static constexpr unsigned kSome = 8;

  static int setUp(unsigned depth, DiskFaults* faults, io_uring_params* facts) {
    const int64_t fault = faults == nullptr ? 0 : faults->before(DiskOperation::RingSetup, 0, 0);
    if (fault < 0) refuse("io_uring_setup", static_cast<int>(-fault));
    long descriptor = -1;
#ifdef IORING_SETUP_COOP_TASKRUN
    // Whoever waits comes for the results; nobody is interrupted.
    facts->flags = IORING_SETUP_COOP_TASKRUN;
    descriptor = syscall(__NR_io_uring_setup, depth, facts);
    if (descriptor < 0) *facts = {};
#endif
    if (descriptor < 0) descriptor = syscall(__NR_io_uring_setup, depth, facts);
    if (descriptor < 0) refuse("io_uring_setup", errno);
    return static_cast<int>(descriptor);
  }

  void push(const io_uring_sqe& entry) {
    uint32_t* tail = submissions_.at<uint32_t>(facts_.sq_off.tail);
    const uint32_t index = *tail & *submissions_.at<uint32_t>(facts_.sq_off.ring_mask);
    entries_.at<io_uring_sqe>(0)[index] = entry;
    submissions_.at<uint32_t>(facts_.sq_off.array)[index] = index;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    inFlight_++;
  }

  // Entries that the kernel has not consumed.
  uint32_t pending() const {
    return *submissions_.at<uint32_t>(facts_.sq_off.tail) -
           __atomic_load_n(submissions_.at<uint32_t>(facts_.sq_off.head), __ATOMIC_ACQUIRE);
  }

  bool take(IoResult* result) {
    uint32_t* head = completions_.at<uint32_t>(facts_.cq_off.head);
    if (*head == __atomic_load_n(completions_.at<uint32_t>(facts_.cq_off.tail), __ATOMIC_ACQUIRE)) return false;
    const io_uring_cqe& entry =
        completions_.at<io_uring_cqe>(facts_.cq_off.cqes)[*head & *completions_.at<uint32_t>(facts_.cq_off.ring_mask)];
    *result = {static_cast<unsigned>(entry.user_data), entry.res};
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    inFlight_--;
    return true;
  }

  // The kernel looks at the submission ring only inside this call, so between calls the tail may be taken back.
  int enter(uint32_t submit, uint32_t complete) {
    if (faults_ != nullptr && submit != 0) {
      const int64_t fault = faults_->before(DiskOperation::RingEnter, 0, submit);
      if (fault < 0) return static_cast<int>(-fault);
    }
    const long result = syscall(__NR_io_uring_enter, static_cast<int>(descriptor_), submit, complete,
                                IORING_ENTER_GETEVENTS, nullptr, 0);
    return result < 0 ? errno : 0;
  }

  void takeBack(int error) {
    uint32_t* tail = submissions_.at<uint32_t>(facts_.sq_off.tail);
    const uint32_t head = __atomic_load_n(submissions_.at<uint32_t>(facts_.sq_off.head), __ATOMIC_ACQUIRE);
    const uint32_t mask = *submissions_.at<uint32_t>(facts_.sq_off.ring_mask);
    for (uint32_t i = head; i != *tail; i++)
      refused_.push_back({static_cast<unsigned>(entries_.at<io_uring_sqe>(0)[i & mask].user_data), -error});
    inFlight_ -= *tail - head;
    __atomic_store_n(tail, head, __ATOMIC_RELEASE);
  }

  DiskFaults* faults_;
  io_uring_params facts_{};
  Descriptor descriptor_;
  Mapping submissions_, completions_, entries_;
  std::vector<iovec> vectors_;  // by tag; older kernels read them when they carry the request out
  std::vector<IoResult> refused_;
  unsigned some_;          // requests that wait for each other, at most
  unsigned inFlight_ = 0;  // those that wait among them; not those refused
};

}  // namespace

std::unique_ptr<IoQueue> makeIoRing(unsigned depth, DiskFaults* faults) {
  return std::make_unique<IoRing>(depth, faults);
}

}  // namespace spillway

#else

namespace spillway {

std::unique_ptr<IoQueue> makeIoRing(unsigned, DiskFaults*) {
  throw Error(ErrorCode::File, "io_uring: found a system without it, expected Linux 5.1 or later");
}

}  // namespace spillway

#endif
