#include "Devices.h"

#include "gpu.h"

namespace spillway::cuda {

std::vector<Gpu> listGpus() {
  std::vector<Gpu> gpus;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();  // told once; a later launch is not to blame for it
    return gpus;
  }
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess) cudaGetLastError();
  for (int device = 0; device < count; device++) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    gpus.push_back({properties.name, properties.totalGlobalMem, properties.major, properties.minor,
                    properties.multiProcessorCount, driver});
  }
  return gpus;
}

}  // namespace spillway::cuda
