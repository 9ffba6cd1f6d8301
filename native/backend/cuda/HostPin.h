// Memory of the host that the device reads by itself, since it is pinned where it is.
#pragma once
#include <cstddef>
#include <utility>

#include "../../kernels/cuda/gpu.h"

namespace spillway {

class HostPin {
 public:
  HostPin() = default;
  // Pins what it can: where the system refuses, pinned() is false, and copies have to go through memory that is. data:
  // page-aligned.
  HostPin(void* data, size_t bytes) {
    if (bytes == 0 || cudaHostRegister(data, bytes, cudaHostRegisterDefault) == cudaSuccess)
      data_ = bytes == 0 ? nullptr : data;
    else
      cudaGetLastError();  // told once; a later call is not to blame for it
  }
  ~HostPin() {
    if (data_ != nullptr) cudaHostUnregister(data_);
  }
  HostPin(const HostPin&) = delete;
  HostPin& operator=(HostPin&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  bool pinned() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
};

}  // namespace spillway
