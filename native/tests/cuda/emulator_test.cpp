// The emulator is what all CUDA tests rest on, so each kind of mistake that it is there for is planted here and must be
// found.
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "../../kernels/cuda/Stream.h"
#include "fixture.h"
#include "plantedKernels.h"

namespace spillway::cuda {
namespace {

using emulator::KernelError;

std::vector<float> numbers(size_t n) {
  std::vector<float> values;
  for (size_t i = 0; i < n; i++) values.push_back(static_cast<float>(i * i % 97));
  return values;
}

// What a kernel with this mistake gives, under this seed: its output, or empty where the emulator refused it.
struct Outcome {
  std::vector<float> output;
  std::string error;
};

using Planted = std::function<void(Mistake, const float*, float*)>;

Outcome outcomeOf(const Planted& kernel, Mistake mistake, size_t inputs, size_t outputs) {
  const DeviceArray<float> x(numbers(inputs)), y(std::vector<float>(outputs, 0.0f));
  Outcome outcome;
  try {
    kernel(mistake, x.get(), y.get());
    outcome.output = y.values();
  } catch (const KernelError& error) {
    outcome.error = error.what();
    emulator::abandonStreams();
  }
  return outcome;
}

bool sameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The kernel without a mistake passes under every seed, and gives one answer; with it, every seed shows a wrong result,
// and the race detector complains.
void expectFound(const Planted& kernel, Mistake mistake, size_t inputs, size_t outputs) {
  const Outcome right = outcomeOf(kernel, Mistake::None, inputs, outputs);
  ASSERT_EQ(right.error, "");
  for (const uint64_t seed : {0, 1, 2, 3, 4, 5}) {
    emulator::setSeed(seed);
    const Outcome again = outcomeOf(kernel, Mistake::None, inputs, outputs);
    EXPECT_EQ(again.error, "") << "seed " << seed;
    EXPECT_TRUE(sameBits(again.output, right.output)) << "seed " << seed;
    emulator::setSeed(seed);
    const Outcome wrong = outcomeOf(kernel, mistake, inputs, outputs);
    if (emulator::detectsRaces()) {
      EXPECT_NE(wrong.error.find("race"), std::string::npos) << "seed " << seed << ": " << wrong.error;
    } else {
      EXPECT_FALSE(sameBits(wrong.output, right.output)) << "seed " << seed;
    }
  }
  emulator::setSeed(0);
}

const Planted kReverse = [](Mistake mistake, const float* x, float* y) { reverseSum(testStream(), mistake, x, y, 2); };
const Planted kRotate = [](Mistake mistake, const float* x, float* y) { rotateWarp(testStream(), mistake, x, y); };
const Planted kTiles = [](Mistake mistake, const float* x, float* y) { tileSum(testStream(), mistake, x, y); };

TEST(Emulator, RunsWhatIsRight) {
  const std::vector<float> x = numbers(64);
  const Outcome outcome = outcomeOf(kReverse, Mistake::None, 64, 64);
  ASSERT_EQ(outcome.output.size(), 64u) << outcome.error;
  for (size_t i = 0; i < 64; i++) EXPECT_EQ(outcome.output[i], 2 * (x[i] + x[63 - i]));
  const Outcome rotated = outcomeOf(kRotate, Mistake::None, 64, 64);
  for (size_t i = 0; i < 64; i++) EXPECT_EQ(rotated.output[i], x[i / 32 * 32 + (i + 1) % 32]);
  const std::vector<float> tiles = numbers(512);
  const Outcome summed = outcomeOf(kTiles, Mistake::None, 512, 32);
  for (size_t i = 0; i < 32; i++) {
    float sum = 0;
    for (size_t tile = 0; tile < 4; tile++)
      for (size_t j = 0; j < 4; j++) sum += tiles[tile * 128 + 4 * (31 - i) + j];
    EXPECT_EQ(summed.output[i], sum);
  }
}

TEST(Emulator, FindsAMissingBarrier) { expectFound(kReverse, Mistake::NoBarrier, 64, 64); }
TEST(Emulator, FindsAMissingBarrierBeforeSharedMemoryIsReused) {
  expectFound(kReverse, Mistake::NoSecondBarrier, 64, 64);
}
TEST(Emulator, FindsAMissingWarpBarrier) { expectFound(kRotate, Mistake::NoWarpSync, 64, 64); }
TEST(Emulator, FindsACopyThatReachesOthersWithoutABarrier) {
  expectFound(kTiles, Mistake::CopyWithoutBarrier, 512, 32);
}

// What was never copied is NaN or an earlier tile; nobody races.
TEST(Emulator, FindsAMissingOrWrongWaitForCopies) {
  const Outcome right = outcomeOf(kTiles, Mistake::None, 512, 32);
  for (const Mistake mistake : {Mistake::NoCopyWait, Mistake::LateCopyWait})
    for (const uint64_t seed : {0, 1, 2, 3}) {
      emulator::setSeed(seed);
      const Outcome wrong = outcomeOf(kTiles, mistake, 512, 32);
      EXPECT_FALSE(sameBits(wrong.output, right.output)) << "seed " << seed;
    }
  emulator::setSeed(0);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(EmulatorDeathTest, StepsBeyondMemoryAreFoundByTheAddressSanitizer) {
  EXPECT_DEATH(outcomeOf(kReverse, Mistake::OffByOne, 64, 64), "heap-buffer-overflow");
  EXPECT_DEATH(outcomeOf(kReverse, Mistake::SharedOffByOne, 64, 64), "heap-buffer-overflow");
}
#endif

TEST(Emulator, RefusesThreadsThatDoNotMeet) {
  const Planted kernel = [](Mistake mistake, const float*, float* y) { meet(testStream(), mistake, y); };
  EXPECT_EQ(outcomeOf(kernel, Mistake::None, 1, 64).error, "");
  const auto expectError = [&](Mistake mistake, const char* message) {
    for (const uint64_t seed : {0, 1, 2}) {
      emulator::setSeed(seed);
      const std::string error = outcomeOf(kernel, mistake, 1, 64).error;
      EXPECT_NE(error.find(message), std::string::npos) << error;
      EXPECT_EQ(error.find("meet: block (0, 0, 0), thread "), 0u) << error;
    }
    emulator::setSeed(0);
  };
  expectError(Mistake::DivergentBarriers, "waits at the barrier in line");
  expectError(Mistake::BarrierAfterReturn, "after other threads have ended");
  expectError(Mistake::ShuffleOutsideMask, "a shuffle reads from a lane outside its mask");
  expectError(Mistake::MissingLane, "waits in a warp operation for lanes that never come");
}

// Copy in, compute, copy out on three streams, twice through one buffer: with all events every order gives the answer,
// without any one of them some do not.
struct Pipeline {
  int missingEvent;  // -1: none
  std::vector<float> run() const {
    cudaStream_t in = nullptr, compute = nullptr, out = nullptr;
    for (cudaStream_t* stream : {&in, &compute, &out})
      check(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "stream");
    std::vector<cudaEvent_t> events(4);
    for (cudaEvent_t& event : events) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
    const std::vector<float> x = numbers(128);
    std::vector<float> y(128, 0.0f);
    {
      const DeviceArray<float> input(64), output(64);
      const auto wait = [this](cudaStream_t stream, cudaEvent_t event, int number) {
        if (number != missingEvent) check(cudaStreamWaitEvent(stream, event, 0), "wait");
      };
      for (size_t half = 0; half < 2; half++) {
        if (half > 0) wait(in, events[1], 0);  // the input has been used
        check(cudaMemcpyAsync(input.get(), &x[64 * half], 256, cudaMemcpyHostToDevice, in), "copy");
        check(cudaEventRecord(events[0], in), "record");
        wait(compute, events[0], 1);
        if (half > 0) wait(compute, events[2], 2);  // the output has been fetched
        reverseSum(compute, Mistake::None, input.get(), output.get(), 1);
        check(cudaEventRecord(events[1], compute), "record");
        wait(out, events[1], 3);
        check(cudaMemcpyAsync(&y[64 * half], output.get(), 256, cudaMemcpyDeviceToHost, out), "copy");
        check(cudaEventRecord(events[2], out), "record");
      }
      check(cudaStreamSynchronize(out), "synchronize");
      check(cudaDeviceSynchronize(), "synchronize");
    }
    for (const cudaStream_t stream : {in, compute, out}) check(cudaStreamDestroy(stream), "destroy");
    for (const cudaEvent_t event : events) check(cudaEventDestroy(event), "destroy");
    return y;
  }
};

TEST(Emulator, FindsAMissingEventBetweenStreams) {
  emulator::setSeed(0);
  const std::vector<float> right = Pipeline{-1}.run();
  const std::vector<float> x = numbers(128);
  for (size_t i = 0; i < 128; i++) ASSERT_EQ(right[i], x[i] + x[i / 64 * 64 + 63 - i % 64]);
  std::vector<int> found(4);
  for (uint64_t seed = 1; seed <= 24; seed++) {
    emulator::setSeed(seed);
    ASSERT_TRUE(sameBits(Pipeline{-1}.run(), right)) << "seed " << seed;
    for (int missing = 0; missing < 4; missing++) {
      emulator::setSeed(seed);
      if (!sameBits(Pipeline{missing}.run(), right)) found[static_cast<size_t>(missing)]++;
    }
  }
  emulator::setSeed(0);
  for (size_t missing = 0; missing < 4; missing++) EXPECT_GT(found[missing], 0) << "event " << missing;
}

TEST(Emulator, EventsHoldUpStreamsThatWaitForThem) {
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  cudaStream_t other = nullptr;
  check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "stream");
  cudaEvent_t second = nullptr;
  check(cudaEventCreateWithFlags(&second, cudaEventDisableTiming), "event");
  check(cudaStreamWaitEvent(stream, second, 0), "an event that was never recorded does not hold anything up");
  check(cudaStreamSynchronize(stream), "synchronize");
  check(cudaEventRecord(event, stream), "record");
  check(cudaStreamWaitEvent(other, event, 0), "wait");
  EXPECT_EQ(cudaStreamQuery(other), cudaErrorNotReady);
  check(cudaStreamSynchronize(other), "synchronize");
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  for (const cudaStream_t each : {stream, other}) check(cudaStreamDestroy(each), "destroy");
  for (const cudaEvent_t each : {event, second}) check(cudaEventDestroy(each), "destroy");
}

TEST(Emulator, MemoryIsLimitedAndCounted) {
  const size_t before = emulator::deviceBytesInUse();
  emulator::setDeviceBytes(before + 1000);
  {
    const DeviceArray<uint8_t> array(600);
    EXPECT_EQ(emulator::deviceBytesInUse(), before + 600);
    EXPECT_EQ(array.values(), std::vector<uint8_t>(600, 0xff));
    try {
      const DeviceArray<uint8_t> more(401);
      FAIL() << "more than there is";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::Memory);
      EXPECT_STREQ(error.what(), "CUDA: cudaMalloc: out of memory");
    }
  }
  EXPECT_EQ(emulator::deviceBytesInUse(), before);
  emulator::setDeviceBytes(size_t{1} << 30);
}

TEST(Emulator, RefusesLaunchesThatNoDeviceTakes) {
  const auto nothing = [](int) {};
  void (*kernel)(int) = nothing;
  EXPECT_THROW(launch("too many threads", kernel, 1, 1025, 0, testStream(), 1), Error);
  EXPECT_THROW(launch("too much shared memory", kernel, 1, 32, 228 * 1024, testStream(), 1), Error);
  EXPECT_NO_THROW(launch("nothing to do", kernel, 0, 32, 0, testStream(), 1));
  check(cudaStreamSynchronize(testStream()), "synchronize");
}

TEST(Emulator, AnEventThatIsYetToPassIsNobodysError) {
  Stream stream;
  Event event;
  EXPECT_TRUE(event.hasPassed()) << "before it is first recorded";
  emulator::pause();
  check(cudaLaunchHostFunc(stream.get(), [](void*) {}, nullptr), "host function");
  event.record(stream.get());
  EXPECT_FALSE(event.hasPassed());
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "what the next launch of a kernel asks for";
  emulator::resume();
  event.synchronize();
  EXPECT_TRUE(event.hasPassed());
}

TEST(Emulator, StandsStillWhereItIsPaused) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  emulator::pause();
  int done = 0;
  check(cudaLaunchHostFunc(stream, [](void* at) { *static_cast<int*>(at) = 1; }, &done), "host function");
  for (int i = 0; i < 10; i++) EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  std::thread waiter([&] { check(cudaStreamSynchronize(stream), "synchronize"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(emulator::idle());
  emulator::resume();
  waiter.join();
  EXPECT_EQ(done, 1);
  check(cudaStreamDestroy(stream), "destroy");
}

TEST(Emulator, OnceItHasFailedSaysSoToEverybody) {
  const auto nothing = [](int) {};
  void (*kernel)(int) = nothing;
  emulator::breakAt(1);
  const auto run = [&] { launch("nothing", kernel, 1, 32, 0, testStream(), 1); };
  run();
  EXPECT_EQ(cudaStreamSynchronize(testStream()), cudaSuccess);
  run();  // fails while it runs
  run();
  EXPECT_EQ(cudaStreamSynchronize(testStream()), cudaErrorLaunchFailure);
  EXPECT_THROW(run(), Error);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
  EXPECT_EQ(cudaEventRecord(event, testStream()), cudaErrorLaunchFailure);
  EXPECT_EQ(cudaEventSynchronize(event), cudaErrorLaunchFailure);  // and nobody waits for ever
  emulator::breakAt(SIZE_MAX);
  EXPECT_NO_THROW(run());
  EXPECT_EQ(cudaStreamSynchronize(testStream()), cudaSuccess);
  check(cudaEventDestroy(event), "destroy");
}

}  // namespace
}  // namespace spillway::cuda
