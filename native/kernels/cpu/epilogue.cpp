#include "epilogue.h"

#include <algorithm>
#include <cstring>

namespace spillway {
namespace {

void activateRow(const Compute& compute, const MatmulJob& job, const ItemTotals& totals, size_t row) {
  compute.kernels.rows.activate(job.activation, totals.product + row * totals.stride,
                                totals.factor == nullptr ? nullptr : totals.factor + row * totals.stride,
                                totals.outputs);
}

// Tiles of rows of the rounded matrix lie one after another, and in each tile its columns in order.
void roundRows(const Compute& compute, const MatmulJob& job, const ItemTotals& totals, size_t inputRows) {
  const MatmulKernels& kernels = compute.kernels.matmul;
  const size_t together = rowsTogether(kernels.rounded), columns = job.weights->outputs;
  for (size_t row = 0; row < totals.rows; row += together) {
    const size_t count = std::min(together, totals.rows - row), first = totals.firstRow + row,
                 inTile = std::min(together, inputRows - first);
    for (size_t i = row; i < row + count; i++) activateRow(compute, job, totals, i);
    uint8_t* to = job.rounded + roundedBytes(kernels.rounded, first, columns) +
                  roundedBytes(kernels.rounded, inTile, totals.firstOutput);
    kernels.roundRows(totals.product + row * totals.stride, totals.stride, count, totals.outputs, to);
  }
}

}  // namespace

void endItem(const Compute& compute, const MatmulJob& job, const ItemTotals& totals, size_t inputRows) {
  if (job.rounded != nullptr) return roundRows(compute, job, totals, inputRows);
  for (size_t row = 0; row < totals.rows; row++) {
    float* to = job.output + (totals.firstRow + row) * job.outputStride + totals.firstOutput;
    float* from = totals.product + row * totals.stride;
    if (job.epilogue == Epilogue::Add) {
      compute.kernels.rows.add(from, to, totals.outputs);
      continue;
    }
    if (job.epilogue == Epilogue::Activate) activateRow(compute, job, totals, row);
    std::memcpy(to, from, totals.outputs * sizeof(float));
  }
}

}  // namespace spillway
