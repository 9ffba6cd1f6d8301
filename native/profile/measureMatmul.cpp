// Matrix products as the model makes them, on weights that come from memory: a matrix is used once a pass, so the
// caches do not hold it.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

#include "../kernels/cpu/Matmul.h"
#include "../kernels/cpu/compressRows.h"
#include "../kernels/cpu/floatFormats.h"
#include "Measurement.h"
#include "Workbench.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.01;  // a point and round
// Scalar kernels take a second for what others do in milliseconds: of sets that runs do not use by default, one sample
// that takes so long has to do.
constexpr double kLongSample = 0.04;

struct Shape {
  uint32_t outputs, inputs;
};
// Attention and feed-forward block of a model of 7 billion weights, together one figure; and a matrix of short rows, as
// models of some hundred million have them, whose products get less out of the same processor. Shapes of the same
// inputs follow each other: they share the packed weights.
constexpr Shape kShapes[] = {{4096, 4096}, {11008, 4096}, {4096, 11008}, {3072, 576}};
constexpr size_t kShort = 3;

// With inputs of whole blocks: those of K-quants have 256 weights.
Shape shapeFor(WeightType type, size_t index) {
  const uint32_t block = static_cast<uint32_t>(weightBlockElements(type));
  return {kShapes[index].outputs, kShapes[index].inputs / block * block};
}

WeightType typeOf(const std::string& kind) {
  return kind == "f32"    ? WeightType::F32
         : kind == "f16"  ? WeightType::F16
         : kind == "q8"   ? WeightType::Q8_0
         : kind == "q4_k" ? WeightType::Q4_K
         : kind == "q6_k" ? WeightType::Q6_K
                          : WeightType::Q4_0;
}

// One output's weights as a file has them.
std::vector<uint8_t> randomRow(WeightType type, size_t inputs, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::vector<uint8_t> row(weightRowBytes(type, inputs));
  std::vector<float> values(inputs);
  for (float& value : values) value = normal(random);
  if (type == WeightType::F32) {
    std::memcpy(row.data(), values.data(), row.size());
  } else if (type == WeightType::F16) {
    for (size_t i = 0; i < inputs; i++) {
      const uint16_t half = floatToHalf(values[i]);
      std::memcpy(&row[2 * i], &half, 2);
    }
  } else if (type == WeightType::Q8_0) {
    compressRow(type, values.data(), inputs, row.data());
  } else {
    for (uint8_t& byte : row) byte = static_cast<uint8_t>(random());
    // Halves of random bits may be infinite.
    const uint16_t scale = floatToHalf(0.003f);
    for (size_t at = 0; at < row.size(); at += weightBlockBytes(type)) {
      std::memcpy(&row[at + (type == WeightType::Q6_K ? 208 : 0)], &scale, 2);
      if (type == WeightType::Q4_K) std::memcpy(&row[at + 2], &scale, 2);
    }
  }
  return row;
}

// Fills the memory with panels of `inputs`; all are the same, which no kernel notices. Returns how many there are.
size_t packPanels(Workbench& bench, WeightType type, size_t inputs) {
  std::mt19937 random(1);
  std::vector<std::vector<uint8_t>> rows;
  const uint8_t* pointers[kPanelOutputs];
  for (size_t i = 0; i < kPanelOutputs; i++) rows.push_back(randomRow(type, inputs, random));
  for (size_t i = 0; i < kPanelOutputs; i++) pointers[i] = rows[i].data();
  uint8_t* memory = bench.memory();
  const size_t bytes = panelBytes(type, inputs), count = bench.memoryBytes() / bytes;
  packPanel(type, inputs, pointers, memory);
  if (count > 1)
    bench.all().parallelFor(count - 1,
                            [&](size_t panel, unsigned) { std::memcpy(memory + (panel + 1) * bytes, memory, bytes); });
  return count;
}

// One shape on one setting with a number of tokens.
struct Point {
  Samples samples;     // seconds of the whole shape
  size_t outputs = 0;  // that a sample computes
};

class MatmulMeasurement final : public Measurement {
 public:
  explicit MatmulMeasurement(const std::string& kind) : kind_(kind), type_(typeOf(kind)) {}

  std::string name() const override { return "products with " + kind_ + " weights"; }

  void round(Workbench& bench) override {
    settings_ = bench.settings(true);
    glance_ = bench.glance();
    speedOnly_ = bench.options().speedOnly;
    tokenCounts_ = bench.options().tokenCounts;
    points_.resize(settings_.size() * tokenCounts_.size() * std::size(kShapes));
    uint32_t packed = 0;
    for (size_t shape = 0; shape < std::size(kShapes); shape++) {
      if ((glance_ && shape > 0 && shape != kShort) || (speedOnly_ && shape == kShort)) continue;
      const Shape fitting = shapeFor(type_, shape);
      if (std::exchange(packed, fitting.inputs) != fitting.inputs) panels_ = packPanels(bench, type_, packed);
      for (size_t setting = 0; setting < settings_.size(); setting++) {
        if (!covers(setting, shape) || (rounds_ > 0 && settings_[setting].aside)) continue;
        for (size_t t = 0; t < tokenCounts_.size(); t++)
          takeSamples(bench, settings_[setting], fitting, tokenCounts_[t], pointAt(setting, t, shape));
      }
    }
    rounds_++;
  }

  void report(MachineFigures& into) const override {
    for (size_t setting = 0; setting < settings_.size(); setting++) {
      for (size_t t = 0; t < tokenCounts_.size(); t++) {
        into.figures.push_back(figureOf(setting, t, 0, kShort));
        if (covers(setting, kShort)) into.figures.push_back(figureOf(setting, t, kShort, std::size(kShapes)));
      }
    }
  }

 private:
  // Of the shapes from `first` on, before `end`.
  Figure figureOf(size_t setting, size_t t, size_t first, size_t end) const {
    Figure figure;
    figure.what = "matmul";
    figure.kind = kind_;
    figure.instructionSet = instructionSetName(settings_[setting].set);
    figure.threads = settings_[setting].pool->threads();
    figure.tokens = tokenCounts_[t];
    figure.inputs = shapeFor(type_, first).inputs;
    double operations = 0, seconds = 0, uncertain = 0;
    for (size_t shape = first; shape < end; shape++) {
      if (!covers(setting, shape)) continue;
      const Samples& samples = points_[indexOf(setting, t, shape)].samples;
      const Shape fitting = shapeFor(type_, shape);
      operations += 2.0 * fitting.outputs * fitting.inputs * static_cast<double>(tokenCounts_[t]);
      seconds += samples.median();
      uncertain += samples.median() * samples.spread();
      figure.samples += samples.count();
    }
    figure.perSecond = operations / seconds;
    figure.spread = uncertain / seconds;
    return figure;
  }

  bool covers(size_t setting, size_t shape) const {
    if (shape == kShort) return !settings_[setting].aside && !speedOnly_;
    return shape == 0 || (!settings_[setting].aside && !glance_);
  }
  size_t indexOf(size_t setting, size_t t, size_t shape) const {
    return (setting * tokenCounts_.size() + t) * std::size(kShapes) + shape;
  }
  Point& pointAt(size_t setting, size_t t, size_t shape) { return points_[indexOf(setting, t, shape)]; }

  void takeSamples(Workbench& bench, const ComputeSetting& setting, const Shape& shape, size_t tokens, Point& point) {
    const Compute compute{kernelsFor(setting.set), *setting.pool, Precision::Default};
    const QuantisedInput form = quantisedInput(compute, type_);
    for (size_t i = inputs_.size(); i < tokens * shape.inputs; i++)
      inputs_.push_back(static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.02f);
    outputs_.resize(std::max(outputs_.size(), tokens * shape.outputs));
    Scratch counter(nullptr, 0);
    prepareInput(compute, inputs_.data(), tokens, shape.inputs, shape.inputs, form, counter);
    matmul(compute, nullptr, 0, MatrixInput{inputs_.data(), tokens, shape.inputs, shape.inputs, nullptr}, counter);
    if (scratch_.bytes() < counter.peak()) scratch_ = Arena(counter.peak(), "profiling this machine");

    // Seconds of a product with `outputs` of the shape's outputs.
    const auto product = [&](size_t outputs) {
      const size_t panels = (outputs + kPanelOutputs - 1) / kPanelOutputs;
      if (at_ + panels > panels_) at_ = 0;
      const WeightMatrix weights{type_, static_cast<uint32_t>(outputs), shape.inputs,
                                 bench.memory() + at_ * panelBytes(type_, shape.inputs)};
      at_ += panels;
      Scratch scratch(scratch_.data(), scratch_.bytes());
      const MatrixInput input =
          prepareInput(compute, inputs_.data(), tokens, shape.inputs, shape.inputs, form, scratch);
      const MatmulJob job{&weights, nullptr, outputs_.data(), outputs};
      return timed([&] { matmul(compute, &job, 1, input, scratch); });
    };
    // Parts of the whole are cut at panels that every kernel takes at once, enough of them for all threads.
    const size_t step = std::min<size_t>(48 * setting.pool->threads(), shape.outputs);
    const size_t most = std::min<size_t>(shape.outputs, panels_ * kPanelOutputs);
    const size_t least = std::min(step, most);
    const auto wholeOver = [&](size_t part) { return static_cast<double>(shape.outputs) / static_cast<double>(part); };
    if (setting.aside) {
      const double seconds = bench.undisturbed([&] { return product(least); });
      if (seconds >= kLongSample) {
        point.samples.add(seconds * wholeOver(least));
        return;
      }
    }
    if (point.outputs == 0) point.outputs = bench.unitsPerSample(least, most, product);
    const double whole = wholeOver(point.outputs);
    bench.sample(point.samples, kSeconds, 2, [&] { return product(point.outputs) * whole; });
  }

  std::string kind_;
  WeightType type_;
  std::vector<ComputeSetting> settings_;
  std::vector<size_t> tokenCounts_;
  std::vector<Point> points_;
  std::vector<float> inputs_, outputs_;
  Arena scratch_;
  bool glance_ = false;
  bool speedOnly_ = false;
  size_t rounds_ = 0;
  size_t panels_ = 0;  // in the memory
  size_t at_ = 0;      // the next one
};

}  // namespace

std::unique_ptr<Measurement> measureMatmul(const std::string& kind) {
  return std::make_unique<MatmulMeasurement>(kind);
}

}  // namespace spillway
