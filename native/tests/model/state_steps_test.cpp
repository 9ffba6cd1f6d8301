// Steps of what layers remember: columns of a block are computed several at once and what consecutive tokens do to an
// element in one go, and no bit may tell.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "../../backend/cpu/deltaSteps.h"
#include "../../backend/cpu/stateBlocks.h"
#include "../../backend/cpu/stateSteps.h"

namespace spillway {
namespace {

using Floats = std::vector<float>;

// Rows and columns: whole blocks, several, and with some columns left.
constexpr size_t kSizes[][2] = {{128, 128}, {128, 64}, {24, 16}, {16, 24}, {24, 100}, {7, 5}, {1, 1}, {3, 80}, {9, 49}};
constexpr size_t kTokens = 5;

Floats drawn(size_t count, uint32_t seed) {
  Floats values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(seed >> 8)) / 8388608.0f - 1.0f;
  }
  return values;
}

// A state that lies row after row, as blocks.
Floats blocked(const Floats& plain, size_t rows, size_t columns) {
  Floats state(plain.size());
  for (size_t b = 0; b < stateBlocks(columns); b++) {
    const StateBlock block = stateBlock(state.data(), rows, columns, b);
    for (size_t r = 0; r < rows; r++)
      for (size_t c = 0; c < block.columns; c++)
        block.state[r * block.columns + c] = plain[r * columns + block.first + c];
  }
  return state;
}

TEST(StateSteps, BlocksAreAllOfAState) {
  for (const auto& [rows, columns] : kSizes) {
    Floats state(rows * columns);
    size_t next = 0;
    for (size_t b = 0; b < stateBlocks(columns); b++) {
      const StateBlock block = stateBlock(state.data(), rows, columns, b);
      EXPECT_EQ(block.first, next);
      EXPECT_EQ(block.state, state.data() + next * rows);
      next += block.columns;
    }
    EXPECT_EQ(next, columns);
  }
}

// Tokens' rows: what a step reads of one, then numbers that it must not touch.
struct DeltaCase {
  DeltaCase(size_t keys, size_t values, bool byKey) : keys(keys), values(values), byKey(byKey) {
    stride = 3 * keys + values + 1 + 3;
    rows = drawn(kTokens * stride, 7);
  }
  DeltaTokens tokens(size_t first, size_t count, const StateBlock& block, float* outputs) const {
    const float* row = rows.data() + first * stride;
    return {count,
            stride,
            row,
            row + keys,
            row + 3 * keys + block.first,
            row + 3 * keys + values,
            row + 2 * keys,
            byKey,
            outputs + first * values + block.first,
            values};
  }
  // Plain loops, token after token.
  Floats expected(Floats& state) const {
    Floats outputs(kTokens * values);
    for (size_t t = 0; t < kTokens; t++) {
      const float *query = &rows[t * stride], *key = query + keys, *decays = key + keys, *value = decays + keys,
                  *beta = value + values;
      Floats held(values), change(values);
      for (size_t k = 0; k < keys; k++)
        for (size_t v = 0; v < values; v++) {
          state[k * values + v] *= decays[byKey ? k : 0];
          held[v] += state[k * values + v] * key[k];
        }
      for (size_t v = 0; v < values; v++) change[v] = (value[v] - held[v]) * beta[0];
      for (size_t k = 0; k < keys; k++)
        for (size_t v = 0; v < values; v++) {
          state[k * values + v] += key[k] * change[v];
          outputs[t * values + v] += state[k * values + v] * query[k];
        }
    }
    return outputs;
  }
  size_t keys, values, stride;
  bool byKey;
  Floats rows;
};

// All tokens at once, in two pieces, one by one: the outputs and the state that plain loops have.
// step(block, first, count, outputs): so many tokens, from one on, in a block of the state.
template <typename Step>
void checkPieces(size_t rows, size_t columns, const Floats& begin, const Floats& end, const Floats& outputs,
                 const Step& step) {
  for (const std::vector<size_t>& pieces : {std::vector<size_t>{kTokens}, {2, 3}, {1, 1, 1, 1, 1}}) {
    Floats state = blocked(begin, rows, columns), given(outputs.size());
    for (size_t b = 0; b < stateBlocks(columns); b++) {
      const StateBlock block = stateBlock(state.data(), rows, columns, b);
      size_t first = 0;
      for (const size_t count : pieces) {
        step(block, first, count, given.data());
        first += count;
      }
    }
    ASSERT_EQ(given, outputs) << rows << " x " << columns << ", " << pieces.size() << " pieces";
    ASSERT_EQ(state, blocked(end, rows, columns)) << rows << " x " << columns << ", " << pieces.size() << " pieces";
  }
}

TEST(StateSteps, DeltaRuleIsThatOfPlainLoops) {
  for (const auto& [keys, values] : kSizes) {
    for (const bool byKey : {false, true}) {
      const DeltaCase each(keys, values, byKey);
      const Floats begin = drawn(keys * values, 1);
      Floats end = begin;
      const Floats outputs = each.expected(end);
      checkPieces(keys, values, begin, end, outputs,
                  [&, rows = keys](const StateBlock& block, size_t first, size_t count, float* given) {
                    deltaSteps(block.state, rows, block.columns, each.tokens(first, count, block, given));
                  });
    }
  }
}

// Tokens' rows, as lightning attention has them: each head's query, key and value; then a step and a decay, which may
// be those of all tokens.
void checkStateSpace(bool ownFactors) {
  for (const auto& [elements, width] : kSizes) {
    const size_t stride = 2 * elements + width + 2;
    const Floats rows = drawn(kTokens * stride, 3), factors = {1.0f, 0.8f};
    const auto factor = [&](size_t t, size_t at) {
      return ownFactors ? rows[t * stride + 2 * elements + width + at] : factors[at];
    };
    const Floats begin = drawn(elements * width, 2);
    Floats plain = begin, outputs(kTokens * width);
    for (size_t t = 0; t < kTokens; t++) {
      const float *read = &rows[t * stride], *written = read + elements, *input = written + elements;
      for (size_t n = 0; n < elements; n++)
        for (size_t p = 0; p < width; p++) {
          float& held = plain[n * width + p];
          held = held * factor(t, 1) + input[p] * factor(t, 0) * written[n];
          outputs[t * width + p] += held * read[n];
        }
    }
    checkPieces(elements, width, begin, plain, outputs,
                [&, n = elements, w = width](const StateBlock& block, size_t first, size_t count, float* given) {
                  const float* row = rows.data() + first * stride;
                  const float* own = ownFactors ? row + 2 * n + w : factors.data();
                  stateSteps(block.state, n, block.columns,
                             {count, stride, row + 2 * n + block.first, row + n, row, own, own + 1,
                              ownFactors ? stride : 0, given + first * w + block.first, w});
                });
  }
}

TEST(StateSteps, StateSpaceIsThatOfPlainLoops) { checkStateSpace(true); }
TEST(StateSteps, LightningAttentionIsThatOfPlainLoops) { checkStateSpace(false); }

}  // namespace
}  // namespace spillway
