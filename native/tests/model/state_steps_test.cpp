// Steps of what layers remember: their columns are computed several at once, and no bit may tell.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "../../backend/cpu/deltaStep.h"
#include "../../backend/cpu/stateStep.h"

namespace spillway {
namespace {

using Floats = std::vector<float>;

// Widths of whole and of several vectors, and with some columns left.
constexpr size_t kSizes[][2] = {{128, 128}, {128, 64}, {24, 16}, {16, 24}, {24, 100}, {7, 5}, {1, 1}, {3, 80}};

Floats drawn(size_t count, uint32_t seed) {
  Floats values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed >> 8)) / 8388608.0f - 1.0f;
  }
  return values;
}

TEST(StateSteps, DeltaRuleIsThatOfPlainLoops) {
  for (const auto& [keys, values] : kSizes) {
    Floats state = drawn(keys * values, 1), expected = state;
    for (uint32_t token = 0; token < 4; token++) {
      const Floats query = drawn(keys, 10 + token), key = drawn(keys, 20 + token), value = drawn(values, 30 + token);
      Floats output(values), plain(values), change(values);
      deltaStep(state.data(), query.data(), key.data(), value.data(), 0.9f, 0.3f, keys, values, output.data());
      for (size_t k = 0; k < keys; k++)
        for (size_t v = 0; v < values; v++) {
          expected[k * values + v] *= 0.9f;
          plain[v] += expected[k * values + v] * key[k];
        }
      for (size_t v = 0; v < values; v++) {
        change[v] = (value[v] - plain[v]) * 0.3f;
        plain[v] = 0;
      }
      for (size_t k = 0; k < keys; k++)
        for (size_t v = 0; v < values; v++) {
          expected[k * values + v] += key[k] * change[v];
          plain[v] += expected[k * values + v] * query[k];
        }
      ASSERT_EQ(output, plain) << keys << " x " << values;
      ASSERT_EQ(state, expected) << keys << " x " << values;
    }
  }
}

TEST(StateSteps, DeltaRuleForgetsByElementsOfKeys) {
  for (const auto& [keys, values] : kSizes) {
    Floats state = drawn(keys * values, 1), expected = state, decays = drawn(keys, 2);
    const Floats query = drawn(keys, 10), key = drawn(keys, 20), value = drawn(values, 30);
    Floats output(values), plain(values);
    deltaStep(state.data(), query.data(), key.data(), value.data(), 0, 0.3f, keys, values, output.data(),
              decays.data());
    // As a state that was forgotten before, of which all is kept.
    for (size_t k = 0; k < keys; k++)
      for (size_t v = 0; v < values; v++) expected[k * values + v] *= decays[k];
    deltaStep(expected.data(), query.data(), key.data(), value.data(), 1, 0.3f, keys, values, plain.data());
    ASSERT_EQ(output, plain) << keys << " x " << values;
    ASSERT_EQ(state, expected) << keys << " x " << values;
  }
}

TEST(StateSteps, StateSpaceIsThatOfPlainLoops) {
  for (const auto& [states, width] : kSizes) {
    Floats state = drawn(states * width, 2), expected = state;
    for (uint32_t token = 0; token < 4; token++) {
      const Floats input = drawn(width, 40 + token), written = drawn(states, 50 + token),
                   read = drawn(states, 60 + token);
      Floats output(width), plain(width);
      stateStep(state.data(), input.data(), written.data(), read.data(), 0.8f, states, width, output.data());
      for (size_t n = 0; n < states; n++)
        for (size_t p = 0; p < width; p++) {
          float& held = expected[n * width + p];
          held = held * 0.8f + input[p] * written[n];
          plain[p] += held * read[n];
        }
      ASSERT_EQ(output, plain) << states << " x " << width;
      ASSERT_EQ(state, expected) << states << " x " << width;
    }
  }
}

}  // namespace
}  // namespace spillway
