// What only the race detector finds. Part of cuda_race_tests alone.
#include "fixture.h"
#include "plantedKernels.h"

namespace spillway::cuda {
namespace {

// No order of threads shows it.
TEST(EmulatorRaces, AnIncrementThatIsNotAtomicIsFound) {
  const DeviceArray<float> y(std::vector<float>(64, 0.0f));
  meet(testStream(), Mistake::None, y.get());
  EXPECT_NO_THROW(check(cudaStreamSynchronize(testStream()), "synchronize"));
  EXPECT_TRUE(emulator::detectsRaces());
  meet(testStream(), Mistake::PlainIncrement, y.get());
  try {
    cudaStreamSynchronize(testStream());
    FAIL() << "the race was not found";
  } catch (const emulator::KernelError& error) {
    EXPECT_NE(std::string(error.what()).find("a race: "), std::string::npos) << error.what();
  }
  emulator::abandonStreams();
}

}  // namespace
}  // namespace spillway::cuda
