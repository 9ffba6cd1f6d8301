// Sums of codes of 8 and 4 bits times integers (quantisedAttention.cpp), for tiles of queries and lanes. Included by sources that are compiled for each
// instruction set.
#pragma once
#include "quantisedOperands.h"

namespace spillway::SPILLWAY_ISA {

// How many units of lanes are worked on together with `queries` queries, a sum a digit each: as many as the registers hold.
constexpr int kUnitsPerLine = 16 / kUnitLanes;
constexpr int tileUnits(int queries, int digits) {
  if (SPILLWAY_ISA_LEVEL == 1 && digits == 2) return queries > 2 ? 2 : 4;  // words
  const int sums = queries * digits, most = SPILLWAY_ISA_LEVEL == 2 ? 24 : 12;
  return 4 * sums <= most ? 4 : 2 * sums <= most ? 2 : 1;
}
// The same in whole lines, one at least; and units of `lines` lines at once.
constexpr int tileLines(int queries, int digits) {
  return tileUnits(queries, digits) < kUnitsPerLine ? 1 : tileUnits(queries, digits) / kUnitsPerLine;
}
constexpr int unitsOf(int queries, int digits, int lines) {
  return tileUnits(queries, digits) < lines * kUnitsPerLine ? tileUnits(queries, digits) : lines * kUnitsPerLine;
}

#define SPILLWAY_EACH_SUM          \
  SPILLWAY_UNROLL(8)               \
  for (int q = 0; q < Q; q++)      \
    SPILLWAY_UNROLL(3)             \
    for (int digit = 0; digit < Digits; digit++) \
      SPILLWAY_UNROLL(4)           \
      for (int u = 0; u < U; u++)

// The sums of Q queries and U units: exact, of each digit.
template <int Digits, int Q, int U>
struct DotTile {
  Wide wide[Q][Digits][U];

  void clear() {
    SPILLWAY_EACH_SUM wide[q][digit][u] = zeroWide();
  }
  template <int Shift>
  void take(const Dots (&dots)[Q][Digits][U]) {
    SPILLWAY_EACH_SUM wide[q][digit][u] = widen<Shift>(wide[q][digit][u], dots[q][digit][u]);
  }
  void write(float* to, size_t queryStride) const {
    SPILLWAY_UNROLL(8)
    for (int q = 0; q < Q; q++) {
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) {
        float* lanes = to + q * queryStride + u * kUnitLanes;
        if (Digits == 2) combine(lanes, wide[q][Digits - 1][u], wide[q][0][u]);
        else combine(lanes, wide[q][Digits - 1][u], wide[q][1][u], wide[q][0][u]);
      }
    }
  }
};

template <int Digits, int Q, int U>
static inline void clearDots(Dots (&dots)[Q][Digits][U]) {
  SPILLWAY_EACH_SUM dots[q][digit][u] = zeroDots();
}

// Four codes a lane times four bytes a query and digit; `bytes`: those of the first query's lowest digit.
template <int Digits, int Q, int U>
static inline __attribute__((always_inline)) void addDots(Dots (&dots)[Q][Digits][U], const Codes (&codes)[U], const int8_t* bytes, size_t digitStride, size_t queryStride) {
  SPILLWAY_EACH_SUM dots[q][digit][u] = dot(dots[q][digit][u], codes[u], bytes + q * queryStride + digit * digitStride);
}
#undef SPILLWAY_EACH_SUM

// Bytes of a tile's queries: from query to query, from digit to digit.
struct DigitStrides {
  size_t query, digit;
};

// ---- Keys.

// `lines` lines of keys, plane by plane where dot() needs it.
template <int Bits, int Digits, int Plane, int Shift, int Q, int U>
static inline void keyLines(DotTile<Digits, Q, U>& tile, const uint8_t* const (&units)[U], size_t lines, const int8_t* bytes, DigitStrides strides) {
  Dots dots[Q][Digits][U];
  clearDots<Digits, Q, U>(dots);
  for (size_t line = 0; line < lines; line++) {
    Codes codes[U], plane[U];
    SPILLWAY_UNROLL(4)
    for (int u = 0; u < U; u++) codes[u] = loadCodes(units[u] + line * kCacheLine), plane[u] = codesOf(codes[u], Plane);
    addDots<Digits, Q, U>(dots, plane, bytes, strides.digit, strides.query);
    bytes += 4;
    if (Bits == 4) {
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++) plane[u] = codesOf(codes[u], 1);
      addDots<Digits, Q, U>(dots, plane, bytes, strides.digit, strides.query);
      bytes += 4;
    }
  }
  tile.template take<Shift>(dots);
}

// to[q][lane] = the queries' integers times the codes of `lines` lines.
template <int Bits, int Digits, int Q, int U>
static inline void keyTile(const uint8_t* const (&first)[U], size_t lines, const int8_t* bytes, DigitStrides strides, float* to, size_t toStride) {
  if constexpr (kMultipliesWords<Digits>) {
    WordTile<Q, U> tile;
    tile.clear();
    for (size_t line = 0; line < lines; line++) {
      Codes codes[U];
      SPILLWAY_UNROLL(2)
      for (int plane = 0; plane < (Bits == 4 ? 2 : 1); plane++, bytes += 8) {
        SPILLWAY_UNROLL(4)
        for (int u = 0; u < U; u++) codes[u] = codesOf(loadCodes(first[u] + line * kCacheLine), Bits == 4 ? plane : kWholeBytes);
        tile.add(codes, bytes, strides.query);
      }
    }
    tile.write(to, toStride);
  } else {
    constexpr size_t kMostLines = Bits == 4 ? kMostDots / 2 : kMostDots;
    DotTile<Digits, Q, U> tile;
    tile.clear();
    const uint8_t* units[U];
    for (int u = 0; u < U; u++) units[u] = first[u];
    for (size_t done = 0; done < lines;) {
      const size_t now = lines - done < kMostLines ? lines - done : kMostLines;
      if (Bits == 4) {
        keyLines<4, Digits, 0, 0, Q, U>(tile, units, now, bytes, strides);
      } else if (kBytePlanes == 1) {
        keyLines<8, Digits, kWholeBytes, 0, Q, U>(tile, units, now, bytes, strides);
      } else {
        keyLines<8, Digits, 0, 0, Q, U>(tile, units, now, bytes, strides);
        keyLines<8, Digits, 1, 4, Q, U>(tile, units, now, bytes, strides);
      }
      done += now;
      bytes += now * (Bits == 4 ? 8 : 4);
      for (int u = 0; u < U; u++) units[u] += now * kCacheLine;
    }
    tile.write(to, toStride);
  }
}

// ---- Values.

// `blocks` blocks of 16 tokens; `units`: where in a block the units are. Unit u is of plane Plane + u / kUnitsPerLine where nibbles hold elements of their own.
template <int Bits, int Digits, int Plane, int Shift, int Q, int U>
static inline void valueBlocks(DotTile<Digits, Q, U>& tile, const uint8_t* const* blocks, uint32_t count, const size_t (&units)[U], size_t quadBytes, const int8_t* bytes,
                               DigitStrides strides) {
  Dots dots[Q][Digits][U];
  clearDots<Digits, Q, U>(dots);
  for (uint32_t block = 0; block < count; block++) {
    for (size_t quad = 0; quad < 4; quad++, bytes += 4) {
      Codes codes[U];
      SPILLWAY_UNROLL(4)
      for (int u = 0; u < U; u++)
        codes[u] = codesOf(loadCodes(blocks[block] + units[u] + quad * quadBytes), Bits == 4 ? (Plane + u / kUnitsPerLine) % 2 : Plane);
      addDots<Digits, Q, U>(dots, codes, bytes, strides.digit, strides.query);
    }
  }
  tile.template take<Shift>(dots);
}

// to[q][lane] = the queries' integers times the codes of `count` blocks.
template <int Bits, int Digits, int Plane, int Q, int U>
static inline void valueTile(const uint8_t* const* blocks, uint32_t count, const size_t (&units)[U], size_t quadBytes, const int8_t* bytes, DigitStrides strides, float* to,
                             size_t toStride) {
  if constexpr (kMultipliesWords<Digits>) {
    WordTile<Q, U> tile;
    tile.clear();
    for (uint32_t block = 0; block < count; block++) {
      for (size_t quad = 0; quad < 4; quad++) {
        Codes codes[U];
        SPILLWAY_UNROLL(4)
        for (int u = 0; u < U; u++)
          codes[u] = codesOf(loadCodes(blocks[block] + units[u] + quad * quadBytes), Bits == 4 ? (Plane + u / kUnitsPerLine) % 2 : kWholeBytes);
        tile.add(codes, bytes + (block * 4 + quad) * 8, strides.query);
      }
    }
    tile.write(to, toStride);
  } else {
    constexpr uint32_t kMostBlocks = kMostDots / 4;
    DotTile<Digits, Q, U> tile;
    tile.clear();
    for (uint32_t done = 0; done < count;) {
      const uint32_t now = count - done < kMostBlocks ? count - done : kMostBlocks;
      if (Bits == 4) {
        valueBlocks<4, Digits, Plane, 0, Q, U>(tile, blocks, now, units, quadBytes, bytes, strides);
      } else if (kBytePlanes == 1) {
        valueBlocks<8, Digits, kWholeBytes, 0, Q, U>(tile, blocks, now, units, quadBytes, bytes, strides);
      } else {
        valueBlocks<8, Digits, 0, 0, Q, U>(tile, blocks, now, units, quadBytes, bytes, strides);
        valueBlocks<8, Digits, 1, 4, Q, U>(tile, blocks, now, units, quadBytes, bytes, strides);
      }
      done += now;
      bytes += now * 16;
      blocks += now;
    }
    tile.write(to, toStride);
  }
}

}  // namespace spillway::SPILLWAY_ISA
