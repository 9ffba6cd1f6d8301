// Angles of rotary position encodings: the nearest floats there are, so that no C library's own are in the results.
#include <gtest/gtest.h>

#include <cmath>

#include "../../model/rotaryAngles.h"

namespace spillway {
namespace {

TEST(RotaryAngles, CosinesAndSinesAreTheNearestFloats) {
  RotaryTable table;
  table.scale = 1;
  for (int i = 0; i < 64; i++) table.frequencies.push_back(static_cast<float>(std::pow(10000.0, -i / 64.0)));
  std::vector<float> cosines(table.frequencies.size()), sines(table.frequencies.size());
  for (uint32_t position = 0; position < 131072; position += position < 4096 ? 1 : 61) {
    rotaryAngles(table, position, cosines.data(), sines.data());
    for (size_t i = 0; i < table.frequencies.size(); i++) {
      const long double angle = static_cast<float>(position) * table.frequencies[i];
      ASSERT_EQ(cosines[i], static_cast<float>(std::cos(angle))) << position << " " << i;
      ASSERT_EQ(sines[i], static_cast<float>(std::sin(angle))) << position << " " << i;
    }
  }
}

TEST(RotaryAngles, AreScaledAfterwards) {
  RotaryTable table;
  table.frequencies = {0.5f, 0.25f};
  table.scale = 1.375f;
  float cosines[2], sines[2];
  rotaryAngles(table, 3, cosines, sines);
  for (size_t i = 0; i < 2; i++) {
    const double angle = 3 * table.frequencies[i];
    EXPECT_EQ(cosines[i], static_cast<float>(std::cos(angle)) * 1.375f);
    EXPECT_EQ(sines[i], static_cast<float>(std::sin(angle)) * 1.375f);
  }
}

}  // namespace
}  // namespace spillway
