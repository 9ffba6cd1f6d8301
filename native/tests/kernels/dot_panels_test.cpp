// Products of rows with panels, as biases of scores are made of them: against sums in double precision, bit by bit
// across instruction sets, and of each row the same in any company.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "../../kernels/cpu/Kernels.h"
#include "attention_fixture.h"
#include "instructionSets.h"

namespace spillway {
namespace {

struct Shape {
  size_t rows, stride, panels, depth;
};

TEST(DotPanels, IsWhatSumsSay) {
  for (const Shape shape : {Shape{1, 8, 1, 8}, Shape{3, 70, 2, 64}, Shape{4, 64, 5, 64}, Shape{17, 200, 9, 33}}) {
    const std::vector<float> rows = randomNumbers(shape.rows * shape.stride, 1);
    const std::vector<float> panels = randomNumbers(shape.panels * shape.depth * 16, 2);
    const size_t width = shape.panels * 16;
    std::vector<float> first;
    for (const InstructionSet set : kSets) {
      if (!machineHas(set)) continue;
      const AttentionKernels& kernels = kernelsFor(set).attention;
      std::vector<float> outputs(shape.rows * (width + 3), -7.0f);
      kernels.dotPanels(rows.data(), shape.rows, shape.stride, panels.data(), shape.panels, shape.depth, outputs.data(),
                        width + 3);
      for (size_t r = 0; r < shape.rows; r++) {
        for (size_t i = 0; i < width; i++) {
          double sum = 0, sizes = 0;
          for (size_t d = 0; d < shape.depth; d++) {
            const double product =
                double(rows[r * shape.stride + d]) * panels[(i / 16 * shape.depth + d) * 16 + i % 16];
            sum += product, sizes += std::abs(product);
          }
          ASSERT_NEAR(outputs[r * (width + 3) + i], sum, 1e-6 * sizes + 1e-12);
        }
        for (size_t i = width; i < width + 3; i++) ASSERT_EQ(outputs[r * (width + 3) + i], -7.0f);
        std::vector<float> alone(width);
        kernels.dotPanels(rows.data() + r * shape.stride, 1, shape.stride, panels.data(), shape.panels, shape.depth,
                          alone.data(), width);
        ASSERT_EQ(std::memcmp(alone.data(), outputs.data() + r * (width + 3), width * sizeof(float)), 0);
      }
      if (first.empty()) first = outputs;
      ASSERT_EQ(std::memcmp(first.data(), outputs.data(), outputs.size() * sizeof(float)), 0);
    }
  }
}

}  // namespace
}  // namespace spillway
