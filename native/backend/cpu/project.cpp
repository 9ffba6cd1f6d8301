#include "Pass.h"
#include "../../model/rotaryAngles.h"

namespace spillway {

namespace {

// Cosines and sines of all tokens' angles, for every table. Once a pass, by its first layer here.
void fillRotary(const Pass& pass) {
  const DecoderSpec& spec = pass.spec;
  if (pass.measuring || pass.activations.rotarySerial == pass.batch.serial) return;
  const size_t tables = spec.rotaryTables.size();
  pass.forRows(
      tables * pass.tokens(), spec.rotaryDims * 8, [&](size_t index, unsigned) {  // an angle costs as much as many sums
        float* cosines = pass.activations.rotary + index * spec.rotaryDims;
        rotaryAngles(spec.rotaryTables[index / pass.tokens()], pass.batch.tokens[index % pass.tokens()].position,
                     cosines, cosines + spec.rotaryDims / 2);
      });
  pass.activations.rotarySerial = pass.batch.serial;
}

}  // namespace

void project(const Pass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  const LayerWeights& weights = pass.weights.layer(layer);
  const RowKernels& kernels = pass.compute.kernels.rows;
  const size_t mark = pass.scratch.used();
  const bool rotary = spec.position == PositionKind::Rotary;
  if (rotary) fillRotary(pass);
  if (!pass.batch.spilled) copyPages(pass, layer);

  const StoredMatrix* const matrices[] = {&weights.q, &weights.k, &weights.v};
  const MatrixInput input =
      spec.residual == Residual::Post
          ? pass.prepared(matrices, 3, pass.activations.hidden, pass.tokens(), spec.hiddenSize, pass.compute)
          : pass.normed(matrices, weights.norm1, weights.norm1Bias);
  const bool kept = pass.activations.keepsKeys;
  float* keys = kept ? pass.activations.keys : pass.scratch.take<float>(pass.tokens() * spec.keyWidth());
  float* values = kept ? pass.activations.values : pass.scratch.take<float>(pass.tokens() * spec.keyWidth());
  const ProductJob jobs[] = {
      {&weights.q, weights.qBias, pass.activations.queries, spec.queryWidth()},
      {&weights.k, weights.kBias, keys, spec.keyWidth()},
      {&weights.v, weights.vBias, values, spec.keyWidth()},
  };
  pass.multiply(jobs, 3, input, pass.compute);

  const float* table = rotary && !pass.measuring ? pass.activations.rotary + spec.layerSpecs[layer].rotaryTable *
                                                                                 pass.tokens() * spec.rotaryDims
                                                 : nullptr;
  const auto rotate = spec.rotaryStyle == RotaryStyle::Pairs ? kernels.rotatePairs : kernels.rotateHalves;
  pass.forRows(pass.tokens(), spec.queryWidth() + 2 * size_t(spec.keyWidth()), [&](size_t t, unsigned) {
    const auto prepare = [&](float* heads, size_t count, const float* weight) {
      for (size_t h = 0; h < count; h++) {
        float* head = heads + h * spec.headDim;
        if (spec.qkNorm) kernels.rmsNorm(head, weight, spec.normEpsilon, spec.headDim, head);
        if (rotary)
          rotate(head, table + t * spec.rotaryDims, table + t * spec.rotaryDims + spec.rotaryDims / 2, spec.rotaryDims);
      }
    };
    float* key = keys + t * spec.keyWidth();
    prepare(pass.activations.queries + t * spec.queryWidth(), spec.heads, weights.qNorm);
    prepare(key, spec.kvHeads, weights.kNorm);
    if (pass.batch.spilled) return;  // pages may be on their way from the disk: attention stores them
    const BatchToken& token = pass.batch.tokens[t];
    const uint32_t pageTokens = pass.cache.layout().pageTokens;
    const int32_t page = pass.batch.pages[pass.batch.ranges[token.range].firstPage + token.position / pageTokens];
    cacheStore(pass.compute.kernels, pass.cache.layout(), pass.cache.page(layer, static_cast<size_t>(page)),
               token.position % pageTokens, key, values + t * spec.keyWidth());
  });
  pass.activations.keysSerial = pass.batch.serial;
  pass.activations.keysLayer = layer;
  pass.scratch.release(mark);
}

}  // namespace spillway
