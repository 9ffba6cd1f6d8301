// Pages to 4 and 8 bits and back, against the definition in double precision.
#include "../../kernels/cuda/QuantisedPages.h"

#include <algorithm>
#include <limits>

#include "../../kernels/cpu/floatFormats.h"
#include "../attention_fixture.h"
#include "fixture.h"

namespace spillway::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const CacheLayout kLayouts[] = {{CacheType::F16, 2, 64, 32}, {CacheType::F16, 1, 128, 16}, {CacheType::F16, 3, 80, 16}, {CacheType::F16, 1, 10, 16}};

// Where an element stands in a plain page, in halves.
size_t placeOf(const CacheLayout& layout, uint32_t head, bool value, uint32_t token, uint32_t d) {
  const size_t begin = head * cacheHeadBytes(layout) / 2;
  if (value) return begin + cacheKeyElements(layout) + token * cacheValueStride(layout) + d;
  return begin + (size_t{token / kKeyBlock} * layout.headDim + d) * kKeyBlock + token % kKeyBlock;
}

struct Page {
  std::vector<uint16_t> halves;
  std::vector<float> expected;  // of each half, bits rounded as the definition says; NaN where a group is not finite
  std::vector<float> step;      // half a step of its group, plus rounding
};

Page makePage(const CacheLayout& layout, uint32_t bits, unsigned seed) {
  const size_t elements = cachePageBytes(layout) / 2;
  Page page = {std::vector<uint16_t>(elements, 0xffff), std::vector<float>(elements, kNan), std::vector<float>(elements)};
  const std::vector<float> numbers = normalNumbers(elements, seed, 2);
  size_t next = 0;
  for (uint32_t head = 0; head < layout.kvHeads; head++)
    for (const bool value : {false, true})
      for (uint32_t token = 0; token < layout.pageTokens; token++) {
        if (token == 3) continue;  // never stored: its slots stay NaN
        for (uint32_t first = 0; first < layout.headDim; first += kCacheGroup) {
          const uint32_t count = std::min(kCacheGroup, layout.headDim - first);
          float lowest = INFINITY, highest = -INFINITY;
          for (uint32_t i = 0; i < count; i++) {
            float x = numbers[next++];
            if (token == 5) x = 1.25f;                                        // all equal
            if (token == 6) x = i % 2 == 0 ? 65504.0f : -65504.0f;            // the widest group
            if (token == 7 && i == 1) x = std::numeric_limits<float>::infinity();
            if (token == 8) x *= 1e-7f;                                       // its scale rounds to zero, or nearly
            const uint16_t half = floatToHalf(x);
            page.halves[placeOf(layout, head, value, token, first + i)] = half;
            lowest = std::min(lowest, halfToFloat(half));
            highest = std::max(highest, halfToFloat(half));
          }
          const float width = highest - lowest, scale = width / static_cast<float>((1u << bits) - 1);
          for (uint32_t i = 0; i < count; i++) {
            const size_t at = placeOf(layout, head, value, token, first + i);
            const bool finite = std::isfinite(width);
            page.expected[at] = finite ? halfToFloat(page.halves[at]) : kNan;
            // The scale is rounded by 2^-12 of it (2^-25 at least), which the largest q multiplies; the result to half.
            page.step[at] = 0.5f * scale + width * std::ldexp(1.0f, -11) + std::ldexp(255.0f, -25) + std::fabs(halfToFloat(page.halves[at])) * std::ldexp(1.0f, -11);
          }
        }
      }
  return page;
}

TEST(CudaQuantisedPages, ThereAndBackWithinHalfAStep) {
  for (const CacheLayout& layout : kLayouts)
    for (const uint32_t bits : {4u, 8u}) {
      const std::vector<Page> pages = {makePage(layout, bits, 1), makePage(layout, bits, 2)};
      underEverySeed([&] {
        std::vector<DeviceArray<uint16_t>> plain, back;
        std::vector<DeviceArray<uint8_t>> quantised;
        std::vector<const uint8_t*> plainPages, quantisedPages;
        std::vector<uint8_t*> backPages, quantisedTargets;
        for (const Page& page : pages) {
          plain.emplace_back(page.halves);
          back.emplace_back(std::vector<uint16_t>(page.halves.size(), 0xffff));
          quantised.emplace_back(quantisedPageBytes(layout, bits));
          plainPages.push_back(reinterpret_cast<const uint8_t*>(plain.back().get()));
          backPages.push_back(reinterpret_cast<uint8_t*>(back.back().get()));
          quantisedPages.push_back(quantised.back().get());
          quantisedTargets.push_back(quantised.back().get());
        }
        const DeviceArray<const uint8_t*> from(plainPages), packed(quantisedPages);
        const DeviceArray<uint8_t*> to(backPages), packedTo(quantisedTargets);
        quantisePages(testStream(), layout, bits, from.get(), packedTo.get(), pages.size());
        dequantisePages(testStream(), layout, bits, packed.get(), to.get(), pages.size());
        for (size_t p = 0; p < pages.size(); p++) {
          const std::vector<uint16_t> halves = back[p].values();
          for (uint32_t head = 0; head < layout.kvHeads; head++)
            for (const bool value : {false, true})
              for (uint32_t token = 0; token < layout.pageTokens; token++)
                for (uint32_t d = 0; d < layout.headDim; d++) {
                  const size_t at = placeOf(layout, head, value, token, d);
                  const float x = halfToFloat(halves[at]), expected = pages[p].expected[at];
                  if (std::isnan(expected)) {
                    ASSERT_TRUE(std::isnan(x)) << "token " << token;
                  } else {
                    ASSERT_NEAR(x, expected, pages[p].step[at]) << bits << " bits, token " << token << ", element " << d;
                  }
                }
        }
      });
    }
}

TEST(CudaQuantisedPages, TakeTheBytesThatTheLayoutSays) {
  // 2 KV heads, keys and values, 32 tokens, one group: 64 numbers and two halves.
  EXPECT_EQ(quantisedPageBytes({CacheType::F16, 2, 64, 32}, 4), 2u * 2 * 32 * (32 + 4));
  EXPECT_EQ(quantisedPageBytes({CacheType::F16, 1, 80, 16}, 8), 2u * 16 * 2 * (64 + 4));
}

TEST(CudaQuantisedPages, NumbersStandWhereTheLayoutSays) {
  const CacheLayout layout = {CacheType::F16, 1, 64, 16};
  std::vector<uint16_t> halves(cachePageBytes(layout) / 2);
  for (uint32_t token = 0; token < 16; token++)
    for (uint32_t d = 0; d < 64; d++) {
      halves[placeOf(layout, 0, false, token, d)] = floatToHalf(static_cast<float>(d % 16));
      halves[placeOf(layout, 0, true, token, d)] = floatToHalf(static_cast<float>(token == 2 ? 15 - d % 16 : d % 16));
    }
  const DeviceArray<uint16_t> plain(halves);
  const DeviceArray<uint8_t> quantised(quantisedPageBytes(layout, 4));
  const DeviceArray<const uint8_t*> from({reinterpret_cast<const uint8_t*>(plain.get())});
  const DeviceArray<uint8_t*> to({quantised.get()});
  quantisePages(testStream(), layout, 4, from.get(), to.get(), 1);
  const std::vector<uint8_t> bytes = quantised.values();
  EXPECT_EQ(bytes[0], 0x10);
  EXPECT_EQ(bytes[7], 0xfe);
  const size_t values = 16 * 36;
  EXPECT_EQ(bytes[values + 2 * 32], 0xef);
  EXPECT_EQ(bytes[16 * 32 + 1], 0x3c);  // scale 1
  EXPECT_EQ(bytes[16 * 32 + 3], 0x00);  // minimum 0
}

}  // namespace
}  // namespace spillway::cuda
