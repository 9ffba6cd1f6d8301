// Bytes that direct files really moved: the payload of the calls that succeeded. Shared by all files of a runtime.
#pragma once
#include <atomic>
#include <cstdint>

namespace spillway {

struct DiskTraffic {
  std::atomic<uint64_t> read{0};
  std::atomic<uint64_t> written{0};
};

}  // namespace spillway
