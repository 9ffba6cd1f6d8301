// A large block of anonymous memory, zero until it is written, resident only where it was touched.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spillway {

class Arena {
 public:
  Arena() = default;
  // Throws Error(Memory), naming `what`, where the system refuses. Zero bytes are no block at all.
  Arena(size_t bytes, const char* what);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  uint8_t* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  uint8_t* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace spillway
