#include "../../kernels/cuda/MemoryPool.h"
#include "../../kernels/cuda/copyPinned.h"
#include "fixture.h"

namespace spillway::cuda {

TEST(CudaCopyPinned, BringsEveryByteAndNoOther) {
  underEverySeed([] {
    constexpr size_t kMost = 1 << 20, kRoom = 64;
    MemoryPool pool(MemoryKind::Pinned, 2 * kMost);
    uint8_t* from = pool.take(kMost + kRoom, nullptr, "a test").data;
    std::mt19937 random(7);
    for (size_t i = 0; i < kMost + kRoom; i++) from[i] = static_cast<uint8_t>(random());
    // Words of every width: by where it begins, where it goes and how much it is.
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{4100}, size_t{65536}, kMost})
      for (const size_t source : {0, 3, 4, 16})
        for (const size_t target : {0, 1, 8, 16}) {
          const DeviceArray<uint8_t> there(std::vector<uint8_t>(target + bytes + kRoom, 0xaa));
          copyPinned(testStream(), from + source, there.get() + target, bytes);
          const std::vector<uint8_t> found = there.values();
          const std::string what =
              std::to_string(bytes) + " bytes from " + std::to_string(source) + " to " + std::to_string(target);
          ASSERT_EQ(std::memcmp(found.data() + target, from + source, bytes), 0) << what;
          for (size_t i = 0; i < found.size(); i++)
            if (i < target || i >= target + bytes) ASSERT_EQ(found[i], 0xaa) << what << ", beside it, at " << i;
        }
  });
}

}  // namespace spillway::cuda
