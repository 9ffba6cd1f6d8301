#include "CudaPass.h"

#include <algorithm>
#include <cmath>

#include "../../model/layer.h"
#include "../../model/rotaryAngles.h"
#include "productRuns.h"

namespace spillway {

// to = rows of an embedding, [tokens, inputs]: that of each token's id.
template <typename IdOf>
void CudaPass::lookUp(const StoredMatrix& matrix, IdOf idOf, float* to) const {
  const size_t count = tokens();
  int32_t* ids = host.take<int32_t>(count);
  for (size_t t = 0; t < count && !measuring; t++) ids[t] = idOf(batch.tokens[t]);
  const int32_t* there = upload(ids, count);
  run([&](cudaStream_t stream) {
    cuda::embed(stream, {matrix.type, matrix.outputs, matrix.inputs, matrix.panels}, there, count, to);
  });
}

void CudaPass::lookUpTokens(const StoredMatrix& embedding, float scale, float* to) const {
  const ScratchScope scope(*this);
  lookUp(
      embedding, [&](const BatchToken& token) { return batch.ranges[token.range].sequence->tokens[token.position]; },
      to);
  if (scale != 1) run([&](cudaStream_t stream) { cuda::scale(stream, scale, to, tokens() * spec.embeddingSize); });
}

void CudaPass::addPositions(const StoredMatrix& embedding) const {
  const ScratchScope scope(*this);
  float* positions = scratch.take<float>(tokens() * spec.hiddenSize);
  lookUp(
      embedding, [&](const BatchToken& token) { return static_cast<int32_t>(token.position + spec.learnedOffset); },
      positions);
  add(positions, activations.hidden);
}

void CudaPass::addTypes(const StoredMatrix& embedding) const {
  const ScratchScope scope(*this);
  float* types = scratch.take<float>(tokens() * spec.hiddenSize);
  lookUp(
      embedding,
      [&](const BatchToken& token) {
        return static_cast<int32_t>(batch.ranges[token.range].sequence->typeOf(token.position));
      },
      types);
  add(types, activations.hidden);
}

void CudaPass::normRows(const float* x, const float* weight, const float* bias, size_t rows, float* y) const {
  run([&](cudaStream_t stream) {
    if (spec.norm == NormKind::Rms)
      cuda::rmsNorm(stream, x, weight, spec.normEpsilon, rows, spec.hiddenSize, y);
    else
      cuda::layerNorm(stream, x, weight, bias, spec.normEpsilon, rows, spec.hiddenSize, y);
  });
}

void CudaPass::norm(const float* x, const float* weight, const float* bias, float* y) const {
  normRows(x, weight, bias, tokens(), y);
}

// y += x, [tokens, hiddenSize] both.
void CudaPass::add(const float* x, float* y) const {
  run([&](cudaStream_t stream) { cuda::add(stream, x, y, tokens() * spec.hiddenSize); });
}

void CudaPass::scaleBranch(float* branch) const {
  if (spec.residualScale == 1) return;
  run([&](cudaStream_t stream) { cuda::scale(stream, spec.residualScale, branch, tokens() * spec.hiddenSize); });
}

void CudaPass::addBranch(float* branch, const float* branchNorm, const float* weight, const float* bias,
                         float* next) const {
  if (branchNorm != nullptr) norm(branch, branchNorm, nullptr, branch);
  scaleBranch(branch);
  add(branch, activations.hidden);
  if (next != nullptr) norm(activations.hidden, weight, bias, next);
}

void CudaPass::addBranches(const float* first, float* second) const {
  add(first, second);
  scaleBranch(second);
  add(second, activations.hidden);
}

// Rows in halves stand after their factors, in one piece.
static size_t factorBytes(size_t rows) { return Scratch::aligned(rows * sizeof(float)); }

cuda::HalfRows CudaPass::halvesOf(const MatrixInput& input) {
  auto* data = const_cast<uint8_t*>(input.quantised);
  return {reinterpret_cast<uint16_t*>(data + factorBytes(input.rows)), reinterpret_cast<float*>(data), input.rows,
          input.columns};
}

// What a product with rows of so many columns takes: `values`, and, where it works on halves, room for those: what is
// `quantised` here are the rows' factors, then the rows.
MatrixInput CudaPass::takeInput(const float* values, size_t rows, size_t columns, ProductOf of) const {
  const size_t more = sharesProducts(of) ? cuda::CublasLtProducts::kRowUnit - 1 : 0;
  const size_t bytes = factorBytes(rows) + (rows + more) * cuda::halfColumns(columns) * sizeof(uint16_t);
  return {values, rows, columns, columns, onHalves(of) ? scratch.take<uint8_t>(bytes) : nullptr};
}

MatrixInput CudaPass::prepared(const StoredMatrix* const*, size_t, const float* input, size_t rows, size_t columns,
                               ProductOf of) const {
  const MatrixInput made = takeInput(input, rows, columns, of);
  if (onHalves(of)) run([&](cudaStream_t stream) { cuda::prepareRows(stream, input, columns, halvesOf(made)); });
  return made;
}

MatrixInput CudaPass::normed(const StoredMatrix* const*, size_t, const float* weight, const float* bias) const {
  const float* hidden = activations.hidden;
  if (!onHalves(ProductOf::Tokens)) {
    float* rows = scratch.take<float>(tokens() * spec.hiddenSize);
    norm(hidden, weight, bias, rows);
    return takeInput(rows, tokens(), spec.hiddenSize, ProductOf::Tokens);
  }
  const MatrixInput made = takeInput(nullptr, tokens(), spec.hiddenSize, ProductOf::Tokens);
  run([&](cudaStream_t stream) {
    if (spec.norm == NormKind::Rms)
      cuda::prepareRmsNorm(stream, hidden, weight, spec.normEpsilon, halvesOf(made));
    else
      cuda::prepareLayerNorm(stream, hidden, weight, bias, spec.normEpsilon, halvesOf(made));
  });
  return made;
}

// Room for what cuBLASLt works on, of any of these products.
uint8_t* CudaPass::takeWorkspace(const ProductJob* products, size_t count, size_t rows) const {
  size_t bytes = 0;
  for (size_t p = 0; p < count; p++)
    bytes = std::max(
        bytes, cuda::CublasLtProducts::workspaceBytes(products[p].weights->outputs, products[p].weights->inputs, rows));
  auto* data = scratch.take<uint8_t>(bytes + cuda::MemoryPool::kAlignment);
  return reinterpret_cast<uint8_t*>(cuda::MemoryPool::aligned(reinterpret_cast<uintptr_t>(data)));
}

void CudaPass::multiply(const ProductJob* products, size_t count, const MatrixInput& input, ProductOf of,
                        Epilogue epilogue) const {
  const size_t rows = input.rows, columns = input.columns;
  const ScratchScope scope(*this);
  const bool shared = sharesProducts(of);
  uint8_t* workspace = shared ? takeWorkspace(products, count, rows) : nullptr;
  cuda::RowRun* runMemory = shared ? host.take<cuda::RowRun>(2 * batch.ranges.size()) : nullptr;
  if (measuring) return;
  const cuda::HalfRows halves = onHalves(of) ? halvesOf(input) : cuda::HalfRows{};
  const ProductRuns runs =
      shared && library.found != nullptr ? listProductRuns(batch, library.longPromptTokens, runMemory) : ProductRuns{};
  for (size_t p = 0; p < count; p++) {
    const uint32_t outputs = products[p].weights->outputs;
    const bool divided = runs.longCount != 0 && library.found->serves(outputs, static_cast<uint32_t>(columns));
    SplitProduct split;
    split.cut(products[p], streamed);
    for (size_t j = 0; j < split.count; j++) {
      const MatmulJob& job = split.jobs[j];
      const cuda::DeviceMatrix matrix{job.weights->type, job.weights->outputs, job.weights->inputs,
                                      job.weights->panels};
      const cuda::ProductOutput output{job.bias, job.output, job.outputStride, epilogue == Epilogue::Add};
      if (!onHalves(of)) {
        cuda::multiplyFloat(link->stream(), matrix, input.values, rows, columns, output);
      } else if (!divided) {
        cuda::multiply(link->stream(), matrix, halves, output);
      } else {
        library.found->multiply(link->stream(), outputs, matrix, halves, runs.ofLong, runs.longCount, output,
                                workspace);
        for (const cuda::RowRun* run = runs.ofOthers; run != runs.ofOthers + runs.otherCount; run++)
          cuda::multiply(link->stream(), matrix, cuda::rowsOf(halves, run->first, run->count),
                         {job.bias, job.output + run->first * job.outputStride, job.outputStride, output.adds});
      }
    }
  }
}

MatrixInput CudaPass::activated(const LayerWeights& layer, const MatrixInput& input) const {
  const size_t width = layer.up.outputs, rows = tokens();
  const bool gated = present(layer.gate);
  // The activated branch comes first: gate(x), or up(x) where there is no gate.
  float* first = scratch.take<float>(rows * width);
  float* up = gated ? scratch.take<float>(rows * width) : nullptr;
  const ProductJob gatedJobs[] = {{&layer.gate, layer.gateBias, first, width}, {&layer.up, layer.upBias, up, width}};
  const ProductJob plainJob{&layer.up, layer.upBias, first, width};
  multiply(gated ? gatedJobs : &plainJob, gated ? 2 : 1, input, ProductOf::Tokens);
  const bool fused = onHalves(ProductOf::Tokens);
  const MatrixInput made = takeInput(fused ? nullptr : first, rows, width, ProductOf::Tokens);
  if (fused)
    run([&](cudaStream_t stream) { cuda::prepareActivated(stream, spec.activation, first, up, halvesOf(made)); });
  else
    activate(first, up, rows, width);
  return made;
}

void CudaPass::activate(float* x, const float* up, size_t rows, size_t width) const {
  run([&](cudaStream_t stream) { cuda::activate(stream, spec.activation, x, up, rows * width); });
}

// Cosines, then sines, [tokens, dims / 2] each, for every table. The processor computes them, so that both sides rotate
// by the same numbers.
void CudaPass::fillRotary() const {
  const ScratchScope scope(*this);
  const size_t pairs = spec.rotaryDims / 2, count = tokens(), tables = spec.rotaryTables.size();
  float* angles = host.take<float>(tables * count * spec.rotaryDims);
  if (measuring || activations.rotarySerial == batch.serial) return;
  forEach(tables * count, [&](size_t index, unsigned) {
    float* cosines = angles + index / count * count * spec.rotaryDims + index % count * pairs;
    rotaryAngles(spec.rotaryTables[index / count], batch.tokens[index % count].position, cosines,
                 cosines + count * pairs);
  });
  link->upload(activations.rotary, angles, tables * count * spec.rotaryDims * sizeof(float));
  activations.rotarySerial = batch.serial;
}

void CudaPass::normHeads(float* x, uint32_t heads, const float* norm, const float* bias) const {
  const size_t rows = tokens() * heads, width = size_t(heads) * spec.headDim;
  run([&](cudaStream_t stream) {
    switch (spec.qkNorm) {
      case QueryKeyNorm::None:
      case QueryKeyNorm::Unit: return;  // of families that no GPU computes
      case QueryKeyNorm::Row: return cuda::rmsNorm(stream, x, norm, spec.normEpsilon, tokens(), width, x);
      case QueryKeyNorm::Layer:
        return cuda::layerNorm(stream, x, norm, bias, spec.normEpsilon, rows, spec.headDim, x, heads);
      case QueryKeyNorm::Head:
      case QueryKeyNorm::Rotated: return cuda::rmsNorm(stream, x, norm, spec.normEpsilon, rows, spec.headDim, x);
    }
  });
}

void CudaPass::prepareHeads(size_t layer, float* x, uint32_t heads, const float* norm, const float* bias) const {
  if (spec.qkNorm != QueryKeyNorm::Rotated) normHeads(x, heads, norm, bias);
  run([&](cudaStream_t stream) {
    if (spec.position != PositionKind::Rotary) return;
    if (spec.layerSpecs[layer].rotaryTable == LayerSpec::kNoRotation) return;
    const float* cosines = activations.rotary + spec.layerSpecs[layer].rotaryTable * tokens() * spec.rotaryDims;
    const auto pairing =
        spec.rotaryStyle == RotaryStyle::Pairs ? cuda::RotaryPairing::Pairs : cuda::RotaryPairing::Halves;
    cuda::rotate(stream, pairing, x, tokens(), size_t(heads) * spec.headDim, heads, spec.headDim, spec.rotaryDims,
                 constants.places, cosines, cosines + tokens() * (spec.rotaryDims / 2));
  });
  if (spec.qkNorm == QueryKeyNorm::Rotated) normHeads(x, heads, norm, bias);
}

void CudaPass::finishHeads(size_t layer, float* keys, float*) const {
  const LayerWeights& own = weights.layer(layer);
  prepareHeads(layer, activations.queries, spec.heads, own.qNorm, own.qNormBias);
  prepareHeads(layer, keys, spec.kvHeads, own.kNorm, own.kNormBias);
}

// The choice is made on the host, which has to know how many tokens go to which expert; their lists lie after one
// another on the device.
ExpertRouting CudaPass::route(const LayerWeights& layer, const float* input, float* output) const {
  const size_t count = tokens(), choiceCount = count * spec.expertsPerToken;
  float* logits = scratch.take<float>(count * spec.experts);
  float* hostLogits = host.take<float>(count * spec.experts);
  auto* choices = host.take<ExpertChoice>(choiceCount);
  auto* ends = host.take<size_t>(spec.experts);  // of each expert's tokens in the two lists
  auto* chosen = host.take<uint32_t>(choiceCount);
  auto* shares = host.take<float>(choiceCount);
  // A rounding that changes the choice of experts would change everything after it.
  multiply(layer.router, layer.routerBias, input, count, logits, ProductOf::Exact);
  const bool biased = layer.routerChoiceBias != nullptr;
  float* choiceBias = biased ? host.take<float>(spec.experts) : nullptr;
  float* room = host.take<float>(size_t(compute.pool.threads()) * spec.experts);
  size_t listed = 0;
  if (!measuring) {
    link->download(hostLogits, logits, count * spec.experts * sizeof(float));
    if (biased) link->download(choiceBias, layer.routerChoiceBias, spec.experts * sizeof(float));
    forEach(count, [&](size_t t, unsigned worker) {
      chooseExperts(compute.kernels.rows, spec.router, choiceBias, hostLogits + t * spec.experts, spec.experts,
                    spec.expertsPerToken, choices + t * spec.expertsPerToken, room + size_t(worker) * spec.experts);
    });
    for (uint32_t e = 0; e < spec.experts; e++) {
      for (size_t c = 0; c < choiceCount; c++) {
        if (choices[c].expert != e) continue;
        chosen[listed] = static_cast<uint32_t>(c / spec.expertsPerToken);
        shares[listed++] = choices[c].weight;
      }
      ends[e] = listed;
    }
  }
  const ExpertRouting routing{choices, upload(chosen, choiceCount), upload(shares, choiceCount), ends};
  run([&](cudaStream_t stream) {
    cuda::check(cudaMemsetAsync(output, 0, count * spec.hiddenSize * sizeof(float), stream), "cudaMemsetAsync");
  });
  return routing;
}

ExpertTokens CudaPass::tokensOf(const ExpertRouting& routing, uint32_t expert) const {
  if (measuring) return {nullptr, nullptr, tokens()};  // at worst all of them choose one
  const size_t first = expert == 0 ? 0 : routing.ends[expert - 1];
  return {routing.tokens + first, routing.shares + first, routing.ends[expert] - first};
}

ExpertTokens CudaPass::gated(const StoredMatrix& gate, const float* input) const {
  const size_t count = tokens();
  float* logits = scratch.take<float>(count);
  float* shares = host.take<float>(count);
  auto* all = host.take<uint32_t>(count);
  multiply(gate, nullptr, input, count, logits, ProductOf::Exact);
  if (!measuring) {
    link->download(shares, logits, count * sizeof(float));
    for (size_t t = 0; t < count; t++) {
      shares[t] = 1.0f / (1.0f + std::exp(-shares[t]));
      all[t] = static_cast<uint32_t>(t);
    }
  }
  return {upload(all, count), upload(shares, count), count};
}

void CudaPass::gatherRows(const float* x, const ExpertTokens& of, size_t width, float* to) const {
  run([&](cudaStream_t stream) { cuda::gatherRows(stream, x, of.tokens, of.count, width, to); });
}

void CudaPass::scatterRows(const float* x, const ExpertTokens& of, size_t width, float* to) const {
  run([&](cudaStream_t stream) { cuda::scatterScaledRows(stream, x, of.shares, of.tokens, of.count, width, to); });
}

void CudaPass::finish(size_t layer) const { finishLayer(*this, layer); }

}  // namespace spillway
