// A matrix whose first outputs are in memory for good and whose other outputs may stream from disk.
#pragma once
#include <cstdint>

#include "../kernels/cpu/Matmul.h"

namespace spillway {

// `panels` points at the resident outputs, or is null where there are none.
struct StoredMatrix : WeightMatrix {
  uint32_t residentOutputs;  // whole panels, or all outputs
  uint64_t streamedAt;       // of the first panel that streams: bytes from the start of the buffer that holds its layer
};

// Absent matrices have no outputs, absent vectors are null.
inline bool present(const StoredMatrix& matrix) { return matrix.outputs != 0; }
inline bool streams(const StoredMatrix& matrix) { return matrix.residentOutputs != matrix.outputs; }

// output = input · weightsᵀ + bias.
struct ProductJob {
  const StoredMatrix* weights;
  const float* bias;  // [outputs] or null
  float* output;      // [rows, outputStride]
  size_t outputStride;
};

// A product cut into what the kernels compute: consecutive outputs of the matrix, each with its part of the bias and of
// the output. An output's bits do not depend on where the cut is.
struct SplitProduct {
  WeightMatrix matrices[2];
  MatmulJob jobs[2];
  size_t count = 0;

  // buffer: holds the rest of the layer; may be null where nothing streams, and while measuring.
  void cut(const ProductJob& product, const uint8_t* buffer) {
    const StoredMatrix& weights = *product.weights;
    if (weights.residentOutputs != 0) add(product, 0, weights.residentOutputs, weights.panels);
    if (streams(weights))
      add(product, weights.residentOutputs, weights.outputs, buffer == nullptr ? nullptr : buffer + weights.streamedAt);
  }

 private:
  void add(const ProductJob& product, uint32_t first, uint32_t end, const uint8_t* panels) {
    matrices[count] = {product.weights->type, end - first, product.weights->inputs, panels};
    // Null where nothing is computed: measuring.
    jobs[count] = {&matrices[count], product.bias == nullptr ? nullptr : product.bias + first,
                   product.output == nullptr ? nullptr : product.output + first, product.outputStride};
    count++;
  }
};

}  // namespace spillway
