// What this machine, or the container that the process lives in, has to offer.
#pragma once
#include <cstdint>
#include <string>

namespace spillway {

struct Machine {
  unsigned processors;      // that this process may use: affinity and the cgroup's quota, rounded up
  unsigned cores;           // of these processors, those that share none: two hyperthreads are one; at most as many
  double processorSeconds;  // that it may compute in a second: that many, or the quota where that is less
  std::string processorName;
  uint64_t memoryBytes;                 // physical, or the cgroup's limit where that is lower
  uint64_t availableBytes;              // what is free of it; page cache counts as free
  uint64_t l1dBytes, l2Bytes, l3Bytes;  // 0 where unknown
};

Machine inspectMachine();

#ifdef __linux__
// What a memory cgroup leaves to its processes, by the files of its folder.
struct GroupMemory {
  uint64_t limit;      // UINT64_MAX: none
  uint64_t available;  // of it; page cache counts as free
};
GroupMemory groupMemory(const std::string& folder);
#endif

}  // namespace spillway
