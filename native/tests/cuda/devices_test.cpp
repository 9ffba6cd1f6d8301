// What a machine says of its GPUs.
#include "../../kernels/cuda/Devices.h"

#include "fixture.h"

namespace spillway::cuda {
namespace {

TEST(CudaDevices, AreListedAndAbsentOnesAreNoError) {
  emulator::setDevices(2);
  const std::vector<Gpu> gpus = listGpus();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "emulated GPU");
  EXPECT_EQ(gpus[0].memoryBytes, uint64_t{1} << 30);
  EXPECT_EQ(gpus[0].major, 9);
  EXPECT_EQ(gpus[0].driverVersion, 12080);
  emulator::setDevices(0);
  EXPECT_TRUE(listGpus().empty());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  emulator::setDevices(1);
}

}  // namespace
}  // namespace spillway::cuda
