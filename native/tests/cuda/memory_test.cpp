// Pools and staged copies, with streams that run in any order that the events allow.
#include <algorithm>
#include <memory>

#include "../../kernels/cuda/StagedCopy.h"
#include "fixture.h"

namespace spillway::cuda {
namespace {

TEST(CudaMemoryPool, NeverExceedsItsCapAndSaysWhoAskedForWhat) {
  const size_t before = emulator::deviceBytesInUse();
  {
    MemoryPool pool(MemoryKind::Device, 4096 + 100);
    EXPECT_EQ(pool.capacityBytes(), 4096u);
    EXPECT_EQ(emulator::deviceBytesInUse(), before + 4096);
    const MemoryPool::Block a = pool.take(1000, testStream(), "a"), b = pool.take(1024, testStream(), "b"),
                            c = pool.take(1, testStream(), "c");
    EXPECT_EQ(a.bytes, 1024u);
    EXPECT_EQ(pool.usedBytes(), 1024u + 1024 + 256);
    pool.giveBack(a, testStream());
    for (const size_t bytes : {size_t{2048}, size_t{5000}, ~size_t{0}}) {
      try {
        pool.take(bytes, testStream(), "the KV cache");
        FAIL() << "more than there is";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::Memory);
        EXPECT_EQ(std::string(error.what()),
                  "the KV cache: asked for " + std::to_string(bytes) +
                      " bytes of GPU memory, 2816 of 4096 are free, 1792 of them in one piece");
      }
    }
    pool.giveBack(c, testStream());
    pool.giveBack(b, testStream());
    const MemoryPool::Block all = pool.take(4096, testStream(), "all, merged again");
    EXPECT_EQ(pool.peakBytes(), 4096u);
    pool.giveBack(all, testStream());
    EXPECT_EQ(pool.usedBytes(), 0u);
  }
  EXPECT_EQ(emulator::deviceBytesInUse(), before);
}

TEST(CudaMemoryPool, ThatTheDeviceDoesNotGiveIsATypedError) {
  const size_t used = emulator::deviceBytesInUse();
  emulator::setDeviceBytes(used + 1024);
  try {
    const MemoryPool pool(MemoryKind::Device, 2048);
    FAIL() << "more than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Memory);
    EXPECT_EQ(std::string(error.what()),
              "GPU memory: asked for 2048 bytes, 1024 of its " + std::to_string(used + 1024) + " bytes are free");
  }
  emulator::setDeviceBytes(size_t{1} << 30);
}

// Blocks go from stream to stream while work with them is queued. `orderly`: given back to the stream that used them,
// as they must be.
bool blocksKeepWhatIsWritten(uint64_t seed, bool orderly) {
  emulator::setSeed(seed);
  std::mt19937 random(static_cast<unsigned>(seed));
  bool right = true;
  {
    const Stream streams[3];
    MemoryPool pool(MemoryKind::Device, 8 * 1024);
    std::vector<std::vector<uint8_t>> results;
    results.reserve(60);
    for (unsigned round = 0; round < 60; round++) {
      const unsigned who = random() % 3;
      const cudaStream_t stream = streams[who].get();
      const size_t bytes = 256 * (1 + random() % 8);
      const MemoryPool::Block block = pool.take(bytes, stream, "block");
      results.emplace_back(bytes);
      check(cudaMemsetAsync(block.data, static_cast<int>(round), bytes, stream), "memset");
      check(cudaMemcpyAsync(results.back().data(), block.data, bytes, cudaMemcpyDeviceToHost, stream), "copy");
      pool.giveBack(block, orderly ? stream : streams[(who + 1) % 3].get());
    }
    for (const Stream& stream : streams) stream.synchronize();
    for (unsigned round = 0; round < 60; round++)
      for (const uint8_t byte : results[round]) right = right && byte == round;
  }
  emulator::setSeed(0);
  return right;
}

TEST(CudaMemoryPool, ReuseFollowsTheOrderOfStreams) {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; seed++) {
    EXPECT_TRUE(blocksKeepWhatIsWritten(seed, true)) << "seed " << seed;
    wrong += blocksKeepWhatIsWritten(seed, false) ? 0 : 1;
  }
  EXPECT_GT(wrong, 0) << "the wrong stream was given, and no order showed it";
}

TEST(CudaStagedCopy, BringsEveryByteThroughFewBuffers) {
  underEverySeed([] {
    MemoryPool pinned(MemoryKind::Pinned, 64 * 1024);
    const Stream first, second;
    StagedCopy copy(pinned, 1000, 3);
    EXPECT_EQ(pinned.usedBytes(), 3u * 1024);
    std::vector<uint8_t> source(12345);
    std::mt19937 random(1);
    for (uint8_t& byte : source) byte = static_cast<uint8_t>(random());
    const DeviceArray<uint8_t> a(source.size()), b(source.size());
    size_t most = 0;
    const auto fill = [&](uint8_t* buffer, size_t offset, size_t bytes) {
      most = std::max(most, bytes);
      std::copy_n(source.begin() + static_cast<long>(offset), bytes, buffer);
    };
    copy.toDevice(a.get(), source.size(), first.get(), fill);
    copy.toDevice(b.get(), source.size(), second.get(), fill);
    EXPECT_EQ(a.values(), source);
    EXPECT_EQ(b.values(), source);
    EXPECT_EQ(most, 1000u);
    EXPECT_THROW(copy.toDevice(a.get(), 5000, first.get(),
                               [](uint8_t*, size_t offset, size_t) {
                                 if (offset == 2000) throw Error(ErrorCode::File, "cut short");
                               }),
                 Error);
  });
  EXPECT_EQ(emulator::pinnedBytesInUse(), 0u);
}

}  // namespace
}  // namespace spillway::cuda
