// What a layer does to each row beside its products and attention: norm, rounding for a product, activation function,
// rotation, residual sum.
#include <algorithm>

#include "../kernels/cpu/Matmul.h"
#include "Measurement.h"
#include "Workbench.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.02;  // a round
constexpr size_t kRows = 64;
constexpr size_t kWidth = 2048;
constexpr size_t kHead = 64;
constexpr size_t kOperations = 5;  // that a value goes through, each of which reads and writes it

class RowsMeasurement final : public Measurement {
 public:
  std::string name() const override { return "norms, activations, sums"; }

  void round(Workbench& bench) override {
    threads_ = bench.all().threads();
    set_ = bench.best();
    const Compute compute{kernelsFor(set_), bench.all(), Precision::Default};
    const RowKernels& kernels = compute.kernels.rows;
    if (hidden_.empty()) {
      hidden_.resize(kRows * kWidth);
      for (size_t i = 0; i < hidden_.size(); i++)
        hidden_[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.02f;
      normed_ = factors_ = hidden_;
      weight_.assign(kWidth, 1.0f);
      angles_.assign(kHead, 0.7f);  // cosines and sines alike: rotating keeps the length
      Scratch counter(nullptr, 0);
      prepareInput(compute, normed_.data(), kRows, kWidth, kWidth, compute.kernels.matmul.quantised, counter);
      scratch_ = Arena(std::max<size_t>(1, counter.peak()), "profiling this machine");
    }
    // Loops as a layer has them: norm; rounding; rotation, activation and sum.
    const auto layer = [&] {
      bench.all().parallelFor(kRows / kTogether, [&](size_t part, unsigned) {
        for (size_t row = part * kTogether; row < (part + 1) * kTogether; row++)
          kernels.rmsNorm(&hidden_[row * kWidth], weight_.data(), 1e-5f, kWidth, &normed_[row * kWidth]);
      });
      Scratch scratch(scratch_.data(), scratch_.bytes());
      prepareInput(compute, normed_.data(), kRows, kWidth, kWidth, compute.kernels.matmul.quantised, scratch);
      bench.all().parallelFor(kRows / kTogether, [&](size_t part, unsigned) {
        for (size_t row = part * kTogether; row < (part + 1) * kTogether; row++) {
          float* values = &normed_[row * kWidth];
          for (size_t head = 0; head < kWidth; head += kHead)
            kernels.rotateHalves(values + head, angles_.data(), angles_.data() + kHead / 2, kHead);
          kernels.activate(Activation::Silu, values, &factors_[row * kWidth], kWidth);
          kernels.add(&factors_[row * kWidth], values, kWidth);
        }
      });
    };
    bench.sample(samples_, kSeconds, 3,
                 [&] { return timed(layer) / static_cast<double>(kOperations * kRows * kWidth); });
  }

  void report(MachineFigures& into) const override {
    Figure& figure = samples_.report(into, "rows");
    figure.instructionSet = instructionSetName(set_);
    figure.threads = threads_;
  }

 private:
  static constexpr size_t kTogether = 4;  // that a thread takes at a time
  unsigned threads_ = 1;
  InstructionSet set_ = InstructionSet::Scalar;
  std::vector<float> hidden_, normed_, factors_, weight_, angles_;
  Arena scratch_;
  Samples samples_;
};

}  // namespace

std::unique_ptr<Measurement> measureRows() { return std::make_unique<RowsMeasurement>(); }

}  // namespace spillway
