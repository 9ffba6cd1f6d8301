// A bump allocator over one block that is reserved up front: no allocation in the steady state.
#pragma once
#include <cstddef>

namespace spillway {

class Scratch {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  // With measure-only scratch (block = nullptr) take() returns null and only counts: the same code that uses memory
  // says how much it needs.
  Scratch(void* block, size_t bytes) : block_(static_cast<char*>(block)), bytes_(bytes) {}

  // Throws Error(Memory) past the end. Contents are not cleared.
  template <typename T>
  T* take(size_t count) {
    return static_cast<T*>(takeBytes(count * sizeof(T)));
  }
  size_t used() const { return used_; }
  size_t peak() const { return peak_; }
  void release(size_t mark) { used_ = mark; }  // back to an earlier used()

 private:
  void* takeBytes(size_t bytes);
  char* block_;
  size_t bytes_;
  size_t used_ = 0;
  size_t peak_ = 0;
};

}  // namespace spillway
