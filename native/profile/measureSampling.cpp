// From logits to tokens.
#include <cstring>

#include "../kernels/cpu/Sampling.h"
#include "Measurement.h"
#include "cachePages.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.015;  // a way and round
constexpr size_t kVocabulary = 32768;

class SamplingMeasurement final : public Measurement {
 public:
  std::string name() const override { return "sampling"; }

  void round(Workbench& bench) override {
    threads_ = bench.all().threads();
    set_ = bench.best();
    const Kernels& kernels = kernelsFor(set_);
    const size_t rows = std::max<size_t>(8, 4 * threads_);
    if (logits_.empty()) {
      logits_ = plainNumbers(rows * kVocabulary);
      for (float& logit : logits_)
        logit *= 3 * logit * logit;  // a few tokens are likely, most are not: what top-p keeps depends on it
    }
    workspace_.resize(threads_ * kVocabulary);
    for (const bool greedy : {true, false}) {
      SamplingParameters parameters;
      if (!greedy) parameters.temperature = 0.8f, parameters.topP = 0.95f;
      bench.sample(greedy ? greedy_ : topP_, kSeconds, 2, [&] {
        std::vector<int32_t> tokens(rows);
        const double seconds = timed([&] {
          bench.all().parallelFor(rows, [&](size_t row, unsigned worker) {
            tokens[row] = sampleToken(kernels, parameters, &logits_[row * kVocabulary], kVocabulary, nullptr, 0,
                                      static_cast<uint32_t>(row), false, &workspace_[worker * kVocabulary])
                              .token;
          });
        });
        return seconds / static_cast<double>(rows * kVocabulary);
      });
    }
  }

  void report(MachineFigures& into) const override {
    for (const bool greedy : {true, false}) {
      const Samples& samples = greedy ? greedy_ : topP_;
      Figure& figure = samples.report(into, greedy ? "sample-greedy" : "sample-top-p");
      figure.instructionSet = instructionSetName(set_);
      figure.threads = threads_;
    }
  }

 private:
  unsigned threads_ = 1;
  InstructionSet set_ = InstructionSet::Scalar;
  std::vector<float> logits_;
  std::vector<double> workspace_;  // 8 bytes an entry
  Samples greedy_, topP_;
};

}  // namespace

std::unique_ptr<Measurement> measureSampling() { return std::make_unique<SamplingMeasurement>(); }

}  // namespace spillway
