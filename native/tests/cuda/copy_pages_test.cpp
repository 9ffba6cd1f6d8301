#include "../../kernels/cuda/MemoryPool.h"
#include "../../kernels/cuda/copyPages.h"
#include "fixture.h"

namespace spillway::cuda {

TEST(CudaCopyPages, BringsPagesThereAndBackAndTouchesNoOther) {
  underEverySeed([] {
    std::mt19937 random(11);
    for (const size_t pageBytes : {size_t{16}, size_t{64}, size_t{4096}, size_t{4160}, size_t{20480}}) {
      constexpr size_t kPages = 40;
      MemoryPool pool(MemoryKind::Pinned, (2 * kPages + 1) * pageBytes + 4096);
      uint8_t* home = pool.take(kPages * pageBytes, nullptr, "pages").data;
      auto* copies = reinterpret_cast<PageCopy*>(pool.take(2 * kPages * sizeof(PageCopy), nullptr, "a table").data);
      for (size_t i = 0; i < kPages * pageBytes; i++) home[i] = static_cast<uint8_t>(random());
      const std::vector<uint8_t> before(home, home + kPages * pageBytes);
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, kPages / 2}) {
        const DeviceArray<uint8_t> there(std::vector<uint8_t>(kPages * pageBytes, 0xaa));
        // The even pages up, to places in reverse; then back to the odd ones.
        for (size_t i = 0; i < count; i++) {
          uint8_t* place = there.get() + (kPages - 1 - i) * pageBytes;
          copies[i] = {home + 2 * i * pageBytes, place};
          copies[kPages + i] = {place, home + (2 * i + 1) * pageBytes};
        }
        copyPages(testStream(), copies, count, pageBytes);
        copyPages(testStream(), copies + kPages, count, pageBytes);
        const std::vector<uint8_t> found = there.values();
        for (size_t i = 0; i < kPages; i++) {
          const std::string what =
              std::to_string(count) + " pages of " + std::to_string(pageBytes) + ", " + std::to_string(i);
          const uint8_t* place = found.data() + (kPages - 1 - i) * pageBytes;
          if (i < count) {
            ASSERT_EQ(std::memcmp(place, before.data() + 2 * i * pageBytes, pageBytes), 0) << what;
          } else {
            for (size_t b = 0; b < pageBytes; b++) ASSERT_EQ(place[b], 0xaa) << what;
          }
          const size_t source = i % 2 == 1 && i / 2 < count ? i - 1 : i;
          ASSERT_EQ(std::memcmp(home + i * pageBytes, before.data() + source * pageBytes, pageBytes), 0) << what;
        }
        std::memcpy(home, before.data(), before.size());
      }
    }
  });
}

}  // namespace spillway::cuda
