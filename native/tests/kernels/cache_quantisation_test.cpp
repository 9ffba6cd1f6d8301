// The 8-bit and 4-bit cache: what a page's bytes say of the numbers that were stored, decoded here anew from the
// description in CacheLayout.h.
#include <gtest/gtest.h>

#include <thread>

#include "attention_fixture.h"
#include "cachedNumbers.h"
#include "instructionSets.h"

namespace spillway {
namespace {

// Numbers of one token as they may come: ordinary, tiny, huge, constant, zero, with outliers, infinite.
std::vector<float> unusualNumbers(size_t n, std::mt19937& random) {
  std::vector<float> values = randomNumbers(n, random());
  const float sizes[] = {1.0f, 1e-3f, 1e-8f, 1e-30f, 1e-42f, 300.0f, 60000.0f, 1e9f, 3e38f};
  const float size = sizes[random() % 9];
  const unsigned kind = random() % 6;
  for (size_t i = 0; i < n; i++) {
    if (kind == 0) values[i] = values[0];
    if (kind == 1) values[i] = 0.0f;
    if (kind == 2) values[i] += 40.0f;
    if (kind == 3 && random() % 8 == 0) values[i] *= 1000.0f;
    if (kind == 4 && random() % 8 == 0)
      values[i] = random() % 2 ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity();
    values[i] = std::max(-3e38f, std::min(3e38f, values[i] * size));
  }
  return values;
}

void expectNear(float stored, const Decoded& found, const CacheLayout& layout, const char* what, size_t d) {
  const double clamped = std::max(-65504.0, std::min(65504.0, static_cast<double>(stored)));
  ASSERT_TRUE(std::isfinite(found.value)) << what << " " << d;
  // Half a step, and what float32 loses of the quotient; what is smaller than its normal numbers may be taken for zero.
  ASSERT_LE(std::abs(found.value - clamped), found.scale * 0.50001 + std::abs(clamped) * 1e-7 + 1e-37)
      << cacheTypeName(layout.type) << " " << what << " " << d << " of " << layout.headDim << ": " << stored;
  ASSERT_LE(found.scale, 2 * 65504.0 / (layout.type == CacheType::Q8 ? 255 : 15) * 1.001);
}

// Keys of 4 bits, all heads: a group loses no more than it would with every turned element half a step off.
void expectTurned(const std::vector<float>& keys, const CacheLayout& layout, const uint8_t* page, uint32_t index) {
  for (uint32_t head = 0; head < layout.kvHeads; head++)
    for (size_t first = 0; first < layout.headDim; first += kCacheGroup) {
      const size_t n = std::min<size_t>(kCacheGroup, layout.headDim - first);
      std::vector<double> expected(n), turned;
      const double factor = turnedFactor(n), most = 65504.0 / (factor * static_cast<double>(n & (~n + 1)));
      for (size_t i = 0; i < n; i++)
        expected[i] = std::max(-most, std::min(most, static_cast<double>(keys[head * layout.headDim + first + i])));
      turned = expected;
      const auto size = static_cast<double>(transform(turned));
      const auto [low, high] = std::minmax_element(turned.begin(), turned.end());
      const std::vector<double> found = keyGroupAt(layout, page, head, index, first, n);
      double loss = 0;
      for (size_t i = 0; i < n; i++) {
        ASSERT_TRUE(std::isfinite(found[i])) << first + i;
        loss += (found[i] - expected[i]) * (found[i] - expected[i]);
      }
      // The minimum and the step are halves: 1 part in 1024 of the larger end, or a subnormal half.
      const double end = std::max(std::abs(*low), std::abs(*high)) * factor,
                   step = ((*high - *low) * factor + end / 1024) / 15 * 1.001 + 1.2e-7;
      const double unturned = 1 / (factor * std::sqrt(size));  // the size of a turned vector to its own
      ASSERT_LE(std::sqrt(loss / static_cast<double>(n)), 0.5001 * step * unturned + end * 1e-6 * unturned)
          << "keys " << first << " of " << layout.headDim;
    }
}

TEST(CacheQuantisation, EveryElementIsWithinHalfAStep) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; round++) {
    const CacheLayout layout = {round % 2 ? CacheType::Q4 : CacheType::Q8, 1 + static_cast<uint32_t>(random() % 3),
                                1 + static_cast<uint32_t>(random() % (round % 4 ? 140 : 512)), 32};
    const size_t width = layout.kvHeads * layout.headDim;
    std::vector<uint8_t> page(cachePageBytes(layout), 0xff);
    const uint32_t index = random() % layout.pageTokens;
    const std::vector<float> keys = unusualNumbers(width, random), values = unusualNumbers(width, random);
    cacheStore(kernelsFor(bestInstructionSet()), layout, page.data(), index, keys.data(), values.data());
    if (layout.type == CacheType::Q4) expectTurned(keys, layout, page.data(), index);
    for (uint32_t head = 0; head < layout.kvHeads; head++)
      for (size_t d = 0; d < layout.headDim; d++) {
        if (layout.type == CacheType::Q8)
          expectNear(keys[head * layout.headDim + d], keyAt(layout, page.data(), head, index, d), layout, "key", d);
        expectNear(values[head * layout.headDim + d], valueAt(layout, page.data(), head, index, d), layout, "value", d);
        if (HasFatalFailure()) return;
      }
  }
}

TEST(CacheQuantisation, AGroupUsesAllItsCodes) {
  // The step is the group's range over the number of codes less one, up to the rounding of two halves: not coarser than
  // it has to be.
  for (CacheType type : {CacheType::Q8, CacheType::Q4}) {
    const CacheLayout layout = {type, 1, 64, 16};
    std::vector<uint8_t> page(cachePageBytes(layout));
    const std::vector<float> numbers = randomNumbers(64, 3);
    cacheStore(kernelsFor(bestInstructionSet()), layout, page.data(), 0, numbers.data(), numbers.data());
    const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
    const double least = (*high - *low) / (type == CacheType::Q8 ? 255.0 : 15.0);
    if (type == CacheType::Q8) {
      EXPECT_LE(keyAt(layout, page.data(), 0, 0, 0).scale, least * 1.02);
    }
    EXPECT_LE(valueAt(layout, page.data(), 0, 0, 0).scale, least * 1.02);
  }
}

TEST(CacheQuantisation, ZerosAndConstantsThatAreHalvesAreExact) {
  for (float constant : {0.0f, -0.0f, 1.0f, -2.5f, 0.333251953125f, 65504.0f, -65504.0f, 5.9604644775390625e-8f}) {
    for (uint32_t headDim : {1u, 7u, 64u, 130u}) {
      const CacheLayout layout = {CacheType::Q4, 1, headDim, 16};
      std::vector<uint8_t> page(cachePageBytes(layout), 0xff);
      const std::vector<float> numbers(headDim, constant);
      cacheStore(kernelsFor(bestInstructionSet()), layout, page.data(), 5, numbers.data(), numbers.data());
      for (size_t d = 0; d < headDim; d++) {
        ASSERT_EQ(valueAt(layout, page.data(), 0, 5, d).value, constant);
      }
    }
  }
}

TEST(CacheQuantisation, KeysOfFourBitsKeepWhatAnElementThatStandsOutWouldCost) {
  // One element ten times as large as the others, as models' keys have them: plain steps would be about that much wider
  // for all.
  const CacheLayout layout = {CacheType::Q4, 1, 64, 16};
  double turned = 0, plain = 0;
  for (unsigned seed = 0; seed < 20; seed++) {
    std::vector<float> numbers = randomNumbers(64, seed);
    numbers[seed] *= 10;
    std::vector<uint8_t> page(cachePageBytes(layout));
    cacheStore(kernelsFor(bestInstructionSet()), layout, page.data(), 3, numbers.data(), numbers.data());
    const std::vector<double> keys = keyGroupAt(layout, page.data(), 0, 3, 0, 64);
    for (size_t d = 0; d < 64; d++) {
      turned += std::pow(keys[d] - numbers[d], 2);
      plain += std::pow(valueAt(layout, page.data(), 0, 3, d).value - numbers[d], 2);  // values are not turned
    }
  }
  EXPECT_LT(turned, 0.5 * plain);
}

TEST(CacheQuantisation, KeysOfFourBitsAreZeroForZerosAndClampedBeyondTheRange) {
  const CacheLayout layout = {CacheType::Q4, 1, 64, 16};
  std::vector<uint8_t> page(cachePageBytes(layout), 0xff);
  const auto stored = [&](float constant) {
    const std::vector<float> numbers(64, constant);
    cacheStore(kernelsFor(bestInstructionSet()), layout, page.data(), 0, numbers.data(), numbers.data());
    return keyGroupAt(layout, page.data(), 0, 0, 0, 64);
  };
  for (const double key : stored(0.0f)) EXPECT_EQ(key, 0.0);
  for (const double key : stored(-2.5f)) EXPECT_NEAR(key, -2.5, 0.1);
  for (const double key : stored(1e30f)) EXPECT_NEAR(key, 8188.0, 16.0);
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()})
    for (const double key : stored(odd)) EXPECT_TRUE(std::isnan(key));
}

// In the cache of halves it shows in what is made of its element alone. What is merely beyond the range is clamped.
TEST(CacheQuantisation, WhatIsNotFiniteShowsInItsGroup) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const CacheType type : {CacheType::F16, CacheType::Q8, CacheType::Q4})
    for (const float odd : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, 1e30f})
      for (const size_t at : {0u, 3u, 63u}) {
        const AttentionCase c = {{type, 1, 128, 16}, 1, 0, false, false};
        TestRow row(c, 3, 4);
        row.values[at] = odd;
        for (const InstructionSet isa : {InstructionSet::Scalar, bestInstructionSet()}) {
          const std::vector<float> outputs = attendWhole(isa, 1, c, row);
          for (size_t d = 0; d < 128; d++) {
            const bool shows = odd != 1e30f && (type == CacheType::F16 ? d == at : d < 64);
            EXPECT_EQ(!std::isfinite(outputs[2 * 128 + d]), shows)
                << cacheTypeName(type) << " " << odd << " at " << at << ": " << d;
          }
        }
      }
}

TEST(CacheQuantisation, BytesAreATokensOwnAndTheSameOnEveryInstructionSet) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; round++) {
    const CacheLayout layout = {round % 2 ? CacheType::Q4 : CacheType::Q8, 2, 1 + static_cast<uint32_t>(random() % 200),
                                32};
    const size_t width = 2 * layout.headDim;
    std::vector<std::vector<float>> keys, values;
    for (uint32_t t = 0; t < layout.pageTokens; t++)
      keys.push_back(unusualNumbers(width, random)), values.push_back(unusualNumbers(width, random));
    std::vector<uint8_t> expected(cachePageBytes(layout), 0xaa);
    for (uint32_t t = 0; t < layout.pageTokens; t++)
      cacheStore(kernelsFor(InstructionSet::Scalar), layout, expected.data(), t, keys[t].data(), values[t].data());
    for (InstructionSet set : kSets) {
      if (!machineHas(set)) continue;
      // Two threads, every other token each, neighbours at once.
      std::vector<uint8_t> page(expected.size(), 0xaa);
      const auto half = [&](uint32_t odd) {
        for (uint32_t t = odd; t < layout.pageTokens; t += 2)
          cacheStore(kernelsFor(set), layout, page.data(), t, keys[t].data(), values[t].data());
      };
      std::thread other(half, 1);
      half(0);
      other.join();
      ASSERT_EQ(page, expected) << instructionSetName(set) << ", heads of " << layout.headDim;
    }
  }
}

TEST(CacheQuantisation, FourAndAHalfBitsAnElement) {
  for (uint32_t headDim : {64u, 128u, 256u}) {
    EXPECT_EQ(cachePageBytes({CacheType::Q4, 3, headDim, 32}) * 8, 3 * 32 * 2 * headDim * 9 / 2);
    EXPECT_EQ(cachePageBytes({CacheType::Q8, 3, headDim, 32}) * 8, 3 * 32 * 2 * headDim * 17 / 2);
  }
}

}  // namespace
}  // namespace spillway
