// Sums of codes of 8 and 4 bits times integers (quantisedAttention.cpp), for tiles of queries and lanes. Included by
// sources that are compiled for each instruction set.
#pragma once
#include "cacheOperands.h"

namespace spillway::SPILLWAY_ISA {

// How many units of lanes are worked on together with `queries` queries, a sum a digit each: as many as the registers
// hold, with what is multiplied.
constexpr int kUnitsPerLine = 16 / kUnitLanes;
constexpr int tileUnits(int queries, int digits) {
  if (SPILLWAY_ISA_LEVEL == 1 && digits < 3) return queries > 2 ? 2 : 4;
  const int sums = queries * digits, most = SPILLWAY_ISA_LEVEL == 2 ? 24 : 12;
  return 4 * sums <= most ? 4 : 2 * sums <= most ? 2 : 1;
}
// The same in whole lines, one at least; and units of `lines` lines at once.
constexpr int tileLines(int queries, int digits) {
  if (SPILLWAY_ISA_LEVEL == 1 && digits == 1) return 2;  // keys' lines share what is done once a tile
  return tileUnits(queries, digits) < kUnitsPerLine ? 1 : tileUnits(queries, digits) / kUnitsPerLine;
}
constexpr int unitsOf(int queries, int digits, int lines) {
  return tileUnits(queries, digits) < lines * kUnitsPerLine ? tileUnits(queries, digits) : lines * kUnitsPerLine;
}

#define SPILLWAY_EACH_SUM                                         \
  SPILLWAY_UNROLL(8)                                              \
  for (int q = 0; q < Q; q++) SPILLWAY_UNROLL(3)                  \
  for (int digit = 0; digit < Digits; digit++) SPILLWAY_UNROLL(4) \
  for (int u = 0; u < U; u++)

// The sums of Q queries and U units: exact, of each digit.
template <int Digits, int Q, int U>
struct DotTile {
  Wide wide[Q][Digits][U];

  void clear() { SPILLWAY_EACH_SUM wide[q][digit][u] = zeroWide(); }
  // Adds what `sum` adds to the dots that it is given, times 2^Shift.
  template <int Shift, typename Sum>
  __attribute__((always_inline)) void add(const Sum& sum) {
    if constexpr (kDotsAreWide) {
      static_assert(Shift == 0, "codes are multiplied whole");
      sum(wide);
    } else {
      Dots dots[Q][Digits][U];
      SPILLWAY_EACH_SUM dots[q][digit][u] = zeroDots();
      sum(dots);
      SPILLWAY_EACH_SUM wide[q][digit][u] = widen<Shift>(wide[q][digit][u], dots[q][digit][u]);
    }
  }
  void write(float* to, size_t queryStride) const {
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) {
        float* lanes = to + q * queryStride + u * kUnitLanes;
        if constexpr (Digits == 1)
          combine(lanes, wide[q][0][u]);
        else if constexpr (Digits == 2)
          combine(lanes, wide[q][1][u], wide[q][0][u]);
        else
          combine(lanes, wide[q][2][u], wide[q][1][u], wide[q][0][u]);
      }
    }
  }
};

// Bytes of a tile's queries: from query to query, from digit to digit.
struct DigitStrides {
  size_t query, digit;
};

// Four codes a lane times four bytes a query and digit; `bytes`: those of the first query's lowest digit.
template <int Digits, int Q, int U>
static inline __attribute__((always_inline)) void addDots(Dots (&dots)[Q][Digits][U], const Codes (&codes)[U],
                                                          const int8_t* bytes, DigitStrides strides) {
  SPILLWAY_EACH_SUM dots[q][digit][u] =
      dot(dots[q][digit][u], codes[u], bytes + q * strides.query + digit * strides.digit);
}
#undef SPILLWAY_EACH_SUM

// body(begin, end) for all of `n`, in steps of at most `Most` where dots overflow.
template <int Most, typename Body>
static inline __attribute__((always_inline)) void inSteps(size_t n, const Body& body) {
  if constexpr (kDotsAreWide)
    body(0, n);
  else
    for (size_t begin = 0; begin < n; begin += Most) body(begin, n - begin < Most ? n : begin + Most);
}

// ---- Keys.

// Lines of keys from `line` to `end`, one at least, plane by plane where dot() needs it.
template <int Bits, int Digits, int Plane, int Shift, int Q, int U>
static inline void keyLines(DotTile<Digits, Q, U>& tile, const uint8_t* const (&units)[U], size_t line, size_t end,
                            const int8_t* bytes, DigitStrides strides) {
  tile.template add<Shift>([&](Dots(&dots)[Q][Digits][U]) __attribute__((always_inline)) {
    const int8_t* next = bytes + line * (Bits == 4 ? 8 : 4);
    do {
      Codes codes[U], plane[U];
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++)
        codes[u] = loadCodes(units[u] + line * kCacheLine), plane[u] = codesOf(codes[u], Plane);
      addDots<Digits, Q, U>(dots, plane, next, strides);
      next += 4;
      if constexpr (Bits == 4) {
        SPILLWAY_UNROLL(4)
        for (int u = 0; u < U; u++) plane[u] = codesOf(codes[u], 1);
        addDots<Digits, Q, U>(dots, plane, next, strides);
        next += 4;
      }
    } while (++line < end);
  });
}

// to[q][lane] = the queries' integers times the codes of `lines` lines.
template <int Bits, int Digits, int Q, int U>
static inline void keyTile(const uint8_t* const (&units)[U], size_t lines, const int8_t* bytes, DigitStrides strides,
                           float* to, size_t toStride) {
  if constexpr (kMultipliesWords<Digits>) {
    WordTile<Q, U> tile;
    tile.clear();
    for (size_t line = 0; line < lines; line++) {
      Codes codes[U];
      SPILLWAY_UNROLL(2)
      for (int plane = 0; plane < (Bits == 4 ? 2 : 1); plane++, bytes += 8) {
        SPILLWAY_UNROLL(4)
        for (int u = 0; u < U; u++)
          codes[u] = codesOf(loadCodes(units[u] + line * kCacheLine), Bits == 4 ? plane : kWholeBytes);
        tile.add(codes, bytes, strides.query);
      }
    }
    tile.write(to, toStride);
  } else {
    DotTile<Digits, Q, U> tile;
    tile.clear();
    inSteps<Bits == 4 ? kMostDots / 2 : kMostDots>(lines, [&](size_t begin, size_t end) __attribute__((always_inline)) {
      if constexpr (Bits == 4) {
        keyLines<4, Digits, 0, 0, Q, U>(tile, units, begin, end, bytes, strides);
      } else if constexpr (kBytePlanes == 1) {
        keyLines<8, Digits, kWholeBytes, 0, Q, U>(tile, units, begin, end, bytes, strides);
      } else {
        keyLines<8, Digits, 0, 0, Q, U>(tile, units, begin, end, bytes, strides);
        keyLines<8, Digits, 1, 4, Q, U>(tile, units, begin, end, bytes, strides);
      }
    });
    tile.write(to, toStride);
  }
}

// ---- Values.

// Blocks of 16 tokens from `block` to `end`, one at least; `units`: where in a block the units are. Unit u is of plane
// Plane + u / kUnitsPerLine where nibbles hold elements of their own.
template <int Bits, int Digits, int Plane, int Shift, int Q, int U>
static inline void valueBlocks(DotTile<Digits, Q, U>& tile, const uint8_t* const* blocks, size_t block, size_t end,
                               const size_t (&units)[U], size_t quadBytes, const int8_t* bytes, DigitStrides strides) {
  tile.template add<Shift>([&](Dots(&dots)[Q][Digits][U]) __attribute__((always_inline)) {
    const int8_t* next = bytes + block * 16;
    do {
      for (size_t quad = 0; quad < 4; quad++, next += 4) {
        Codes codes[U];
        SPILLWAY_UNROLL(4)
        for (int u = 0; u < U; u++)
          codes[u] = codesOf(loadCodes(blocks[block] + units[u] + quad * quadBytes),
                             Bits == 4 ? (Plane + u / kUnitsPerLine) % 2 : Plane);
        addDots<Digits, Q, U>(dots, codes, next, strides);
      }
    } while (++block < end);
  });
}

// to[q][lane] = the queries' integers times the codes of `count` blocks.
template <int Bits, int Digits, int Plane, int Q, int U>
static inline void valueTile(const uint8_t* const* blocks, uint32_t count, const size_t (&units)[U], size_t quadBytes,
                             const int8_t* bytes, DigitStrides strides, float* to, size_t toStride) {
  if constexpr (kMultipliesWords<Digits>) {
    WordTile<Q, U> tile;
    tile.clear();
    for (uint32_t block = 0; block < count; block++) {
      for (size_t quad = 0; quad < 4; quad++) {
        Codes codes[U];
        SPILLWAY_UNROLL(4)
        for (int u = 0; u < U; u++)
          codes[u] = codesOf(loadCodes(blocks[block] + units[u] + quad * quadBytes),
                             Bits == 4 ? (Plane + u / kUnitsPerLine) % 2 : kWholeBytes);
        tile.add(codes, bytes + (block * 4 + quad) * 8, strides.query);
      }
    }
    tile.write(to, toStride);
  } else {
    DotTile<Digits, Q, U> tile;
    tile.clear();
    inSteps<kMostDots / 4>(count, [&](size_t begin, size_t end) __attribute__((always_inline)) {
      if constexpr (Bits == 4) {
        valueBlocks<4, Digits, Plane, 0, Q, U>(tile, blocks, begin, end, units, quadBytes, bytes, strides);
      } else if constexpr (kBytePlanes == 1) {
        valueBlocks<8, Digits, kWholeBytes, 0, Q, U>(tile, blocks, begin, end, units, quadBytes, bytes, strides);
      } else {
        valueBlocks<8, Digits, 0, 0, Q, U>(tile, blocks, begin, end, units, quadBytes, bytes, strides);
        valueBlocks<8, Digits, 1, 4, Q, U>(tile, blocks, begin, end, units, quadBytes, bytes, strides);
      }
    });
    tile.write(to, toStride);
  }
}

}  // namespace spillway::SPILLWAY_ISA
