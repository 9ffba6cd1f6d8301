// The tensor cores' matrix product, and loading what it needs from shared memory.
#pragma once
#include "halfFloat.h"

namespace spillway::cuda {

// Rows that the tensor cores take from shared memory stand there 32 halves at a time: [rows][kRowBytes].
constexpr unsigned kRowBytes = 64;

// Where 16 bytes of a row, one of four, lie: the eight rows that are read at once fall on different banks. For
// warpgroups it is the swizzle of 64 bytes, of an address whose last nine bits are zeros.
__host__ __device__ constexpr unsigned rowPlace(unsigned row, unsigned piece) {
  return row * kRowBytes + (piece ^ (row / 2 % 4)) * 16;
}

#if !defined(__CUDACC__)
using Eight = float __attribute__((vector_size(32)));

// Each sum from its first term on. Of the emulator's own arrays: a sanitizer has nothing to find here, and would take
// most of the time that tests with one take.
__attribute__((no_sanitize("address", "undefined"))) inline void multiplyMatrices(const float (&a)[16][16],
                                                                                  const Eight (&b)[16],
                                                                                  Eight (&product)[16]) {
  for (int row = 0; row < 16; row++) {
    Eight sums = {};
    for (int k = 0; k < 16; k++) sums += a[row][k] * b[k];
    product[row] = sums;
  }
}

struct MmaLane {
  float* d;
  const uint32_t *a, *b;
};

// The PTX layout of m16n8k16: lane = 4 * group + index. a[0]: row group, columns 2 index and on; a[1]: row + 8; a[2]:
// columns + 8; a[3]: both. b[0]: rows 2 index and on of column group; b[1]: rows + 8. d[0], d[1]: row group, columns 2
// index and on; d[2], d[3]: row + 8.
inline void completeMma(void* const lanes[32]) {
  float a[16][16];
  Eight b[16], product[16];
  const auto half = [](uint32_t word, int i) { return halfToFloat(static_cast<uint16_t>(word >> (16 * i))); };
  for (int lane = 0; lane < 32; lane++) {
    const MmaLane& mine = *static_cast<const MmaLane*>(lanes[lane]);
    for (int i = 0; i < 2; i++) {
      for (int r = 0; r < 4; r++) a[lane / 4 + 8 * (r % 2)][lane % 4 * 2 + i + 8 * (r / 2)] = half(mine.a[r], i);
      for (int r = 0; r < 2; r++) b[lane % 4 * 2 + i + 8 * r][lane / 4] = half(mine.b[r], i);
    }
  }
  multiplyMatrices(a, b, product);
  for (int lane = 0; lane < 32; lane++) {
    float* d = static_cast<const MmaLane*>(lanes[lane])->d;
    for (int i = 0; i < 4; i++) d[i] += product[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2];
  }
}

struct MatricesLane {
  const uint16_t* row;
  uint32_t* result;
};

inline void completeMatrices(void* const lanes[32]) {
  for (int lane = 0; lane < 32; lane++)
    for (int matrix = 0; matrix < 4; matrix++) {
      // The lane gets columns 2 index and 2 index + 1 of row group.
      const uint16_t* row = static_cast<const MatricesLane*>(lanes[8 * matrix + lane / 4])->row;
      const uint32_t low = row[lane % 4 * 2], high = row[lane % 4 * 2 + 1];
      static_cast<const MatricesLane*>(lanes[lane])->result[matrix] = high << 16 | low;
    }
}

inline void completeTransposed(void* const lanes[32]) {
  for (int lane = 0; lane < 32; lane++)
    for (int matrix = 0; matrix < 4; matrix++) {
      // Transposed: the lane gets rows 2 index and 2 index + 1 of column group.
      const auto row = [&](int r) { return static_cast<const MatricesLane*>(lanes[8 * matrix + r])->row; };
      const uint32_t low = row(lane % 4 * 2)[lane / 4], high = row(lane % 4 * 2 + 1)[lane / 4];
      static_cast<const MatricesLane*>(lanes[lane])->result[matrix] = high << 16 | low;
    }
}
#endif

// d[16 x 8] += a[16 x 16] b[16 x 8], by a whole warp; halves, summed in float. Each element of d depends on its own row
// and column alone.
__device__ __forceinline__ void mma16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2]) {
#if defined(__CUDA_ARCH__)
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif !defined(__CUDACC__)
  MmaLane mine{d, a, b};
  emulator::collective(kAllLanes, emulator::WarpOperation::Matrix, &mine, completeMma);
#endif
}

// Four 8 x 8 matrices of halves from shared memory, transposed: lane 8 m + r gives the address of row r of matrix m (16
// bytes, aligned). result[m] is then what a lane holds of matrix m as the b of mma16x8x16 with rows as k.
__device__ __forceinline__ void loadMatricesTransposed(uint32_t result[4], const uint16_t* row) {
#if defined(__CUDA_ARCH__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
               : "r"(address)
               : "memory");
#elif !defined(__CUDACC__)
  MatricesLane mine{row, result};
  emulator::collective(kAllLanes, emulator::WarpOperation::Matrix, &mine, completeTransposed);
#endif
}

// The same as they lie: result[m] is what a lane holds of matrix m in the a of mma16x8x16.
__device__ __forceinline__ void loadMatrices(uint32_t result[4], const uint16_t* row) {
#if defined(__CUDA_ARCH__)
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3])
               : "r"(address)
               : "memory");
#elif !defined(__CUDACC__)
  MatricesLane mine{row, result};
  emulator::collective(kAllLanes, emulator::WarpOperation::Matrix, &mine, completeMatrices);
#endif
}

}  // namespace spillway::cuda
