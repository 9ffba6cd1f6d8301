// cuBLASLt for a test: on the emulated device what stands in for it, on a real one whatever is there.
#pragma once
#include "../../kernels/cuda/CublasLtProducts.h"
#include "deviceMatrix.h"
#if !defined(__CUDACC__) && !defined(SPILLWAY_CUDA_RUNTIME)
#include "fakeCublasLt.h"
#endif

namespace spillway::cuda {

// The rows' product with whole panels of a matrix of `outputs` outputs, for these runs of rows, after an algorithm has
// been found.
inline void multiplyByCublasLt(CublasLtProducts& products, uint32_t outputs, const DeviceMatrix& matrix, const float* x,
                               size_t stride, size_t rows, const std::vector<RowRun>& runs,
                               const ProductOutput& output) {
  const DeviceArray<uint8_t> memory(CublasLtProducts::tryBytes(outputs, matrix.inputs)),
      workspace(CublasLtProducts::workspaceBytes(outputs, matrix.inputs, rows));
  ASSERT_TRUE(products.prepare(testStream(), outputs, matrix.inputs, memory.get()));
  const DeviceArray<uint16_t> halves((rows + CublasLtProducts::kRowUnit - 1) * halfColumns(matrix.inputs));
  const DeviceArray<float> factors(rows);
  const HalfRows prepared = {halves.get(), factors.get(), rows, matrix.inputs};
  prepareRows(testStream(), x, stride, prepared);
  products.multiply(testStream(), outputs, matrix, prepared, runs.data(), runs.size(), output, workspace.get());
  check(cudaStreamSynchronize(testStream()), "synchronize");
}

}  // namespace spillway::cuda
