// Every kind of decoder on a device, against the reference in double arithmetic.
#include "../../model/architectureCases.h"
#include "gpuFixture.h"

namespace spillway {
namespace {

using namespace fixture;

class GpuArchitecture : public testing::TestWithParam<Case> {
 protected:
  // tolerance: of a log-probability, and of how far a chosen token's logit may be from the best one.
  void check(Precision precision, CacheType cache, double tolerance) {
    DecoderSpec spec = smallSpec();
    GetParam().change(spec);
    const TinyModel model(spec, GetParam().optional);
    const std::vector<int32_t> text = randomTokens(40, spec.vocabularySize, 3);
    ReferenceText reference(model, text);

    RuntimeOptions options = onGpu(model.options());
    options.precision = precision;
    options.cacheType = cache;
    TinyRuntime tiny(std::move(options));
    const uint32_t scored = tiny.runtime.createSequence(sequenceOptions(text, 40));
    reference.expectScores(*tiny.pass({{scored, 0, 40, HeadMode::Score, {9, 2, 7}}}), tolerance);
    const uint32_t grown = tiny.runtime.createSequence(sequenceOptions(text, 44));
    reference.expectContinuation(tiny, grown, 44, {3, 11, 4}, tolerance);
  }
};

// In float32 as good as the processor.
TEST_P(GpuArchitecture, InFloat32EqualsTheReference) { check(Precision::Float32, CacheType::F32, 3e-4); }

// Products on halves: 11 bits of weights and activations, 2 layers, logits of about 3.
TEST_P(GpuArchitecture, OnHalvesIsNearTheReference) { check(Precision::Default, CacheType::F16, 4e-2); }

INSTANTIATE_TEST_SUITE_P(Kinds, GpuArchitecture, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace spillway
