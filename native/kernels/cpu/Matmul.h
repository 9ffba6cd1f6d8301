// y = x Wᵀ + b for weights in panels of 16 outputs: packing, and products over batches of rows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../../runtime/Scratch.h"
#include "Kernels.h"

namespace spillway {

// Numbers are GGML's type ids (ggml.h).
enum class WeightType : uint8_t { F32 = 0, F16 = 1, Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q2_K = 10, Q3_K = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14, BF16 = 30 };

bool isWeightType(int number);
size_t weightBlockElements(WeightType type);
size_t weightBlockBytes(WeightType type);
// Bytes of one row of `inputs` elements as it stands in a file; inputs is a multiple of the block.
size_t weightRowBytes(WeightType type, size_t inputs);

constexpr size_t kPanelOutputs = 16;

// A matrix [outputs, inputs] in the kernels' own layout: panels of 16 consecutive outputs, one after another, each 64-byte aligned;
// the last one is filled up with zero rows. Values keep the file's precision and bits.
struct WeightMatrix {
  WeightType type;
  uint32_t outputs;
  uint32_t inputs;
  const uint8_t* panels;
};

size_t panelBytes(WeightType type, size_t inputs);                    // a multiple of 64
size_t packedBytes(WeightType type, size_t outputs, size_t inputs);
// Packs 16 rows, each as it stands in a file (unaligned); a null row is zeros. Runs on any thread; portable.
void packPanel(WeightType type, size_t inputs, const uint8_t* const rows[kPanelOutputs], uint8_t* panel);
// One output's weights as floats (embedding lookup): exactly what the file's format defines.
void unpackRow(const WeightMatrix& matrix, size_t output, float* values);

// Rows of activations, ready to be multiplied: as floats, and, where a product will use 8-bit arithmetic, quantised once per row and group of 32.
struct MatrixInput {
  const float* values;  // [rows, stride]
  size_t rows;
  size_t columns;
  size_t stride;
  const int8_t* quantised;  // null when no product needs it; layout private to Matmul
  const float* scales;
  const int32_t* sums;
};

// True when a product with weights of this type uses 8-bit activations at this precision.
bool usesQuantisedInput(WeightType type, Precision precision);
// Quantises in parallel where `quantise` says so. Buffers come from scratch.
MatrixInput prepareInput(const Compute& compute, const float* values, size_t rows, size_t columns, size_t stride, bool quantise, Scratch& scratch);

struct MatmulJob {
  const WeightMatrix* weights;
  const float* bias;  // [outputs] or null
  float* output;      // [rows, outputStride]; overwritten
  size_t outputStride;
};

// All products share one input and run as one parallel loop over (job, panels, rows).
// Bitwise the same for a row whatever the number of rows, jobs and threads.
void matmul(const Compute& compute, const MatmulJob* jobs, size_t jobCount, const MatrixInput& input, Scratch& scratch);

}  // namespace spillway
