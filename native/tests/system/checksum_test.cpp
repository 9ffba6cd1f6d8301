#include "../../system/Checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace spillway {
namespace {

using Function = uint32_t (*)(uint32_t, const void*, size_t);

// The polynomial's definition, a bit at a time.
uint32_t crc32cByBit(const uint8_t* data, size_t bytes) {
  uint32_t value = ~0u;
  for (size_t i = 0; i < bytes; i++) {
    value ^= data[i];
    for (int bit = 0; bit < 8; bit++) value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
  }
  return ~value;
}

class ChecksumTest : public testing::TestWithParam<Function> {};
INSTANTIATE_TEST_SUITE_P(Ways, ChecksumTest, testing::Values(&crc32c, &crc32cByTable),
                         [](const auto& info) { return info.index == 0 ? "Best" : "Table"; });

// RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
TEST_P(ChecksumTest, KnownVectors) {
  const Function crc = GetParam();
  EXPECT_EQ(crc(0, nullptr, 0), 0u);
  EXPECT_EQ(crc(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc(0, std::vector<uint8_t>(32, 0).data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc(0, std::vector<uint8_t>(32, 0xff).data(), 32), 0x62a8ab43u);
  std::vector<uint8_t> rising(32);
  std::iota(rising.begin(), rising.end(), uint8_t{0});
  EXPECT_EQ(crc(0, rising.data(), 32), 0x46dd794eu);
  EXPECT_EQ(crc(0, std::vector<uint8_t>(rising.rbegin(), rising.rend()).data(), 32), 0x113fdb5cu);
}

TEST_P(ChecksumTest, AnyLengthAlignmentAndSplit) {
  const Function crc = GetParam();
  std::mt19937_64 random(1);
  std::vector<uint8_t> data(100000);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  for (int round = 0; round < 300; round++) {
    const size_t start = random() % 64;
    size_t bytes = round % 3 == 0 ? random() % 100 : round % 3 == 1 ? random() % 3000 : random() % (data.size() - 64);
    if (round < 8) bytes = static_cast<size_t>(3 * 8192 - 4 + round);  // about where the streams change
    const uint32_t expected = crc32cByBit(data.data() + start, bytes);
    ASSERT_EQ(crc(0, data.data() + start, bytes), expected) << bytes << " bytes from " << start;
    const size_t first = bytes == 0 ? 0 : random() % (bytes + 1);
    ASSERT_EQ(crc(crc(0, data.data() + start, first), data.data() + start + first, bytes - first), expected)
        << bytes << " bytes, cut at " << first;
  }
}

TEST_P(ChecksumTest, EveryFlippedBitShows) {
  const Function crc = GetParam();
  std::vector<uint8_t> data(30000, 0x5a);
  const uint32_t whole = crc(0, data.data(), data.size());
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; round++) {
    const size_t at = random() % data.size();
    const uint8_t bit = static_cast<uint8_t>(1u << random() % 8);
    data[at] ^= bit;
    ASSERT_NE(crc(0, data.data(), data.size()), whole) << at;
    data[at] ^= bit;
  }
}

}  // namespace
}  // namespace spillway
