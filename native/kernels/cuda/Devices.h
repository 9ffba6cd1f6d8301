// The GPUs of this machine.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace spillway::cuda {

struct Gpu {
  std::string name;
  uint64_t memoryBytes;
  int major, minor;  // compute capability
  int multiprocessors;
  int driverVersion;  // 1000 * major + 10 * minor of the newest CUDA that the driver knows
};

#if defined(SPILLWAY_HAS_CUDA)
// In CUDA's order. None where there is no driver, an old one, or no device; never throws for want of them.
std::vector<Gpu> listGpus();
#else
inline std::vector<Gpu> listGpus() { return {}; }
#endif

}  // namespace spillway::cuda
