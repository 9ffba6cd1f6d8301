// What the files of the matrix product that are compiled for each instruction set declare to each other.
#pragma once
#include "MatmulKernels.h"
#include "prefetchLine.h"
#include "simd.h"

namespace spillway::SPILLWAY_ISA {

void quantiseRows(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* to);
void quantiseEvenly(const float* values, size_t stride, size_t rows, size_t columns, uint8_t* to);
void multiplyFloat(const MatmulBlock& block, uint8_t* workspace);
void multiplyWords(const MatmulBlock& block, uint8_t* workspace);
// Q8_R.
void multiplyEvenly(const MatmulBlock& block, uint8_t* workspace);

// Rounded activations times the types whose numbers are stored in so many bits. A source a few bits: each type is a set
// of register tiles, and the compiler's time adds up.
template <int Bits>
void multiplyTypesOf(const MatmulBlock& block, uint8_t* workspace);

// By the block's type. `floats`: what multiplies the float types, which have no 8-bit product.
template <typename Floats>
static inline void multiplyByType(const MatmulBlock& block, uint8_t* workspace, Floats floats) {
  withWeightType(block.type, [&](auto type) {
    constexpr WeightType T = decltype(type)::value;
    if constexpr (panelFormat(T).kind == ScaleKind::Row)
      multiplyEvenly(block, workspace);
    else if constexpr (isQuantised(T))
      multiplyTypesOf<panelFormat(T).bits>(block, workspace);
    else
      floats(block, workspace);
  });
}

// Where the accumulators of some rows and panels are: in the output, or, for a panel that is used in part, in the
// workspace.
struct Accumulators {
  float* at;
  size_t stride;
  const float* bias;  // of the first panel, or null
};

// AVX-512 has 32 registers; the others have sixteen, half as wide, or 32 of a quarter, and take one panel at a time.
constexpr int kPanelsTogether = SPILLWAY_ISA_LEVEL == 2 ? static_cast<int>(kQuantisedPanelsPerTile) : 1;

// vpmaddubsw cannot multiply by 8 bits: there such weights are unpacked into two vectors, of their low and their high
// four bits.
static constexpr size_t unpackedVectors(int bits) { return SPILLWAY_ISA_LEVEL == 1 && bits == 8 ? 16 : 8; }

// The zero point of unpacked weights: NEON's of 8 bits are signed.
static constexpr int unpackedZero(const PanelFormat& format) {
  return SPILLWAY_ISA_LEVEL == 3 && format.numberBits() == 8 ? 0 : format.zero;
}

// Memory that is read soon, to be asked for little by little while there is something to compute: `panels` times the
// same two parts of a panel.
class Ahead {
 public:
  Ahead(const uint8_t* panel, size_t panelBytes, int panels, const size_t (&from)[2], const size_t (&bytes)[2])
      : panel_(panel), panelBytes_(panelBytes), from_{from[0], from[1]}, bytes_{bytes[0], bytes[1]}, left_(panels) {}
  // All of it while `tiles` times as many groups are computed.
  void spread(size_t tiles, size_t groups) {
    const size_t steps = tiles * ((groups + kGroupsPerStep - 1) / kGroupsPerStep);
    perStep_ = (static_cast<size_t>(left_) * ((bytes_[0] + bytes_[1]) / kVectorBytes + 2) + steps - 1) / steps;
  }
  // Few enough at a time for the processor to note them all down and go on.
  void step(size_t group) {
    if (group % kGroupsPerStep != 0) return;
    for (size_t i = 0; i < perStep_; i++) {
      if (done_ >= bytes_[part_]) nextPart();
      prefetchLine(panel_ + from_[part_] + done_);
      done_ += kVectorBytes;
    }
  }

 private:
  // Measured on a Zen 4: asked after every group instead of every fourth, Q8_R with 16 rows is at 91% of AVX-512's
  // peak, not 83, Q4_K at 72, not 70; Q6_K on AVX2 is at 42% of its peak then, not 45.
  static constexpr size_t kGroupsPerStep = SPILLWAY_ISA_LEVEL == 2 ? 1 : 4;
  void nextPart() {
    done_ = 0;
    if (part_ == 1 && --left_ > 0) panel_ += panelBytes_;
    part_ = 1 - part_;
  }
  const uint8_t* panel_;
  size_t panelBytes_, from_[2], bytes_[2], done_ = 0, perStep_ = 0;
  int part_ = 0, left_;
};

// Weights of some panels side by side, for some groups, made ready for many rows: scales are unpacked, and vectors too
// unless they are multiplied in place.
struct PreparedWeights {
  const uint8_t* vectors;  // of the first panel: [group][unpackedVectors][64], or as in panels
  size_t panelStride;      // from panel to panel, in bytes
  const float* scales;     // [group][panel][half][2][16]: scale, offset
  size_t groups;
};
constexpr size_t kUnpackedScale = 2 * kPanelOutputs;

// Whether vectors may be multiplied as they lie in panels, unpacked in registers on the way or not packed at all. That
// saves writing and reading unpacked ones, and takes instructions for each tile of rows instead: nibbles are had with
// three of them for two vectors, other widths and a look into a codebook take too many.
static constexpr bool inPlace(const PanelFormat& format) {
  return SPILLWAY_ISA_LEVEL == 2 && format.scalesPerGroup == 1 && format.codebook == nullptr &&
         (format.bits == 4 || format.bits == 8);
}

// What of a product begins and what ends with some groups of it.
struct Ends {
  bool first;  // the accumulators begin
  bool last;   // the accumulators are complete: the rows' factors and the bias are what is left
};

// Adds the products of weights with rows to their accumulators. Compiled once for all types of the same arithmetic.
using MultiplyPrepared = void (*)(const PreparedWeights& weights, const QuantisedTile* tiles, size_t tileStride,
                                  size_t starts, size_t rows, Ends ends, const Accumulators& accumulators, Ahead ahead);
MultiplyPrepared multiplyPrepared(const PanelFormat& format, int panels, bool inPlace);

}  // namespace spillway::SPILLWAY_ISA
