// Every row kernel against a plain reference in double precision, and bit by bit across instruction sets, for lengths
// around each vector boundary.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "../../kernels/cpu/Kernels.h"
#include "../notFinite.h"
#include "instructionSets.h"

namespace spillway {
namespace {

const size_t kLengths[] = {0,  1,  2,  3,  7,   15,  16,  17,  31,  32,   33,   63,  64,
                           65, 79, 80, 96, 127, 128, 129, 200, 576, 1000, 1025, 2049};

// Memory of exactly n elements on the heap, so that the address sanitizer sees a step beyond.
template <typename T>
struct Exact {
  explicit Exact(const std::vector<T>& values) : size(values.size()), data(new T[values.size()]) {
    std::copy(values.begin(), values.end(), data.get());
  }
  std::vector<T> vector() const { return std::vector<T>(data.get(), data.get() + size); }
  T* get() { return data.get(); }
  size_t size;
  std::unique_ptr<T[]> data;
};

std::vector<float> randomRow(size_t n, unsigned seed, float width = 3.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, width);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

uint32_t bitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

void expectSameBits(const std::vector<float>& a, const std::vector<float>& b, const char* what, size_t n) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_EQ(bitsOf(a[i]), bitsOf(b[i])) << what << " of " << n << " at " << i << ": " << a[i] << " and " << b[i];
  }
}

// Runs `operation` on every instruction set, compares their results exactly, and returns them.
std::vector<float> onAllSets(const char* what, size_t n,
                             const std::function<std::vector<float>(const RowKernels&)>& operation) {
  const std::vector<float> expected = operation(kernelsFor(InstructionSet::Scalar).rows);
  for (InstructionSet set : kSets)
    if (machineHas(set)) expectSameBits(expected, operation(kernelsFor(set).rows), what, n);
  return expected;
}

void expectNear(const std::vector<float>& values, const std::vector<double>& expected, double absolute, double relative,
                const char* what) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); i++) {
    ASSERT_NEAR(values[i], expected[i], absolute + relative * std::fabs(expected[i]))
        << what << " of " << values.size() << " at " << i;
  }
}

TEST(RowKernels, RmsNorm) {
  for (size_t n : kLengths) {
    if (n == 0) continue;
    const std::vector<float> x = randomRow(n, 1), weight = randomRow(n, 2, 1);
    const std::vector<float> y = onAllSets("rmsNorm", n, [&](const RowKernels& kernels) {
      Exact<float> in(x), w(weight), out(x);
      kernels.rmsNorm(in.get(), w.get(), 1e-5f, n, out.get());
      kernels.rmsNorm(in.get(), w.get(), 1e-5f, n, in.get());  // in place
      expectSameBits(in.vector(), out.vector(), "rmsNorm in place", n);
      return out.vector();
    });
    double squares = 0;
    for (float v : x) squares += static_cast<double>(v) * v;
    std::vector<double> expected;
    for (size_t i = 0; i < n; i++)
      expected.push_back(x[i] / std::sqrt(squares / static_cast<double>(n) + 1e-5) * weight[i]);
    expectNear(y, expected, 1e-7, 2e-6, "rmsNorm");
  }
}

TEST(RowKernels, LayerNormWithAndWithoutBiasAndFarFromZero) {
  for (size_t n : kLengths) {
    if (n == 0) continue;
    for (const float offset : {0.0f, 1000.0f}) {
      for (const bool biased : {false, true}) {
        std::vector<float> x = randomRow(n, 3);
        for (float& v : x) v += offset;
        const std::vector<float> weight = randomRow(n, 4, 1), bias = randomRow(n, 5, 1);
        const std::vector<float> y = onAllSets("layerNorm", n, [&](const RowKernels& kernels) {
          Exact<float> in(x), w(weight), b(bias);
          kernels.layerNorm(in.get(), w.get(), biased ? b.get() : nullptr, 1e-5f, n, in.get());
          return in.vector();
        });
        double mean = 0, squares = 0;
        for (float v : x) mean += v;
        mean /= static_cast<double>(n);
        for (float v : x) squares += (v - mean) * (v - mean);
        const double factor = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        std::vector<double> expected;
        for (size_t i = 0; i < n; i++)
          expected.push_back((x[i] - mean) * factor * weight[i] + (biased ? bias[i] : 0.0f));
        // A float's spacing near 1000 is 6e-5; with one element the factor is 316.
        expectNear(y, expected, offset == 0 ? 1e-5 : 1e-3 * std::max(1.0, factor), 1e-5, "layerNorm");
      }
    }
  }
}

TEST(RowKernels, RotationsOfPairsAndHalves) {
  for (size_t dims : {size_t{2}, size_t{4}, size_t{6}, size_t{16}, size_t{30}, size_t{32}, size_t{64}, size_t{80},
                      size_t{128}, size_t{256}}) {
    const std::vector<float> head = randomRow(dims, 6), angles = randomRow(dims / 2, 7);
    std::vector<float> cosines, sines;
    for (float angle : angles) cosines.push_back(std::cos(angle)), sines.push_back(std::sin(angle));
    for (const bool pairs : {false, true}) {
      const std::vector<float> y =
          onAllSets(pairs ? "rotatePairs" : "rotateHalves", dims, [&](const RowKernels& kernels) {
            Exact<float> in(head), c(cosines), s(sines);
            (pairs ? kernels.rotatePairs : kernels.rotateHalves)(in.get(), c.get(), s.get(), dims);
            return in.vector();
          });
      std::vector<double> expected(dims);
      for (size_t i = 0; i < dims / 2; i++) {
        const size_t a = pairs ? 2 * i : i, b = pairs ? 2 * i + 1 : i + dims / 2;
        expected[a] = static_cast<double>(head[a]) * cosines[i] - static_cast<double>(head[b]) * sines[i];
        expected[b] = static_cast<double>(head[b]) * cosines[i] + static_cast<double>(head[a]) * sines[i];
      }
      expectNear(y, expected, 2e-6, 1e-6, "rotation");
    }
  }
}

TEST(RowKernels, AddScaleAddScaled) {
  for (size_t n : kLengths) {
    const std::vector<float> x = randomRow(n, 8), start = randomRow(n, 9);
    const auto run = [&](const char* what,
                         const std::function<void(const RowKernels&, const float*, float*)>& operation,
                         const std::function<float(float, float)>& expected) {
      const std::vector<float> y = onAllSets(what, n, [&](const RowKernels& kernels) {
        Exact<float> in(x), out(start);
        operation(kernels, in.get(), out.get());
        return out.vector();
      });
      for (size_t i = 0; i < n; i++)
        ASSERT_EQ(bitsOf(y[i]), bitsOf(expected(x[i], start[i]))) << what << " of " << n << " at " << i;
    };
    run(
        "add", [&](const RowKernels& k, const float* in, float* out) { k.add(in, out, n); },
        [](float a, float b) { return b + a; });
    run(
        "scale", [&](const RowKernels& k, const float*, float* out) { k.scale(0.37f, out, n); },
        [](float, float b) { return b * 0.37f; });
    run(
        "addScaled", [&](const RowKernels& k, const float* in, float* out) { k.addScaled(in, 0.37f, out, n); },
        [](float a, float b) { return std::fmaf(a, 0.37f, b); });
  }
}

TEST(RowKernels, SoftCapsOnADenseGridAndOfExtremeValues) {
  const float largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  for (const float cap : {30.0f, 0.7f}) {
    std::vector<float> x = {largest, -largest, 1e10f, -1e10f, least, -least, 1e-30f, -1e-30f, 0.0f, -0.0f};
    for (int i = -20000; i <= 20000; i++) x.push_back(static_cast<float>(i) * 1e-4f * 6 * cap);
    const std::vector<float> y = onAllSets("softCap", x.size(), [&](const RowKernels& kernels) {
      Exact<float> in(x);
      kernels.softCap(cap, in.get(), x.size());
      return in.vector();
    });
    std::vector<double> expected;
    for (const float v : x) expected.push_back(cap * std::tanh(static_cast<double>(v) / cap));
    expectNear(y, expected, 1e-40, 3e-7, "softCap");
    for (size_t n : kLengths) {
      const std::vector<float> some(x.begin(), x.begin() + static_cast<long>(n));
      const std::vector<float> capped = onAllSets("softCap", n, [&](const RowKernels& kernels) {
        Exact<float> in(some);
        kernels.softCap(cap, in.get(), n);
        return in.vector();
      });
      expectSameBits(capped, {y.begin(), y.begin() + static_cast<long>(n)}, "softCap of any length", n);
    }
  }
  const std::vector<float> odd = onAllSets("softCap", 3, [&](const RowKernels& kernels) {
    Exact<float> in({kInfinity, -kInfinity, kNan});
    kernels.softCap(30, in.get(), 3);
    return in.vector();
  });
  EXPECT_EQ(odd[0], kInfinity);  // what is not finite is not hidden
  EXPECT_EQ(odd[1], -kInfinity);
  EXPECT_TRUE(std::isnan(odd[2]));
}

double activationOf(Activation activation, double x) {
  switch (activation) {
    case Activation::Relu: return std::max(x, 0.0);
    case Activation::ReluSquared: return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::Gelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::GeluTanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::Silu: return x / (1 + std::exp(-x));
    case Activation::Xielu: return NAN;
    case Activation::ClampedSwiglu: return std::min(x, 7.0) / (1 + std::exp(-1.702 * std::min(x, 7.0)));
  }
  return 0;
}

const Activation kActivations[] = {Activation::Relu, Activation::ReluSquared, Activation::Gelu, Activation::GeluTanh,
                                   Activation::Silu};

TEST(RowKernels, ActivationsOnADenseGridWithinOneMillionth) {
  std::vector<float> x;
  for (int i = -12000; i <= 12000; i++) x.push_back(static_cast<float>(i) * 1e-3f);
  for (Activation activation : kActivations) {
    const std::vector<float> y = onAllSets("activate", x.size(), [&](const RowKernels& kernels) {
      Exact<float> in(x);
      kernels.activate(activation, in.get(), nullptr, x.size());
      return in.vector();
    });
    for (size_t i = 0; i < x.size(); i++) {
      const double expected = activationOf(activation, x[i]);
      // From 8 up a float's own spacing is near one millionth.
      ASSERT_NEAR(y[i], expected, std::max(1e-6, 1.2e-7 * std::fabs(expected)))
          << "activation " << static_cast<int>(activation) << " of " << x[i];
    }
  }
}

TEST(RowKernels, ActivationsTimesAFactorForAnyLength) {
  for (Activation activation : kActivations) {
    for (size_t n : kLengths) {
      const std::vector<float> x = randomRow(n, 10), factor = randomRow(n, 11);
      const std::vector<float> y = onAllSets("activate", n, [&](const RowKernels& kernels) {
        Exact<float> in(x), by(factor);
        kernels.activate(activation, in.get(), by.get(), n);
        return in.vector();
      });
      std::vector<double> expected;
      for (size_t i = 0; i < n; i++) expected.push_back(activationOf(activation, x[i]) * factor[i]);
      expectNear(y, expected, 1e-5, 1e-6, "activate");
    }
  }
}

TEST(RowKernels, ClampedSwigluWithinAndBeyondItsLimits) {
  std::vector<float> x, up;
  for (int i = -120; i <= 120; i++)
    for (int j = -120; j <= 120; j += 5)
      x.push_back(static_cast<float>(i) / 10), up.push_back(static_cast<float>(j) / 10);
  for (const float odd : {kInfinity, -kInfinity, 1e30f, -1e30f, 0.0f, -0.0f})
    for (const float by : {3.0f, kInfinity, -kInfinity}) x.push_back(odd), up.push_back(by);
  const auto activated = [](const std::vector<float>& gates, const std::vector<float>& factors) {
    return onAllSets("activate", gates.size(), [&](const RowKernels& kernels) {
      Exact<float> in(gates), by(factors);
      kernels.activate(Activation::ClampedSwiglu, in.get(), by.get(), gates.size());
      return in.vector();
    });
  };
  const std::vector<float> y = activated(x, up);
  for (size_t i = 0; i < x.size(); i++) {
    const double gate = x[i] == -kInfinity ? 0.0 : activationOf(Activation::ClampedSwiglu, x[i]);
    const double expected = gate * (std::max(-7.0, std::min(7.0, static_cast<double>(up[i]))) + 1);
    ASSERT_NEAR(y[i], expected, 2e-6 + 2e-7 * std::fabs(expected)) << x[i] << " and " << up[i];
  }
  for (const float output : activated({kNan, 1.0f, kNan}, {1.0f, kNan, kNan})) EXPECT_TRUE(std::isnan(output));
}

TEST(RowKernels, ActivationsOfExtremeValues) {
  const float largest = std::numeric_limits<float>::max();
  const std::vector<float> x = {largest, -largest, 1e30f,  -1e30f, 1e10f,   -1e10f, 300.0f,
                                -300.0f, 88.8f,    -88.8f, 1e-42f, -1e-42f, 0.0f,   -0.0f};
  for (Activation activation : kActivations) {
    const std::vector<float> y = onAllSets("activate", x.size(), [&](const RowKernels& kernels) {
      Exact<float> in(x);
      kernels.activate(activation, in.get(), nullptr, x.size());
      return in.vector();
    });
    for (size_t i = 0; i < x.size(); i++) {
      const float positive = x[i] > 0 ? x[i] : 0.0f;
      // Of squares alone some are beyond the largest float.
      const float expected = activation == Activation::ReluSquared ? positive * positive : positive;
      ASSERT_EQ(std::isfinite(y[i]), std::isfinite(expected)) << x[i];
      if (!std::isfinite(expected)) continue;
      ASSERT_NEAR(y[i], expected, std::fabs(x[i]) < 1 ? 1e-40 : 1e-30) << "activation " << static_cast<int>(activation);
    }
    const std::vector<float> limits = onAllSets("activate", 3, [&](const RowKernels& kernels) {
      Exact<float> in({kInfinity, -kInfinity, kNan});
      kernels.activate(activation, in.get(), nullptr, 3);
      return in.vector();
    });
    EXPECT_EQ(limits[0], kInfinity);
    EXPECT_EQ(limits[1], 0.0f);
    EXPECT_TRUE(std::isnan(limits[2]));  // a NaN is not hidden
  }
}

TEST(RowKernels, ArgMaxGivesTheFirstOfTheLargest) {
  std::mt19937 random(12);
  for (size_t n : kLengths) {
    for (int round = 0; round < 40; round++) {
      std::vector<float> x(n);
      for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 9)) - 4.0f;  // many ties
      if (round % 3 == 1)
        for (float& value : x)
          if (random() % 4 == 0) value = kNan;
      if (round % 5 == 4)
        for (float& value : x) value = random() % 2 ? kNan : -kInfinity;
      if (round % 7 == 6 && n > 0) x[random() % n] = kInfinity;
      float best = -kInfinity;
      size_t index = 0;
      for (size_t i = 0; i < n; i++)
        if (x[i] > best) best = x[i], index = i;
      const bool odd = std::any_of(x.begin(), x.end(), [](float value) { return std::isnan(value); });
      if (odd) index = 0;
      onAllSets("argMax", n, [&](const RowKernels& kernels) {
        Exact<float> in(x);
        float value = 77;
        size_t at = 77;
        kernels.argMax(in.get(), n, &value, &at);
        EXPECT_TRUE(odd ? std::isnan(value) : value == best);
        EXPECT_EQ(at, index);
        const bool finite = std::all_of(x.begin(), x.end(), [](float each) { return std::isfinite(each); });
        EXPECT_EQ(kernels.allFinite(in.get(), n), finite);
        return std::vector<float>{odd ? kNan : value};
      });
    }
  }
}

TEST(RowKernels, SumExpAndExpShifted) {
  for (size_t n : kLengths) {
    for (const bool holes : {false, true}) {
      std::vector<float> x = randomRow(n, 13, 10);
      float maximum = -kInfinity;
      for (size_t i = 0; i < n; i++) {
        if (holes && i % 5 == 1) x[i] = i % 2 ? kNan : -kInfinity;
        if (x[i] > maximum) maximum = x[i];
      }
      double sum = 0;
      std::vector<double> expected;
      for (float v : x)
        expected.push_back(std::isnan(v) ? 0.0 : std::exp(static_cast<double>(v) - maximum)),
            sum += std::isfinite(maximum) ? expected.back() : 0.0;
      const std::vector<float> y = onAllSets("expShifted", n, [&](const RowKernels& kernels) {
        Exact<float> in(x), out(x);
        kernels.expShifted(in.get(), maximum, n, out.get());
        return out.vector();
      });
      if (std::isfinite(maximum)) expectNear(y, expected, 1e-44, 5e-6, "expShifted");
      const std::vector<float> total = onAllSets("sumExp", n, [&](const RowKernels& kernels) {
        Exact<float> in(x);
        return std::vector<float>{kernels.sumExp(in.get(), maximum, n)};
      });
      ASSERT_NEAR(total[0], sum, 1e-6 * sum) << n;
    }
  }
}

TEST(RowKernels, HalvesThereAndBackForAllOfThem) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); i++) halves[i] = static_cast<uint16_t>(i);
  const std::vector<float> floats = onAllSets("fromHalf", halves.size(), [&](const RowKernels& kernels) {
    std::vector<float> out(halves.size());
    kernels.fromHalf(halves.data(), out.data(), halves.size());
    return out;
  });
  EXPECT_EQ(floats[0x3c00], 1.0f);
  EXPECT_EQ(floats[0x7bff], 65504.0f);
  EXPECT_EQ(floats[0x0001], std::ldexp(1.0f, -24));
  EXPECT_EQ(floats[0xfc00], -kInfinity);
  for (InstructionSet set : kSets) {
    if (!machineHas(set)) continue;
    std::vector<uint16_t> back(halves.size());
    kernelsFor(set).rows.toHalf(floats.data(), back.data(), floats.size());
    for (size_t i = 0; i < halves.size(); i++) {
      if (std::isnan(floats[i]))
        ASSERT_GT(back[i] & 0x7fff, 0x7c00);
      else
        ASSERT_EQ(back[i], halves[i]);
    }
  }
}

TEST(RowKernels, HalvesRoundToNearestEvenAndOverflowToInfinity) {
  std::vector<float> x = randomRow(1000, 14, 100);
  for (float v : {65504.0f, 65519.99f, 65520.0f, 70000.0f, 1e30f, 1.00048828125f, 1.00146484375f, 5.9e-8f, 2.98e-8f,
                  2.9e-8f, 6.1e-5f})
    x.push_back(v), x.push_back(-v);
  for (size_t n : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, x.size()}) {
    for (InstructionSet set : kSets) {
      if (!machineHas(set)) continue;
      Exact<float> in(std::vector<float>(x.end() - static_cast<std::ptrdiff_t>(n), x.end()));
      Exact<uint16_t> out((std::vector<uint16_t>(n)));
      kernelsFor(set).rows.toHalf(in.get(), out.get(), n);
      std::vector<float> back(n);
      kernelsFor(set).rows.fromHalf(out.get(), back.data(), n);
      for (size_t i = 0; i < n; i++) {
        const float v = in.get()[i];
        // The nearest multiple of the spacing of halves at this size, ties to even.
        const float spacing = std::max(std::ldexp(1.0f, std::ilogb(v) - 10), std::ldexp(1.0f, -24));
        float expected = std::nearbyint(v / spacing) * spacing;
        if (std::fabs(expected) > 65504.0f) expected = std::copysign(kInfinity, v);
        ASSERT_EQ(back[i], expected) << v;
      }
    }
  }
}

}  // namespace
}  // namespace spillway
