// Memory of the host that the device reads by itself, since it is pinned where it is.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "../../kernels/cuda/gpu.h"
#include "../../system/ThreadPool.h"

namespace spillway {

class HostPin {
 public:
  HostPin() = default;
  // Pins what it can: where the system refuses, pinned() is false, and copies have to go through memory that is. data:
  // page-aligned.
  HostPin(void* data, size_t bytes) {
    if (bytes == 0) return;
    if (cudaHostRegister(data, bytes, cudaHostRegisterDefault) != cudaSuccess) {
      cudaGetLastError();  // told once; a later call is not to blame for it
      return;
    }
    data_ = data;
    bytes_ = bytes;
    shareWithChildren(false);
  }
  ~HostPin() {
    if (data_ == nullptr) return;
    cudaHostUnregister(data_);
    shareWithChildren(true);
  }
  HostPin(const HostPin&) = delete;
  HostPin& operator=(HostPin&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  bool pinned() const { return data_ != nullptr; }

  // Before new memory is pinned. All threads at once: left to cudaHostRegister(), which is one, 48 GB took half a
  // minute on an H200's host, and 22 GB a second and a half so.
  // check() is called between pieces, and may throw.
  template <typename Check>
  static void makeResident(uint8_t* data, size_t bytes, ThreadPool& pool, Check check) {
#if defined(__linux__)
    constexpr size_t kPart = size_t(64) << 20;
    constexpr int kPopulateWrite =
        23;  // MADV_POPULATE_WRITE, as of Linux 5.14; older ones refuse it, and nothing is lost
    pool.parallelFor((bytes + kPart - 1) / kPart, [&](size_t part, unsigned) {
      check();
      madvise(data + part * kPart, std::min(kPart, bytes - part * kPart), kPopulateWrite);
    });
#else
    static_cast<void>(data), static_cast<void>(bytes), static_cast<void>(pool), check();
#endif
  }

 private:
  // Linux copies pinned pages when a process forks, at once and all of them: whoever starts a program beside a model of
  // 13 GB would wait seconds, and need as much memory again. A child has no use for them.
  void shareWithChildren(bool share) const {
#if defined(__linux__)
    madvise(data_, bytes_, share ? MADV_DOFORK : MADV_DONTFORK);
#else
    static_cast<void>(share);
#endif
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace spillway
