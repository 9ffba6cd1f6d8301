// Which bindings are refused, and that the message names file, role, what was found and what was expected.
#include <functional>

#include "../../kernels/cpu/floatFormats.h"
#include "modelFixture.h"

namespace spillway {
namespace {

using namespace fixture;

WeightBinding& find(RuntimeOptions& options, int layer, const std::string& role) {
  for (WeightBinding& binding : options.bindings) {
    if (binding.layer == layer && binding.role == role) return binding;
  }
  throw std::logic_error("no binding " + role);
}

class WeightBindings : public testing::Test {
 protected:
  WeightBindings() : model_(smallSpec(), false) {}

  void expectRefused(const std::function<void(RuntimeOptions&)>& change, const std::string& field,
                     const std::string& words) {
    RuntimeOptions options = model_.options();
    change(options);
    try {
      Model(std::move(options)).reserve();
      ADD_FAILURE() << "accepted: " << words;
    } catch (const FileError& error) {
      EXPECT_EQ(error.field, field);
      EXPECT_EQ(error.file, model_.file);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
  TinyModel model_;
};

TEST_F(WeightBindings, MissingOnes) {
  expectRefused([](RuntimeOptions& o) { o.bindings.erase(o.bindings.begin()); }, "token_embedding",
                "found no such tensor, expected matrix [67, 48]");
  expectRefused([](RuntimeOptions& o) { find(o, 1, "up.weight").layer = 5; }, "layer 5 up.weight", "unknown role");
  expectRefused([](RuntimeOptions& o) { o.bindings.pop_back(); }, "layer 1 down.weight", "no such tensor");
  expectRefused([](RuntimeOptions& o) { o.bindings.resize(8); }, "tensors", "expected at least 12");
}

TEST_F(WeightBindings, DuplicateUnknownAndUselessOnes) {
  expectRefused([](RuntimeOptions& o) { o.bindings.push_back(find(o, 0, "q.weight")); }, "layer 0 q.weight",
                "two bindings");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "q.weight").role = "Q.weight"; }, "layer 0 Q.weight",
                "unknown role");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "q.weight").layer = -1; }, "q.weight", "unknown role");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "q.weight").layer = -2; }, "q.weight", "unknown role");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "q.weight").role = "expert.0.up.weight"; },
                "layer 0 expert.0.up.weight", "unknown role");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "norm1.weight").role = "norm1.bias"; }, "layer 0 norm1.bias",
                "no use for it");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "norm1.weight").role = "q_norm.weight"; }, "layer 0 q_norm.weight",
                "no use for it");
}

TEST_F(WeightBindings, ShapesAndTypesThatContradictTheSpec) {
  expectRefused([](RuntimeOptions& o) { find(o, 1, "k.weight").rows = 31; }, "layer 1 k.weight",
                "found matrix [31, 48], expected matrix [32, 48]");
  expectRefused([](RuntimeOptions& o) { find(o, 1, "k.weight").columns = 47; }, "layer 1 k.weight",
                "found matrix [32, 47]");
  expectRefused([](RuntimeOptions& o) { find(o, 1, "k.weight").matrix = false; }, "layer 1 k.weight",
                "found vector [32]");
  expectRefused([](RuntimeOptions& o) { find(o, 1, "norm1.weight").matrix = true; }, "layer 1 norm1.weight",
                "expected vector [48]");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "k.weight").type = WeightType::Q4_1; }, "layer 0 k.weight",
                "found 48 columns, expected a multiple of 32");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "norm1.weight").type = WeightType::Q8_0; }, "layer 0 norm1.weight",
                "quantised vector");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "k.weight").compressed = WeightType::Q4_G64; }, "layer 0 k.weight",
                "found 48 columns, expected a multiple of 64");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "k.weight").compressed = WeightType::Q4_0; }, "layer 0 k.weight",
                "found compression to Q4_0");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "norm1.weight").compressed = WeightType::Q8_0; },
                "layer 0 norm1.weight", "expected a matrix");
}

TEST_F(WeightBindings, SegmentsThatDoNotFit) {
  expectRefused([](RuntimeOptions& o) { find(o, 0, "o.weight").segments.pop_back(); }, "layer 0 o.weight",
                "found 24 rows in its segments, expected 48");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "o.weight").segments.clear(); }, "layer 0 o.weight", "found 0 rows");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "o.weight").segments[0].rows = 0; }, "layer 0 o.weight",
                "without rows");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "o.weight").segments[1].file = 1; }, "layer 0 o.weight",
                "an index under 1");
  expectRefused([](RuntimeOptions& o) { find(o, 0, "o.weight").segments[0].rows = 0xffffffffu; }, "layer 0 o.weight",
                "in its segments");
  for (const uint64_t offset : {uint64_t(1) << 20, uint64_t(1) << 53, ~uint64_t(0)}) {
    expectRefused([offset](RuntimeOptions& o) { find(o, 0, "o.weight").segments[0].offset = offset; },
                  "layer 0 o.weight", "within the file's");
  }
}

TEST_F(WeightBindings, FilesThatCannotBeOpened) {
  RuntimeOptions options = model_.options();
  options.files[0] = "/nonexistent/model.gguf";
  Model model(std::move(options));  // opens nothing yet
  EXPECT_THROW(model.reserve(), FileError);
}

// A spec may promise anything; what it would take is refused before it is allocated.
TEST_F(WeightBindings, HugePromisesAreRefusedFirst) {
  expectRefused(
      [](RuntimeOptions& o) {
        o.decoder.feedForward = FeedForwardKind::Experts;
        o.decoder.experts = 4096;
        o.decoder.expertsPerToken = 4096;
        o.decoder.layers = 4096;
        o.decoder.layerSpecs.resize(4096);
      },
      "tensors", "expected at least");
}

// Half-width vectors, and what is added to them, load like the same values in float32.
TEST_F(WeightBindings, VectorsInSixteenBits) {
  const auto score = [](RuntimeOptions options) {
    TinyRuntime tiny(std::move(options));
    const uint32_t row = tiny.runtime.createSequence(sequenceOptions({1, 2, 3, 4, 5}, 5));
    return tiny.pass({{row, 0, 5, HeadMode::Score, {0}}})->scores;
  };
  std::vector<std::vector<float>> results;
  for (const WeightType type : {WeightType::F32, WeightType::F16, WeightType::BF16}) {
    char path[] = "/tmp/spillway-vector-XXXXXX";
    FILE* out = fdopen(mkstemp(path), "wb");
    for (int i = 0; i < 48; i++) {
      const float value = float(i % 5) / 4 - 0.5f;  // exact in every type
      const uint32_t bits = type == WeightType::F32   ? bitsOfFloat(value)
                            : type == WeightType::F16 ? floatToHalf(value)
                                                      : bitsOfFloat(value) >> 16;
      std::fwrite(&bits, weightRowBytes(type, 1), 1, out);
    }
    std::fclose(out);
    RuntimeOptions options = model_.options();
    options.files.push_back(path);
    WeightBinding& norm = find(options, 1, "norm2.weight");
    norm.type = type;
    norm.add = 1;
    norm.segments = {{1, 0, 48}};
    results.push_back(score(std::move(options)));
    std::remove(path);
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
  EXPECT_NE(results[0], score(model_.options()));
}

}  // namespace
}  // namespace spillway
