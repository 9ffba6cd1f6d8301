// y = x Wᵀ + b for weights in panels of 16 outputs: packing, and products over batches of rows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../../system/Scratch.h"
#include "Kernels.h"
#include "WeightType.h"
#include "panelLayout.h"

namespace spillway {

// A matrix [outputs, inputs] in the kernels' own layout: panels of 16 consecutive outputs, one after another, each
// 64-byte aligned; the last one is filled up with zero rows. Values keep the file's precision and bits.
struct WeightMatrix {
  WeightType type;
  uint32_t outputs;
  uint32_t inputs;
  const uint8_t* panels;
};

size_t panelBytes(WeightType type, size_t inputs);  // a multiple of 64
size_t packedBytes(WeightType type, size_t outputs, size_t inputs);
// Packs 16 rows, each as it stands in a file (unaligned); a null row is zeros. Runs on any thread; portable.
void packPanel(WeightType type, size_t inputs, const uint8_t* const rows[kPanelOutputs], uint8_t* panel);
// One output's weights as floats (embedding lookup): exactly what the file's format defines.
void unpackRow(const WeightMatrix& matrix, size_t output, float* values);
// The same of a row as it stands in a file. inputs: a multiple of the type's block.
void unpackFileRow(WeightType type, const uint8_t* row, size_t inputs, float* values);

// Rows of activations, ready to be multiplied: as floats, and, where a product will use rounded ones, rounded once per
// row as the instruction set has it (QuantisedInput): to 8 bits with a scale for each group of 32 (large groups of a
// row in two steps: QuantisedTile), or to bfloat16.
struct MatrixInput {
  const float* values;  // [rows, stride]
  size_t rows;
  size_t columns;
  size_t stride;
  const uint8_t* quantised;  // as `form`, or a device's pass, says; null when no product needs it
  QuantisedInput form = QuantisedInput::None;
};

// What is done with a product, while it is in the caches of the thread that computed it.
enum class Epilogue : uint8_t {
  Store,     // output = product
  Add,       // output += product
  Activate,  // activation(product), times the product with `factor` where there is one; to `quantised` where that is
             // given, else to the output
};

// What activations a product with weights of this type takes, on these kernels and at this precision; None: floats.
QuantisedInput quantisedInput(const Compute& compute, WeightType type);
// Rounds in parallel to `form`; columns is a multiple of 32 then, but for bfloat16. Buffers come from scratch. In 8
// bits a value that is no number, infinite or beyond 1e33 makes the row's outputs NaN; otherwise they follow IEEE
// arithmetic.
MatrixInput prepareInput(const Compute& compute, const float* values, size_t rows, size_t columns, size_t stride,
                         QuantisedInput form, Scratch& scratch);

// Rows that are made when they are needed: make(context, row, to) writes `columns` floats. Called once a row, by any
// thread.
struct RowMaker {
  void (*make)(const void* context, size_t row, float* to);
  const void* context;
};
// The same for rows that are rounded as they are made and never stood in memory as floats: `values` of the result is
// null.
MatrixInput prepareQuantised(const Compute& compute, const RowMaker& maker, size_t rows, size_t columns,
                             QuantisedInput form, Scratch& scratch);
// Memory for rounded rows, which an epilogue is to fill.
MatrixInput allocateQuantised(QuantisedInput form, size_t rows, size_t columns, Scratch& scratch);

struct MatmulJob {
  const WeightMatrix* weights;
  const float* bias;  // [outputs] or null
  float* output;      // [rows, outputStride]; must not overlap the input
  size_t outputStride;
  Epilogue epilogue = Epilogue::Store;
  // For Activate.
  Activation activation = Activation::Silu;
  const WeightMatrix* factor =
      nullptr;  // [outputs, inputs] like weights, both of types that use quantised input, or neither; or null
  const float* factorBias = nullptr;  // [outputs] or null
  uint8_t* quantised = nullptr;       // allocateQuantised(rows, outputs), or null
};

// All products share one input and run as one parallel loop over (job, panels, rows).
// Bitwise the same for a row whatever the number of rows, jobs and threads, and on every instruction set; products of
// rounded activations on AMX have bits of their own. With measure-only scratch this and prepareInput compute nothing
// and only count.
void matmul(const Compute& compute, const MatmulJob* jobs, size_t jobCount, const MatrixInput& input, Scratch& scratch);

}  // namespace spillway
