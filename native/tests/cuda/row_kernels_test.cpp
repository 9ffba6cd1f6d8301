// Row kernels against the CPU's, for lengths around warps and blocks.
#include "../../kernels/cuda/RowKernels.h"

#include <cmath>
#include <limits>

#include "../../kernels/cpu/Kernels.h"
#include "../kernels/matmulCases.h"
#include "../notFinite.h"
#include "deviceMatrix.h"
#include "fixture.h"

namespace spillway::cuda {
namespace {

const size_t kLengths[] = {1, 2, 31, 32, 33, 255, 256, 257, 576, 1025, 20001};
constexpr size_t kRows = 3;

const Activation kActivations[] = {Activation::Relu, Activation::ReluSquared, Activation::Gelu, Activation::GeluTanh,
                                   Activation::Silu};

const RowKernels& cpu() { return kernelsFor(bestInstructionSet()).rows; }

TEST(CudaRowKernels, RmsNorm) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = normalNumbers(kRows * n, 1, 3), weight = normalNumbers(n, 2);
    std::vector<float> expected(x.size());
    for (size_t row = 0; row < kRows; row++) cpu().rmsNorm(&x[row * n], weight.data(), 1e-5f, n, &expected[row * n]);
    underEverySeed([&] {
      const DeviceArray<float> in(x), w(weight), out(x.size());
      rmsNorm(testStream(), in.get(), w.get(), 1e-5f, kRows, n, out.get());
      const std::vector<float> y = out.values();
      expectClose(y, expected, 1e-7f, 2e-6f, "rmsNorm of " + std::to_string(n));
      rmsNorm(testStream(), in.get() + n, w.get(), 1e-5f, 1, n, in.get() + n);  // alone, and in place
      const std::vector<float> again = in.values();
      expectSame({again.begin() + static_cast<long>(n), again.begin() + static_cast<long>(2 * n)},
                 {y.begin() + static_cast<long>(n), y.begin() + static_cast<long>(2 * n)}, "alone");
    });
  }
}

TEST(CudaRowKernels, LayerNormWithAndWithoutBiasAndFarFromZero) {
  for (const size_t n : kLengths)
    for (const float offset : {0.0f, 1000.0f})
      for (const bool biased : {false, true}) {
        std::vector<float> x = normalNumbers(kRows * n, 3, 3);
        for (float& value : x) value += offset;
        const std::vector<float> weight = normalNumbers(n, 4), bias = normalNumbers(n, 5);
        std::vector<float> expected(x.size());
        for (size_t row = 0; row < kRows; row++)
          cpu().layerNorm(&x[row * n], weight.data(), biased ? bias.data() : nullptr, 1e-5f, n, &expected[row * n]);
        underEverySeed([&] {
          const DeviceArray<float> in(x), w(weight), b(bias);
          layerNorm(testStream(), in.get(), w.get(), biased ? b.get() : nullptr, 1e-5f, kRows, n, in.get());
          // A float's spacing near 1000 is 6e-5; with one element the factor is 316, with two it depends on how near
          // they are.
          expectClose(in.values(), expected,
                      offset == 0 ? 1e-5f
                      : n <= 2    ? 0.1f
                                  : 1e-3f,
                      1e-5f, "layerNorm of " + std::to_string(n));
        });
      }
}

// Halves and factors of rows.
struct Prepared {
  std::vector<uint16_t> halves;
  std::vector<float> factors;
};

template <typename Prepare>
Prepared prepare(size_t rows, size_t n, Prepare prepare) {
  // What is after the columns is written, too.
  const DeviceArray<uint16_t> halves(std::vector<uint16_t>(rows * halfColumns(n), 0x5555));
  const DeviceArray<float> factors(rows);
  prepare(HalfRows{halves.get(), factors.get(), rows, n});
  return {halves.values(), factors.values()};
}

void expectSamePrepared(const Prepared& fused, const Prepared& apart, const std::string& what) {
  EXPECT_EQ(fused.halves, apart.halves) << what;
  expectSame(fused.factors, apart.factors, what);
}

TEST(CudaRowKernels, NormsAndActivationsAsHalvesAreThoseOfTheirResults) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = normalNumbers(kRows * n, 16, 3), other = normalNumbers(kRows * n, 17);
    const std::string what = "of " + std::to_string(n);
    const DeviceArray<float> in(x), by(other), out(x.size());
    const auto expectSameAsApart = [&](auto fused, auto apart) {
      apart();
      const Prepared expected =
          prepare(kRows, n, [&](const HalfRows& to) { prepareRows(testStream(), out.get(), n, to); });
      underEverySeed([&] { expectSamePrepared(prepare(kRows, n, fused), expected, what); });
    };
    expectSameAsApart([&](const HalfRows& to) { prepareRmsNorm(testStream(), in.get(), by.get(), 1e-5f, to); },
                      [&] { rmsNorm(testStream(), in.get(), by.get(), 1e-5f, kRows, n, out.get()); });
    for (const float* bias : {static_cast<const float*>(nullptr), static_cast<const float*>(by.get() + n)})
      expectSameAsApart(
          [&](const HalfRows& to) { prepareLayerNorm(testStream(), in.get(), by.get(), bias, 1e-5f, to); },
          [&] { layerNorm(testStream(), in.get(), by.get(), bias, 1e-5f, kRows, n, out.get()); });
    for (const Activation activation : kActivations)
      for (const float* up : {static_cast<const float*>(nullptr), static_cast<const float*>(by.get())})
        expectSameAsApart([&](const HalfRows& to) { prepareActivated(testStream(), activation, in.get(), up, to); },
                          [&] {
                            check(cudaMemcpyAsync(out.get(), in.get(), x.size() * sizeof(float),
                                                  cudaMemcpyDeviceToDevice, testStream()),
                                  "copy");
                            activate(testStream(), activation, out.get(), up, x.size());
                          });
    expectSameAsApart(
        [&](const HalfRows& to) { prepareActivated(testStream(), Activation::ClampedSwiglu, in.get(), by.get(), to); },
        [&] {
          check(cudaMemcpyAsync(out.get(), in.get(), x.size() * sizeof(float), cudaMemcpyDeviceToDevice, testStream()),
                "copy");
          activate(testStream(), Activation::ClampedSwiglu, out.get(), by.get(), x.size());
        });
  }
}

TEST(CudaRowKernels, RotationsHaveTheCpusBits) {
  for (const uint32_t dims : {2u, 6u, 32u, 64u, 80u}) {
    const uint32_t heads = 3, headDim = dims + 16;
    const size_t stride = heads * headDim + 5, positionsKnown = 9;
    const std::vector<uint32_t> positions = {8, 0, 3};
    const std::vector<float> x = normalNumbers(kRows * stride, 6),
                             cosines = normalNumbers(positionsKnown * dims / 2, 7),
                             sines = normalNumbers(positionsKnown * dims / 2, 8);
    for (const RotaryPairing pairing : {RotaryPairing::Pairs, RotaryPairing::Halves}) {
      std::vector<float> expected = x;
      for (size_t row = 0; row < kRows; row++)
        for (uint32_t head = 0; head < heads; head++) {
          float* at = &expected[row * stride + head * headDim];
          const size_t angle = positions[row] * dims / 2;
          (pairing == RotaryPairing::Pairs ? cpu().rotatePairs : cpu().rotateHalves)(at, &cosines[angle], &sines[angle],
                                                                                     dims);
        }
      underEverySeed([&] {
        const DeviceArray<float> in(x), c(cosines), s(sines);
        const DeviceArray<uint32_t> at(positions);
        rotate(testStream(), pairing, in.get(), kRows, stride, heads, headDim, dims, at.get(), c.get(), s.get());
        expectSame(in.values(), expected, "rotation of " + std::to_string(dims));
      });
    }
  }
}

TEST(CudaRowKernels, Activations) {
  std::vector<float> x = normalNumbers(1003, 9, 4);
  const float largest = std::numeric_limits<float>::max();
  for (const float value : {largest, -largest, 1e30f, -1e30f, 300.0f, -300.0f, 88.8f, -88.8f, 1e-42f, -1e-42f, 0.0f,
                            -0.0f, kInfinity, -kInfinity, kNan})
    x.push_back(value);
  const std::vector<float> factor = normalNumbers(x.size(), 10);
  for (const Activation activation : kActivations)
    for (const bool gated : {false, true}) {
      std::vector<float> expected = x;
      cpu().activate(activation, expected.data(), gated ? factor.data() : nullptr, x.size());
      underEverySeed([&] {
        const DeviceArray<float> in(x), by(factor);
        activate(testStream(), activation, in.get(), gated ? by.get() : nullptr, x.size());
        expectClose(in.values(), expected, 2e-6f, 2e-6f, "activation " + std::to_string(static_cast<int>(activation)));
      });
    }
}

TEST(CudaRowKernels, ClampedSwigluIsTheCpus) {
  std::vector<float> x = normalNumbers(1003, 16, 6), factor = normalNumbers(1003, 17, 6);
  for (const float value : {kInfinity, -kInfinity, kNan, 0.0f})
    for (const float by : {2.0f, kInfinity, -kInfinity, kNan}) x.push_back(value), factor.push_back(by);
  std::vector<float> expected = x;
  cpu().activate(Activation::ClampedSwiglu, expected.data(), factor.data(), x.size());
  underEverySeed([&] {
    const DeviceArray<float> in(x), by(factor);
    activate(testStream(), Activation::ClampedSwiglu, in.get(), by.get(), x.size());
    expectClose(in.values(), expected, 2e-6f, 2e-6f, "clamped swiglu");
  });
}

TEST(CudaRowKernels, SoftCaps) {
  std::vector<float> x = normalNumbers(1003, 15, 40);
  const float largest = std::numeric_limits<float>::max();
  for (const float value : {largest, -largest, 1e-30f, 0.0f, kInfinity, -kInfinity, kNan}) x.push_back(value);
  std::vector<float> expected = x;
  cpu().softCap(30, expected.data(), x.size());
  underEverySeed([&] {
    const DeviceArray<float> in(x);
    softCap(testStream(), 30, in.get(), x.size());
    expectClose(in.values(), expected, 1e-37f, 5e-7f, "softCap");
  });
}

TEST(CudaRowKernels, AdditionsHaveTheCpusBits) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = normalNumbers(n, 11), y = normalNumbers(n, 12);
    std::vector<float> sum = y, scaled = y;
    cpu().add(x.data(), sum.data(), n);
    cpu().addScaled(x.data(), 0.37f, scaled.data(), n);
    underEverySeed([&] {
      const DeviceArray<float> from(x), first(y), second(y);
      add(testStream(), from.get(), first.get(), n);
      addScaled(testStream(), from.get(), 0.37f, second.get(), n);
      expectSame(first.values(), sum, "add");
      expectSame(second.values(), scaled, "addScaled");
    });
  }
  add(testStream(), nullptr, nullptr, 0);
  check(cudaStreamSynchronize(testStream()), "synchronize");
}

TEST(CudaRowKernels, RowsAreScaledGatheredAndScattered) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = normalNumbers(4 * n, 13), y = normalNumbers(6 * n, 14);
    const std::vector<uint32_t> indices = {5, 0, 3, 1};
    const std::vector<float> scales = {0.3f, -1.7f, 0, 2};
    std::vector<float> scaled = x, gathered, scattered = y;
    cpu().scale(0.37f, scaled.data(), scaled.size());
    for (const uint32_t index : indices)
      gathered.insert(gathered.end(), y.begin() + long(index * n), y.begin() + long((index + 1) * n));
    for (size_t row = 0; row < 4; row++) cpu().addScaled(&x[row * n], scales[row], &scattered[indices[row] * n], n);
    underEverySeed([&] {
      const DeviceArray<float> from(x), six(y), four(4 * n), factors(scales), product(x);
      const DeviceArray<uint32_t> at(indices);
      scale(testStream(), 0.37f, product.get(), 4 * n);
      gatherRows(testStream(), six.get(), at.get(), 4, n, four.get());
      expectSame(four.values(), gathered, "gatherRows");
      scatterScaledRows(testStream(), from.get(), factors.get(), at.get(), 4, n, six.get());
      expectSame(product.values(), scaled, "scale");
      expectSame(six.values(), scattered, "scatterScaledRows");
    });
  }
}

TEST(CudaRowKernels, EmbeddingsOfEveryTypeHaveTheCpusBits) {
  for (const cases::MatmulCase& shape : cases::kMatmulCases) {
    cases::MatmulCase small = shape;
    small.outputs = std::min(small.outputs, 138u);
    const cases::PackedMatrix matrix = cases::randomMatrix(small, 21);
    const std::vector<int32_t> tokens = {0, static_cast<int32_t>(small.outputs) - 1, -1,
                                         static_cast<int32_t>(small.outputs) / 2, static_cast<int32_t>(small.outputs)};
    std::vector<float> expected(tokens.size() * small.inputs, kNan);
    for (size_t row = 0; row < tokens.size(); row++)
      if (tokens[row] >= 0 && tokens[row] < static_cast<int32_t>(small.outputs))
        unpackRow(matrix.weights, static_cast<size_t>(tokens[row]), &expected[row * small.inputs]);
    underEverySeed([&] {
      const MatrixOnDevice weights(matrix.weights);
      const DeviceArray<int32_t> ids(tokens);
      const DeviceArray<float> out(expected.size());
      embed(testStream(), weights.matrix, ids.get(), tokens.size(), out.get());
      expectClose(out.values(), expected, 0, 0, shape.name);
    });
  }
}

}  // namespace
}  // namespace spillway::cuda
