#include "../../kernels/cpu/floatFormats.h"
#include "../../kernels/cuda/MemoryPool.h"
#include "../../kernels/cuda/linkHalves.h"
#include "fixture.h"

namespace spillway::cuda {

namespace {

constexpr size_t kBeside = 16;
constexpr uint16_t kUntouched = 0xabab;

// Numbers of every size, those that halves do not reach among them, and what is no number.
std::vector<float> numbersThatCross(size_t n) {
  std::mt19937 random(3);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; i++) values[i] = std::ldexp(float(random() % 4096) - 2048, int(random() % 40) - 30);
  const float odd[] = {0.0f, -0.0f, 65504, 65519, 65520, -7e8f, 3.4e38f, -INFINITY, INFINITY, NAN, 1e-8f, 6e-8f};
  for (size_t i = 0; i < std::size(odd) && 2 * i < n; i++) values[2 * i] = odd[i];
  return values;
}

uint16_t expectedHalf(float x) {
  return floatToHalf(std::isfinite(x) ? std::min(65504.0f, std::max(-65504.0f, x)) : x);
}

}  // namespace

TEST(CudaLinkHalves, SendsEveryNumberAsTheNearestHalfAndTouchesNothingBeside) {
  underEverySeed([] {
    MemoryPool pool(MemoryKind::Pinned, 1 << 20);
    auto* pinned = reinterpret_cast<uint16_t*>(pool.take(1 << 19, nullptr, "a test").data);
    // With and without eight at a time: by where they begin, where they go and how many they are.
    for (const size_t n : {size_t{0}, size_t{1}, size_t{8}, size_t{23}, size_t{4096}, size_t{40000}})
      for (const size_t source : {0, 4, 5})
        for (const size_t target : {0, 8, 3}) {
          const std::vector<float> values = numbersThatCross(source + n);
          const DeviceArray<float> there(values);
          std::fill_n(pinned, target + n + kBeside, kUntouched);
          sendHalves(testStream(), there.get() + source, n, pinned + target);
          there.values();
          const std::string what =
              std::to_string(n) + " from " + std::to_string(source) + " to " + std::to_string(target);
          for (size_t i = 0; i < n; i++) {
            const float x = values[source + i];
            const uint16_t found = pinned[target + i];
            if (std::isnan(x))
              ASSERT_TRUE(std::isnan(halfToFloat(found))) << what << ", at " << i;
            else
              ASSERT_EQ(found, expectedHalf(x)) << what << ", at " << i << ": " << x;
          }
          for (size_t i = 0; i < target; i++) ASSERT_EQ(pinned[i], kUntouched) << what;
          for (size_t i = 0; i < kBeside; i++) ASSERT_EQ(pinned[target + n + i], kUntouched) << what;
        }
  });
}

TEST(CudaLinkHalves, MakesWeightedSumsOfMeans) {
  underEverySeed([] {
    MemoryPool pool(MemoryKind::Pinned, 1 << 20);
    auto* pinned = reinterpret_cast<uint16_t*>(pool.take(1 << 19, nullptr, "a test").data);
    for (const uint32_t headDim : {1u, 2u, 5u, 64u, 80u, 128u, 512u})
      for (const size_t queries : {size_t{0}, size_t{1}, size_t{37}, size_t{300}})
        for (const size_t source : {0, 1}) {
          const size_t n = queries * headDim;
          const std::vector<float> means = numbersThatCross(n);
          std::vector<AttentionPartial> partials(queries);
          for (size_t q = 0; q < queries; q++) partials[q] = {float(q), q % 5 == 3 ? 0.0f : 1.0f + 0.37f * float(q)};
          const DeviceArray<AttentionPartial> partialsThere(partials);
          const DeviceArray<float> there(std::vector<float>(n + kBeside, -7.0f));
          for (size_t i = 0; i < n; i++) pinned[source + i] = expectedHalf(means[i]);
          receiveOutputs(testStream(), pinned + source, partialsThere.get(), queries, headDim, there.get());
          const std::vector<float> found = there.values();
          for (size_t i = 0; i < n; i++) {
            const float expected = halfToFloat(expectedHalf(means[i])) * (kOutputUnit * partials[i / headDim].sum);
            if (std::isnan(expected))
              ASSERT_TRUE(std::isnan(found[i])) << headDim << " x " << queries << ", at " << i;
            else
              ASSERT_EQ(found[i], expected) << headDim << " x " << queries << ", at " << i;
          }
          for (size_t i = n; i < found.size(); i++) ASSERT_EQ(found[i], -7.0f) << headDim << " x " << queries;
        }
  });
}

}  // namespace spillway::cuda
