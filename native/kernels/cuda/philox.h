// The random numbers of kernels/cpu/Philox.h, for a kernel.
#pragma once
#include "gpu.h"

namespace spillway::cuda {

// In [0, 1), for a row's seed and a position.
__device__ __forceinline__ double uniformOnDevice(uint32_t seed, uint32_t position) {
  uint32_t counter[4] = {position, 0, 0, 0}, key0 = seed, key1 = 0;
  for (int round = 0; round < 10; round++) {
    const uint32_t highA = __umulhi(0xD2511F53u, counter[0]), lowA = 0xD2511F53u * counter[0];
    const uint32_t highB = __umulhi(0xCD9E8D57u, counter[2]), lowB = 0xCD9E8D57u * counter[2];
    counter[0] = highB ^ counter[1] ^ key0;
    counter[1] = lowB;
    counter[2] = highA ^ counter[3] ^ key1;
    counter[3] = lowA;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  const uint64_t bits = (static_cast<uint64_t>(counter[0]) << 32 | counter[1]) >> 11;
  return static_cast<double>(bits) * (1.0 / 9007199254740992.0);
}

}  // namespace spillway::cuda
