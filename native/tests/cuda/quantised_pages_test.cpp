// Pages of 8 and 4 bits: stored on the device they are the CPU's, byte for byte; turned back into halves they say what
// CacheLayout.h says.
#include "../../kernels/cuda/QuantisedPages.h"

#include <algorithm>
#include <limits>

#include "../../kernels/cpu/floatFormats.h"
#include "../../kernels/cuda/Attention.h"
#include "../kernels/attention_fixture.h"
#include "fixture.h"

namespace spillway::cuda {
namespace {

const CacheLayout kShapes[] = {{CacheType::Q8, 2, 64, 32}, {CacheType::Q8, 1, 128, 16}, {CacheType::Q8, 2, 80, 16},
                               {CacheType::Q8, 1, 10, 16}, {CacheType::Q8, 1, 300, 16}, {CacheType::Q8, 1, 33, 16}};

class CudaQuantisedPages : public testing::TestWithParam<CacheType> {
 protected:
  static CacheLayout layoutOf(const CacheLayout& shape) {
    return {GetParam(), shape.kvHeads, shape.headDim, shape.pageTokens};
  }
};

// A page's tokens, ordinary and not: outliers, all equal, the widest range, tiny, beyond halves, infinite, not a
// number.
TestRow unusualRow(const CacheLayout& layout, unsigned seed) {
  TestRow row({layout, layout.kvHeads, 0, false, false}, layout.pageTokens, seed);
  for (std::vector<float>* side : {&row.keys, &row.values}) {
    const auto numbers = [&](uint32_t token) { return side->begin() + static_cast<long>(token * row.keyWidth); };
    for (size_t i = 0; i < row.keyWidth; i++) {
      if (i % 7 == 0) numbers(1)[static_cast<long>(i)] *= 100.0f;
      numbers(2)[static_cast<long>(i)] = 1.25f;
      numbers(3)[static_cast<long>(i)] = i % 2 == 0 ? 65504.0f : -65504.0f;
      numbers(4)[static_cast<long>(i)] *= 1e-7f;
      numbers(5)[static_cast<long>(i)] *= 1e9f;
      numbers(7)[static_cast<long>(i)] += 40.0f;
    }
    numbers(6)[1] = std::numeric_limits<float>::infinity();
    numbers(8)[0] = std::numeric_limits<float>::quiet_NaN();
  }
  return row;
}

TEST_P(CudaQuantisedPages, TokensAreStoredAsTheCpuStoresThem) {
  for (const CacheLayout& shape : kShapes) {
    const CacheLayout layout = layoutOf(shape);
    TestRow row = unusualRow(layout, 3);
    row.store(kernelsFor(bestInstructionSet()), layout.pageTokens);
    const size_t bytes = cachePageBytes(layout);
    underEverySeed([&] {
      const DeviceArray<uint8_t> page(std::vector<uint8_t>(bytes, 0xff));
      const DeviceArray<const uint8_t*> table({page.get()});
      std::vector<AttentionToken> list;
      for (uint32_t i = 0; i < layout.pageTokens; i++) list.push_back({table.get(), i});
      const DeviceArray<AttentionToken> tokens(list);
      const DeviceArray<float> keys(row.keys), values(row.values);
      storeTokens(testStream(), layout, tokens.get(), list.size(), keys.get(), values.get(), row.keyWidth);
      const std::vector<uint8_t> found = page.values();
      for (size_t i = 0; i < bytes; i++)
        ASSERT_EQ(found[i], row.pages[0][i])
            << cacheTypeName(layout.type) << ", heads of " << layout.headDim << ", byte " << i << " of " << bytes;
    });
  }
}

TEST_P(CudaQuantisedPages, BecomeHalvesAsTheLayoutSays) {
  for (const CacheLayout& shape : kShapes) {
    const CacheLayout layout = layoutOf(shape), plain = plainLayout(layout);
    TestRow first = unusualRow(layout, 4), second({layout, layout.kvHeads, 0, false, false}, layout.pageTokens, 5);
    underEverySeed([&] {
      std::vector<DeviceArray<uint8_t>> quantised, halves;
      std::vector<const uint8_t*> from;
      std::vector<uint8_t*> to;
      for (TestRow* row : {&first, &second}) {
        row->store(kernelsFor(bestInstructionSet()), layout.pageTokens);
        quantised.emplace_back(std::vector<uint8_t>(row->pages[0], row->pages[0] + cachePageBytes(layout)));
        halves.emplace_back(std::vector<uint8_t>(cachePageBytes(plain), 0xff));
        from.push_back(quantised.back().get());
        to.push_back(halves.back().get());
      }
      const DeviceArray<const uint8_t*> sources(from);
      const DeviceArray<uint8_t*> targets(to);
      dequantisePages(testStream(), layout, sources.get(), targets.get(), 2);
      for (size_t p = 0; p < 2; p++) {
        const std::vector<uint8_t> bytes = halves[p].values();
        const auto* found = reinterpret_cast<const uint16_t*>(bytes.data());
        const uint8_t* page = (p == 0 ? first : second).pages[0];
        for (uint32_t head = 0; head < layout.kvHeads; head++)
          for (uint32_t token = 0; token < layout.pageTokens; token++)
            for (size_t group = 0; group < layout.headDim; group += kCacheGroup) {
              const size_t n = std::min<size_t>(kCacheGroup, layout.headDim - group),
                           begin = head * cacheHeadBytes(plain) / 2;
              const std::vector<double> keys = keyGroupAt(layout, page, head, token, group, n);
              for (size_t i = 0; i < n; i++) {
                const std::string where = std::string(cacheTypeName(layout.type)) + ", heads of " +
                                          std::to_string(layout.headDim) + ", token " + std::to_string(token) +
                                          ", element " + std::to_string(group + i);
                const auto expect = [&](size_t at, double expected, double loss) {
                  const float x = halfToFloat(found[begin + at]);
                  if (std::isnan(expected))
                    ASSERT_TRUE(std::isnan(x)) << where;
                  else
                    ASSERT_NEAR(x, std::clamp(expected, -65504.0, 65504.0),
                                std::fabs(expected) * std::ldexp(1.0, -11) + 6e-8 + loss)
                        << where;
                };
                // Turning back adds up what others' sums lose in float.
                double largest = 0;
                for (const double key : keys) largest = std::max(largest, std::fabs(key));
                expect((size_t{token / kKeyBlock} * layout.headDim + group + i) * kKeyBlock + token % kKeyBlock,
                       keys[i], largest * 1e-6);
                expect(cacheKeyElements(plain) + token * cacheValueStride(plain) + group + i,
                       valueAt(layout, page, head, token, group + i).value, 0);
              }
            }
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaQuantisedPages, testing::Values(CacheType::Q8, CacheType::Q4),
                         [](const auto& info) { return std::string(cacheTypeName(info.param)); });

}  // namespace
}  // namespace spillway::cuda
