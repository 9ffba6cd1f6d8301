#include "GpuPass.h"
#include "../../model/rotaryAngles.h"

namespace spillway {

namespace {

// Cosines, then sines, [tokens, dims / 2] each, for every table; once a pass. The processor computes them, so that both
// sides rotate by the same numbers.
void fillRotary(const GpuPass& pass) {
  const DecoderSpec& spec = pass.spec;
  const size_t mark = pass.host.used();
  const size_t pairs = spec.rotaryDims / 2, tokens = pass.tokens(), tables = spec.rotaryTables.size();
  float* angles = pass.host.take<float>(tables * tokens * spec.rotaryDims);
  if (!pass.measuring() && pass.activations.rotarySerial != pass.batch.serial) {
    pass.forEach(tables * tokens, [&](size_t index, unsigned) {
      float* cosines = angles + index / tokens * tokens * spec.rotaryDims + index % tokens * pairs;
      rotaryAngles(spec.rotaryTables[index / tokens], pass.batch.tokens[index % tokens].position, cosines,
                   cosines + tokens * pairs);
    });
    pass.link->upload(pass.activations.rotary, angles, tables * tokens * spec.rotaryDims * sizeof(float));
    pass.activations.rotarySerial = pass.batch.serial;
  }
  pass.host.release(mark);
}

void prepareHeads(const GpuPass& pass, size_t layer, float* x, uint32_t heads, const float* norm) {
  const DecoderSpec& spec = pass.spec;
  const size_t tokens = pass.tokens();
  pass.run([&](cudaStream_t stream) {
    if (spec.qkNorm) cuda::rmsNorm(stream, x, norm, spec.normEpsilon, tokens * heads, spec.headDim, x);
    if (spec.position != PositionKind::Rotary) return;
    const float* cosines = pass.activations.rotary + spec.layerSpecs[layer].rotaryTable * tokens * spec.rotaryDims;
    const auto pairing =
        spec.rotaryStyle == RotaryStyle::Pairs ? cuda::RotaryPairing::Pairs : cuda::RotaryPairing::Halves;
    cuda::rotate(stream, pairing, x, tokens, size_t(heads) * spec.headDim, heads, spec.headDim, spec.rotaryDims,
                 pass.constants.places, cosines, cosines + tokens * (spec.rotaryDims / 2));
  });
}

}  // namespace

void project(const GpuPass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  const LayerWeights& weights = pass.weights.layer(layer);
  Activations& activations = pass.activations;
  const size_t mark = pass.scratch.used(), tokens = pass.tokens();
  if (spec.position == PositionKind::Rotary) fillRotary(pass);
  activations.keysSerial = 0;
  const float* input = activations.hidden;
  if (spec.residual != Residual::Post) {
    float* normed = pass.scratch.take<float>(tokens * spec.hiddenSize);
    pass.norm(activations.hidden, weights.norm1, weights.norm1Bias, tokens, normed);
    input = normed;
  }
  const ProductJob jobs[] = {
      {&weights.q, weights.qBias, activations.queries, spec.queryWidth()},
      {&weights.k, weights.kBias, activations.keys, spec.keyWidth()},
      {&weights.v, weights.vBias, activations.values, spec.keyWidth()},
  };
  pass.multiply(jobs, 3, input, tokens, spec.hiddenSize, ProductOf::Tokens);
  prepareHeads(pass, layer, activations.queries, spec.heads, weights.qNorm);
  prepareHeads(pass, layer, activations.keys, spec.kvHeads, weights.kNorm);
  activations.keysSerial = pass.batch.serial;
  activations.keysLayer = layer;
  pass.scratch.release(mark);
}

}  // namespace spillway
