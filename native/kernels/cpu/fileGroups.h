// Takes a file's blocks apart: one row's values of one block, unsigned, and its scales. Portable; used by packing
// and unpacking.
#pragma once
#include "panelLayout.h"

namespace spillway {

// One block of a row (32 inputs, 64, or 256 for K types), in the terms of panelLayout.h.
struct FileBlock {
  uint8_t values[256];  // as they are stored: q, or its index in the codebook
  uint16_t scale;       // half, NaN if infinite in the file: scale, or d of a K type; Exponent: that
  uint16_t offset;      // likewise: offset, or dmin of a K type; 0 where the format has none
  uint8_t scales[16];   // K types: SuperMinimum [8] scales, then [8] minimums; SuperNibbles [16]; SuperSigned [16] and
                        // SuperGroups [8] int8
};

void readFileBlock(WeightType type, const uint8_t* bytes, FileBlock& block);

}  // namespace spillway
