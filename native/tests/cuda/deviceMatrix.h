// A packed matrix on the device.
#pragma once
#include "../../kernels/cpu/Matmul.h"
#include "../../kernels/cuda/Matmul.h"
#include "fixture.h"

namespace spillway::cuda {

struct MatrixOnDevice {
  explicit MatrixOnDevice(const WeightMatrix& weights)
      : panels(std::vector<uint8_t>(weights.panels,
                                    weights.panels + packedBytes(weights.type, weights.outputs, weights.inputs))),
        matrix{weights.type, weights.outputs, weights.inputs, panels.get()} {}
  DeviceArray<uint8_t> panels;
  DeviceMatrix matrix;
};

}  // namespace spillway::cuda
