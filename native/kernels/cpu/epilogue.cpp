#include "epilogue.h"

#include <algorithm>
#include <cstring>

namespace spillway {
namespace {

void activateRow(const Compute& compute, const MatmulJob& job, const ItemAccumulators& accumulators, size_t row) {
  compute.kernels.rows.activate(
      job.activation, accumulators.product + row * accumulators.stride,
      accumulators.factor == nullptr ? nullptr : accumulators.factor + row * accumulators.stride, accumulators.outputs);
}

// Tiles of rows of the rounded matrix lie one after another, and in each tile its columns in order.
void quantiseRows(const Compute& compute, const MatmulJob& job, const ItemAccumulators& accumulators,
                  size_t inputRows) {
  const MatmulKernels& kernels = compute.kernels.matmul;
  const size_t together = rowsTogether(kernels.quantised), columns = job.weights->outputs;
  for (size_t row = 0; row < accumulators.rows; row += together) {
    const size_t count = std::min(together, accumulators.rows - row), first = accumulators.firstRow + row,
                 inTile = std::min(together, inputRows - first);
    for (size_t i = row; i < row + count; i++) activateRow(compute, job, accumulators, i);
    uint8_t* to = job.quantised + quantisedBytes(kernels.quantised, first, columns) +
                  quantisedBytes(kernels.quantised, inTile, accumulators.firstOutput);
    kernels.quantiseRows(accumulators.product + row * accumulators.stride, accumulators.stride, count,
                         accumulators.outputs, to);
  }
}

}  // namespace

void endItem(const Compute& compute, const MatmulJob& job, const ItemAccumulators& accumulators, size_t inputRows) {
  if (job.quantised != nullptr) return quantiseRows(compute, job, accumulators, inputRows);
  for (size_t row = 0; row < accumulators.rows; row++) {
    float* to = job.output + (accumulators.firstRow + row) * job.outputStride + accumulators.firstOutput;
    float* from = accumulators.product + row * accumulators.stride;
    if (job.epilogue == Epilogue::Add) {
      compute.kernels.rows.add(from, to, accumulators.outputs);
      continue;
    }
    if (job.epilogue == Epilogue::Activate) activateRow(compute, job, accumulators, row);
    std::memcpy(to, from, accumulators.outputs * sizeof(float));
  }
}

}  // namespace spillway
