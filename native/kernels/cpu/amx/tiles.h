// The eight tile registers of AMX as the matrix products use them: up to four tiles of rows by one panel.
//   0 1 2 3   accumulators, float [rows][16 outputs]
//   4 5 7     activations, bfloat16 [rows][32 inputs]: 4 of rows 0 and, of four, 2; 5 of rows 1; 7 of the third or
//   fourth, the last 6         weights, bfloat16 [16 pairs of inputs][16 outputs][2]
// In assembly: compilers' intrinsics do not say which memory a tile load reads (g++ 12 moves stores past it, and takes
// ldtilecfg to read eight bytes).
#pragma once
#include <stddef.h>
#include <stdint.h>

#define SPILLWAY_TILE_LOAD(tile, from, stride) \
  asm volatile("tileloadd (%0,%1,1), %%tmm" #tile::"r"(from), "r"(static_cast<long>(stride)) : "memory")
#define SPILLWAY_TILE_STORE(tile, to, stride) \
  asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(static_cast<long>(stride)) : "memory")
#define SPILLWAY_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile::)
#define SPILLWAY_TILE_MULTIPLY(accumulators, rows, weights) \
  asm volatile("tdpbf16ps %%tmm" #weights ", %%tmm" #rows ", %%tmm" #accumulators::)

namespace spillway::SPILLWAY_ISA {

constexpr size_t kAmxRows = 16;      // of a tile
constexpr size_t kAmxInputs = 32;    // of a tile of activations or weights
constexpr size_t kAmxRowBytes = 64;  // of every tile
constexpr size_t kAmxTileBytes = 1024;

// The shape of the registers, as long as this object lives. Without it a thread's switches cost no more than they
// always do: tiles are 8 KiB to save.
class TileShape {
 public:
  TileShape() = default;
  TileShape(const TileShape&) = delete;
  TileShape& operator=(const TileShape&) = delete;
  ~TileShape() { asm volatile("tilerelease" ::); }

  // For `tiles` tiles of rows; the last one has `last` rows, 1 to 16, the others all. Clears all registers.
  void set(size_t tiles, size_t last) {
    alignas(64) Configuration shape = {};
    shape.palette = 1;
    for (int tile = 0; tile < 8; tile++) {
      shape.rowBytes[tile] = kAmxRowBytes;
      shape.rows[tile] = kAmxRows;
    }
    shape.rows[tiles - 1] = static_cast<uint8_t>(last);
    shape.rows[tiles > 2 ? 7 : tiles == 2 ? 5 : 4] = static_cast<uint8_t>(last);  // no other tile of rows is put there
    asm volatile("ldtilecfg %0" ::"m"(shape));
  }

 private:
  struct Configuration {  // what ldtilecfg reads
    uint8_t palette, startRow, reserved[14];
    uint16_t rowBytes[16];
    uint8_t rows[16];
  };
  static_assert(sizeof(Configuration) == 64, "as the processor has it");
};

}  // namespace spillway::SPILLWAY_ISA
