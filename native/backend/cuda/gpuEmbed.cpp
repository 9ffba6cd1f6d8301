#include "GpuPass.h"

namespace spillway {

namespace {

// y = rows `ids` of an embedding, [tokens, inputs].
void lookUp(const GpuPass& pass, const StoredMatrix& matrix, const int32_t* ids, float* y) {
  const int32_t* onDevice = pass.upload(ids, pass.tokens());
  pass.run([&](cudaStream_t stream) {
    cuda::embed(stream, {matrix.type, matrix.outputs, matrix.inputs, matrix.panels}, onDevice, pass.tokens(), y);
  });
}

}  // namespace

void embed(const GpuPass& pass) {
  const DecoderSpec& spec = pass.spec;
  const GlobalWeights& weights = pass.weights.global();
  if (!pass.measuring()) checkKnown(pass.batch);
  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();
  const size_t tokens = pass.tokens();
  const bool projected = present(weights.embeddingProjection);
  float* embedded = projected ? pass.scratch.take<float>(tokens * spec.embeddingSize) : pass.activations.hidden;
  int32_t* ids = pass.host.take<int32_t>(tokens);
  const auto fillIds = [&](auto idOf) {
    for (size_t t = 0; t < tokens && !pass.measuring(); t++) ids[t] = idOf(pass.batch.tokens[t]);
  };
  fillIds([&](const BatchToken& token) { return pass.batch.ranges[token.range].sequence->tokens[token.position]; });
  lookUp(pass, weights.tokenEmbedding, ids, embedded);
  if (spec.embeddingScale != 1)
    pass.run(
        [&](cudaStream_t stream) { cuda::scale(stream, spec.embeddingScale, embedded, tokens * spec.embeddingSize); });
  if (projected)
    pass.multiply(weights.embeddingProjection, nullptr, embedded, tokens, pass.activations.hidden, ProductOf::Others);

  if (spec.position == PositionKind::Learned) {
    float* positions = pass.scratch.take<float>(tokens * spec.hiddenSize);
    fillIds([&](const BatchToken& token) { return static_cast<int32_t>(token.position + spec.learnedOffset); });
    lookUp(pass, weights.positionEmbedding, ids, positions);
    pass.add(positions, pass.activations.hidden, tokens * spec.hiddenSize);
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
}

}  // namespace spillway
