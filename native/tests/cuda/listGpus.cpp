// How many GPUs there are, on standard output: linked as the addon is, it has to start and to answer on machines
// without a driver, too (scripts/test-cuda-compile.mjs).
#include <cstdio>

#include "../../kernels/cuda/Devices.h"

int main() {
  std::printf("%zu\n", spillway::cuda::listGpus().size());
  return 0;
}
