// Activations to 8 bits with one scale a row (EvenTile). Compiled for each instruction set (simd.h).
#include "dot.h"
#include "matmulIsa.h"
#include "roundGroups.h"

namespace spillway::SPILLWAY_ISA {
namespace {

// Groups beyond so many times the mean of a row have more digits. Perplexity of SmolLM2 (Q4_1, 2,048 tokens): 53.43
// with 3, 52.91 with 2, 53.12 with 1.5; 52.91 with a scale for each group.
constexpr float kDigitsOver = 2;

struct RowRounding {
  float scale, inverse;
};

// `sum`: of the magnitudes of a row's groups; `reference`: the largest of them that has one digit; `most`: of all.
RowRounding roundingOf(float reference, float most, float sum) {
  if (!(most <= kLargestRounded)) return {__builtin_nanf(""), 0};
  if (!(most >= kSmallest)) return {1.0f, 0};
  const float largest = reference >= kSmallest ? reference : most;
  const float own = largest * (1.0f / 127.0f), least = sum * (1.0f / kMostEvenSum), scale = own > least ? own : least;
  return {scale, 1.0f / scale};
}

i32x16 rounded(const float* values, float inverse) { return integers(biased(load(values), set1(inverse))); }

// A digit of integers, rounded to the nearest, which leaves what is below it.
i32x16 higher(i32x16& values) {
  const i32x16 digit = shiftRight<kDigitBits>(add(values, set1Int(1 << (kDigitBits - 1))));
  values = sub(values, shiftLeft<kDigitBits>(digit));
  return digit;
}

void storeDigit(int8_t (&values)[kGroupInputs], i32x16 first, i32x16 second) {
  int32_t sums[2];
  storeInt8(values, first, second, sums);
}

// Modulo 2^32: the sums of integers lane by lane, added up.
uint32_t sumOf(i32x16 sums) {
  float stored[16];
  store(stored, asFloat(sums));
  uint32_t lanes[16], sum = 0;
  __builtin_memcpy(lanes, stored, sizeof lanes);
  for (const uint32_t lane : lanes) sum += lane;
  return sum;
}

// One group of R rows; adds to the rows' sums, lane by lane. `digits`: where higher ones go. Returns how many come.
template <size_t R>
uint32_t storeGroup(const float* values, size_t stride, size_t group, const float largest[R], const RowRounding rows[R],
                    EvenGroup& to, EvenDigits* digits, i32x16 sums[R]) {
  uint32_t having[2] = {};  // rows that have a digit of each place
  for (size_t lane = 0; lane < R; lane++) {
    // A value that has one digit is at most 127, which 127.4 rounds to.
    const float size = largest[lane] * rows[lane].inverse;
    having[0] |= uint32_t{size > 127.4f} << lane;
    having[1] |= uint32_t{size > 127.4f * 128.0f} << lane;
  }
  const uint32_t count = having[1] != 0 ? 2 : having[0] != 0 ? 1 : 0;
  for (uint32_t d = 0; d < count; d++) {
    digits[d].group = static_cast<uint32_t>(group);
    digits[d].place = d + 1;
    digits[d].rows = having[d];
  }
  i32x16 first[R], second[R];
  SPILLWAY_UNROLL(4)
  for (size_t lane = 0; lane < R; lane++) {
    const float* from = values + lane * stride;
    first[lane] = second[lane] = set1Int(0);
    if (rows[lane].inverse != 0) {  // NaN and infinity have no integers
      first[lane] = rounded(from, rows[lane].inverse);
      second[lane] = rounded(from + 16, rows[lane].inverse);
    }
    sums[lane] = add(sums[lane], add(first[lane], second[lane]));
  }
  if constexpr (R == kTileRows) {
    if (count == 0) {
      storeRows(to.values, first, second);
      return 0;
    }
  }
  for (size_t lane = 0; lane < R; lane++) {
    if (count > 0) {
      i32x16 firstHigh = set1Int(0), secondHigh = firstHigh;
      if (having[0] >> lane & 1) firstHigh = higher(first[lane]), secondHigh = higher(second[lane]);
      if (count == 2) {
        i32x16 firstTop = set1Int(0), secondTop = firstTop;
        if (having[1] >> lane & 1) firstTop = higher(firstHigh), secondTop = higher(secondHigh);
        storeDigit(digits[1].values[lane], firstTop, secondTop);
      }
      storeDigit(digits[0].values[lane], firstHigh, secondHigh);
    }
    storeDigit(to.values[lane], first[lane], second[lane]);
  }
  return count;
}

template <size_t R>
void quantiseTile(const float* values, size_t stride, size_t columns, EvenTile& tile) {
  const size_t groups = columns / kGroupInputs;
  EvenGroup* const to = reinterpret_cast<EvenGroup*>(&tile + 1);
  EvenDigits* const digits = reinterpret_cast<EvenDigits*>(to + groups);
  // Until a group is rounded, the magnitudes stand where its values will.
  const auto magnitudesOf = [&](size_t g) { return reinterpret_cast<float*>(to[g].values); };
  float sum[R] = {}, over[R] = {}, most[R] = {}, reference[R] = {};
  for (size_t g = 0; g < groups; g++) {
    float largest[R];
    largestOfEach<R>(values + g * kGroupInputs, stride, largest);
    __builtin_memcpy(magnitudesOf(g), largest, sizeof largest);
    for (size_t lane = 0; lane < R; lane++) sum[lane] += largest[lane];
    for (size_t lane = 0; lane < R; lane++) most[lane] = largest[lane] > most[lane] ? largest[lane] : most[lane];
  }
  for (size_t lane = 0; lane < R; lane++) over[lane] = sum[lane] * (kDigitsOver / static_cast<float>(groups));
  for (size_t g = 0; g < groups; g++) {
    float largest[R];
    __builtin_memcpy(largest, magnitudesOf(g), sizeof largest);
    for (size_t lane = 0; lane < R; lane++)
      reference[lane] =
          largest[lane] <= over[lane] && largest[lane] > reference[lane] ? largest[lane] : reference[lane];
  }
  RowRounding rows[R];
  for (size_t lane = 0; lane < R; lane++) rows[lane] = roundingOf(reference[lane], most[lane], sum[lane]);
  i32x16 sums[R];
  for (size_t lane = 0; lane < R; lane++) sums[lane] = set1Int(0);
  uint32_t count = 0;
  for (size_t g = 0; g < groups; g++) {
    float largest[R];
    __builtin_memcpy(largest, magnitudesOf(g), sizeof largest);
    count += storeGroup<R>(values + g * kGroupInputs, stride, g, largest, rows, to[g], digits + count, sums);
  }
  tile.digits = count;
  for (size_t lane = 0; lane < R; lane++) {
    tile.scale[lane] = rows[lane].scale;
    tile.start128[lane] = static_cast<int32_t>(0u - 128u * sumOf(sums[lane]));
  }
}

}  // namespace

void quantiseEvenly(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* to) {
  EvenTile& tile = *reinterpret_cast<EvenTile*>(to);
  switch (rows) {
    case 1: return quantiseTile<1>(values, stride, columns, tile);
    case 2: return quantiseTile<2>(values, stride, columns, tile);
    case 3: return quantiseTile<3>(values, stride, columns, tile);
    default: return quantiseTile<4>(values, stride, columns, tile);
  }
}

}  // namespace spillway::SPILLWAY_ISA
