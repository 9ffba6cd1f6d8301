// The end of a product's items: what has been computed of some rows and outputs goes where the job says. Included by
// Matmul.cpp.
#pragma once
#include "Matmul.h"

namespace spillway {

// Products of some rows with some outputs of a job, and, beside them, with the same outputs of the job's factor, if it
// has one.
struct ItemAccumulators {
  float* product;  // [rows, stride]; activated in place
  const float* factor;
  size_t stride;
  size_t firstRow, rows;        // a multiple of rowsTogether() where quantised
  size_t firstOutput, outputs;  // where quantised, a multiple of 32, and, but for the matrix's last outputs, as many
};

// inputRows: of the whole product.
void endItem(const Compute& compute, const MatmulJob& job, const ItemAccumulators& accumulators, size_t inputRows);

}  // namespace spillway
