#include "CpuPass.h"

#include <array>
#include <cmath>
#include <cstring>

#include "../../model/rotaryAngles.h"

namespace spillway {

namespace {

// Weights of a norm that has none.
const std::array<float, kMaxHeadDim> kOnes = [] {
  std::array<float, kMaxHeadDim> ones;
  ones.fill(1.0f);
  return ones;
}();

float queryFactor(const QueryScale& scale, uint32_t position) {
  const uint32_t periods = (position + scale.first) / scale.period;
  return static_cast<float>(1.0 + double(scale.factor) * std::log1p(double(periods)));
}

// In comparisons a NaN stays one.
void clip(float most, float* x, size_t count) {
  for (size_t i = 0; i < count; i++) x[i] = x[i] > most ? most : x[i] < -most ? -most : x[i];
}

}  // namespace

void CpuPass::lookUpTokens(const StoredMatrix& embedding, float scale, float* to) const {
  const size_t width = spec.embeddingSize;
  forRows(tokens(), width, [&](size_t t, unsigned) {
    const BatchToken& token = batch.tokens[t];
    float* row = to + t * width;
    unpackRow(embedding, static_cast<size_t>(batch.ranges[token.range].sequence->tokens[token.position]), row);
    if (scale != 1) compute.kernels.rows.scale(scale, row, width);
  });
}

// hidden += rows of the matrix, of each token the one that rowOf(token) says.
template <typename RowOf>
void CpuPass::addEmbeddings(const StoredMatrix& matrix, const RowOf& rowOf) const {
  const size_t width = spec.hiddenSize;
  const ScratchScope scope(*this);
  float* rows = scratch.take<float>(size_t(compute.pool.threads()) * width);
  forRows(tokens(), width, [&](size_t t, unsigned worker) {
    float* row = rows + size_t(worker) * width;
    unpackRow(matrix, rowOf(batch.tokens[t]), row);
    compute.kernels.rows.add(row, activations.hidden + t * width, width);
  });
}

void CpuPass::addPositions(const StoredMatrix& embedding) const {
  addEmbeddings(embedding, [this](const BatchToken& token) { return size_t(token.position) + spec.learnedOffset; });
}

void CpuPass::addTypes(const StoredMatrix& embedding) const {
  addEmbeddings(embedding,
                [this](const BatchToken& token) { return batch.ranges[token.range].sequence->typeOf(token.position); });
}

void CpuPass::norm(const float* x, const float* weight, const float* bias, float* y) const {
  const size_t width = spec.hiddenSize;
  forRows(tokens(), width, [&](size_t t, unsigned) { normRow(x + t * width, weight, bias, y + t * width); });
}

void CpuPass::addBranch(float* branch, const float* branchNorm, const float* weight, const float* bias,
                        float* next) const {
  const size_t width = spec.hiddenSize;
  forRows(tokens(), width, [&](size_t t, unsigned) {
    float* added = branch + t * width;
    float* h = activations.hidden + t * width;
    if (branchNorm != nullptr) normRow(added, branchNorm, nullptr, added);
    if (spec.residualScale != 1) compute.kernels.rows.scale(spec.residualScale, added, width);
    compute.kernels.rows.add(added, h, width);
    if (next != nullptr) normRow(h, weight, bias, next + t * width);
  });
}

void CpuPass::addBranches(const float* first, float* second) const {
  const size_t width = spec.hiddenSize;
  forRows(tokens(), width, [&](size_t t, unsigned) {
    compute.kernels.rows.add(first + t * width, second + t * width, width);
    if (spec.residualScale != 1) compute.kernels.rows.scale(spec.residualScale, second + t * width, width);
    compute.kernels.rows.add(second + t * width, activations.hidden + t * width, width);
  });
}

void CpuPass::addRows(const float* x, float* y) const {
  const size_t width = spec.hiddenSize;
  forRows(tokens(), width, [&](size_t t, unsigned) { compute.kernels.rows.add(x + t * width, y + t * width, width); });
}

void CpuPass::weighBranch(const BranchSum& sum, float* branch) const {
  const size_t width = spec.hiddenSize;
  forRows(tokens(), width, [&](size_t t, unsigned) {
    compute.kernels.rows.scale(sum.kept, activations.hidden + t * width, width);
    compute.kernels.rows.scale(sum.added, branch + t * width, width);
  });
}

// What rounded rows products with these weights take, if they take nothing else: then whole rows need not stand in
// memory as floats.
QuantisedInput CpuPass::quantisedRows(const StoredMatrix* const* weights, size_t count) const {
  const QuantisedInput form = quantisedInput(compute, weights[0]->type);
  return std::all_of(weights, weights + count,
                     [=](const StoredMatrix* each) { return quantisedInput(compute, each->type) == form; })
             ? form
             : QuantisedInput::None;
}

MatrixInput CpuPass::prepared(const StoredMatrix* const* weights, size_t count, const float* input, size_t rows,
                              size_t columns, ProductOf of) const {
  const Compute on = computeOf(of);
  QuantisedInput form = QuantisedInput::None;
  for (size_t w = 0; w < count && form == QuantisedInput::None; w++) form = quantisedInput(on, weights[w]->type);
  return prepareInput(on, input, rows, columns, columns, form, scratch);
}

MatrixInput CpuPass::normed(const StoredMatrix* const* weights, size_t count, const float* weight,
                            const float* bias) const {
  const size_t width = spec.hiddenSize;
  const auto make = [this, weight, bias, width](size_t t, float* to) {
    normRow(activations.hidden + t * width, weight, bias, to);
  };
  if (const QuantisedInput form = quantisedRows(weights, count); form != QuantisedInput::None) {
    const RowMaker maker{
        [](const void* context, size_t row, float* to) { (*static_cast<decltype(&make)>(context))(row, to); }, &make};
    return prepareQuantised(compute, maker, tokens(), width, form, scratch);
  }
  float* rows = scratch.take<float>(tokens() * width);
  forRows(tokens(), width, [&](size_t t, unsigned) { make(t, rows + t * width); });
  return prepared(weights, count, rows, tokens(), width, ProductOf::Tokens);
}

void CpuPass::multiply(const ProductJob* products, size_t count, const MatrixInput& input, ProductOf of,
                       Epilogue epilogue) const {
  SplitProduct split[kMostProducts];
  MatmulJob jobs[2 * kMostProducts];
  size_t jobCount = 0;
  for (size_t p = 0; p < count; p++) {
    split[p].cut(products[p], streamed);
    for (size_t j = 0; j < split[p].count; j++) {
      jobs[jobCount] = split[p].jobs[j];
      jobs[jobCount++].epilogue = epilogue;
    }
  }
  matmul(computeOf(of), jobs, jobCount, input, scratch);
}

MatrixInput CpuPass::activated(const LayerWeights& layer, const MatrixInput& input) const {
  const size_t width = layer.up.outputs;
  const bool gated = present(layer.gate);
  const StoredMatrix* const down[] = {&layer.down};
  // The activated branch comes first: gate(x), or up(x) where there is no gate.
  const StoredMatrix& first = gated ? layer.gate : layer.up;
  const float* firstBias = gated ? layer.gateBias : layer.upBias;
  const bool whole =
      !(streams(first) && first.residentOutputs != 0) && !(streams(layer.up) && layer.up.residentOutputs != 0);
  const bool isXielu = spec.activation == Activation::Xielu;
  // Of a layer with experts this is the block beside them.
  const float innerScale = present(layer.router) ? spec.sharedScale : spec.innerScale;
  const bool plain = !isXielu && layer.gateDeviations == 0 && spec.gateScale == 1 && innerScale == 1;
  if (whole && plain && quantisedInput(compute, first.type) == quantisedInput(compute, layer.up.type)) {
    // Groups of 8 bits are rounded as the whole row is, so only bfloat16 can be rounded part by part.
    const bool rounds = quantisedRows(down, 1) == QuantisedInput::Bfloat16;
    const MatrixInput rows = rounds
                                 ? allocateQuantised(QuantisedInput::Bfloat16, tokens(), width, scratch)
                                 : MatrixInput{scratch.take<float>(tokens() * width), tokens(), width, width, nullptr};
    // Both are whole, wherever they are: one part each.
    SplitProduct parts, up;
    parts.cut({&first, firstBias, const_cast<float*>(rows.values), width}, streamed);
    if (gated) up.cut({&layer.up, layer.upBias, nullptr, width}, streamed);
    MatmulJob& job = parts.jobs[0];
    job.epilogue = Epilogue::Activate;
    job.activation = spec.activation;
    if (gated) job.factor = &up.matrices[0], job.factorBias = layer.upBias;
    job.quantised = const_cast<uint8_t*>(rows.quantised);
    matmul(compute, &job, 1, input, scratch);
    return rounds ? rows : prepared(down, 1, rows.values, tokens(), width, ProductOf::Tokens);
  }
  float* rows = scratch.take<float>(tokens() * width);
  float* up = gated ? scratch.take<float>(tokens() * width) : nullptr;
  const ProductJob jobs[] = {{&first, firstBias, rows, width}, {&layer.up, layer.upBias, up, width}};
  multiply(jobs, gated ? 2 : 1, input, ProductOf::Tokens);
  const auto scaleRows = [&](float scale) {
    if (scale == 1) return;
    forRows(tokens(), width, [&](size_t t, unsigned) { compute.kernels.rows.scale(scale, rows + t * width, width); });
  };
  scaleRows(spec.gateScale);
  if (layer.gateDeviations != 0) cutOff(layer.gateDeviations, rows, width);
  if (isXielu)
    activateXielu(layer.xielu, rows, width);
  else
    activate(rows, up, tokens(), width);
  scaleRows(innerScale);
  return prepared(down, 1, rows, tokens(), width, ProductOf::Tokens);
}

void CpuPass::activate(float* x, const float* up, size_t rows, size_t width) const {
  forRows(rows, width, [&](size_t i, unsigned) {
    compute.kernels.rows.activate(spec.activation, x + i * width, up == nullptr ? nullptr : up + i * width, width);
  });
}

void CpuPass::fillRotary() const {
  if (measuring || activations.rotarySerial == batch.serial) return;
  const size_t tables = spec.rotaryTables.size();
  forRows(tables * tokens(), spec.rotaryDims * 8, [&](size_t index, unsigned) {  // an angle costs as much as many sums
    const RotaryTable& table = spec.rotaryTables[index / tokens()];
    float* cosines = activations.rotary + index * spec.rotaryDims;
    rotaryAngles(table, batch.tokens[index % tokens()].position, cosines, cosines + table.frequencies.size());
  });
  activations.rotarySerial = batch.serial;
}

namespace {

// Heads of `from` elements each that follow one another become heads of `to` elements, which end with zeros.
void spreadHeads(float* heads, size_t count, size_t from, size_t to) {
  for (size_t h = count; h-- > 0;) {
    std::memmove(heads + h * to, heads + h * from, from * sizeof(float));
    std::fill(heads + h * to + from, heads + (h + 1) * to, 0.0f);
  }
}

}  // namespace

void CpuPass::finishHeads(size_t layer, float* keys, float* values) const {
  const RowKernels& kernels = compute.kernels.rows;
  const LayerWeights& weights = this->weights.layer(layer);
  const LayerSpec& layerSpec = spec.layerSpecs[layer];
  const uint32_t tableIndex = layerSpec.rotaryTable;
  const bool rotary = spec.position == PositionKind::Rotary && tableIndex != LayerSpec::kNoRotation;
  const bool stores = !batch.spilled && !spec.attendsByRows();
  if (stores && layerSpec.ownKeys()) copyPages(*this, layer);
  const float* table = rotary && !measuring ? activations.rotary + tableIndex * tokens() * spec.rotaryDims : nullptr;
  const uint32_t group = cache.groups().groupOf(layer);
  const auto rotate = spec.rotaryStyle == RotaryStyle::Pairs ? kernels.rotatePairs : kernels.rotateHalves;
  const size_t headDim = spec.headDimOf(layerSpec), queryWidth = spec.queryWidth(layerSpec),
               keyWidth = spec.keyWidth(layerSpec), kvHeads = spec.kvHeadsOf(layerSpec),
               dims = rotary ? 2 * spec.rotaryTables[tableIndex].frequencies.size() : 0;
  const bool unit = spec.qkNorm == QueryKeyNorm::Unit && rotary;
  forRows(tokens(), queryWidth + 2 * keyWidth, [&](size_t t, unsigned) {
    const auto prepare = [&](float* heads, size_t count, const float* weight, const float* bias) {
      if (spec.qkNorm == QueryKeyNorm::Row) kernels.rmsNorm(heads, weight, spec.normEpsilon, count * headDim, heads);
      for (size_t h = 0; h < count; h++) {
        float* head = heads + h * headDim;
        if (spec.qkNorm == QueryKeyNorm::Head) kernels.rmsNorm(head, weight, spec.normEpsilon, headDim, head);
        if (spec.qkNorm == QueryKeyNorm::Layer)
          kernels.layerNorm(head, weight + h * headDim, bias == nullptr ? nullptr : bias + h * headDim,
                            spec.normEpsilon, headDim, head);
        // Of latent rows the last elements.
        if (rotary)
          rotate(head + spec.latent.rank, table + t * spec.rotaryDims, table + t * spec.rotaryDims + dims / 2, dims);
        if (spec.qkNorm == QueryKeyNorm::Rotated) kernels.rmsNorm(head, weight, spec.normEpsilon, headDim, head);
        if (unit) kernels.rmsNorm(head, kOnes.data(), spec.normEpsilon, headDim, head);
      }
    };
    float* queries = activations.queries + t * queryWidth;
    if (spec.attentionClip != 0) clip(spec.attentionClip, queries, queryWidth);
    prepare(queries, spec.headsOf(layerSpec), weights.qNorm, weights.qNormBias);
    if (layerSpec.scalesQueries) {
      const float factor = queryFactor(spec.queryScale, batch.tokens[t].position);
      if (factor != 1) kernels.scale(factor, queries, queryWidth);
    }
    if (!layerSpec.ownKeys()) return;
    float* key = keys + t * keyWidth;
    if (spec.valueDim != 0) spreadHeads(values + t * keyWidth, kvHeads, spec.valueDim, headDim);
    if (spec.attentionClip != 0) {
      clip(spec.attentionClip, key, keyWidth);
      clip(spec.attentionClip, values + t * keyWidth, keyWidth);
    }
    prepare(key, kvHeads, weights.kNorm, weights.kNormBias);
    if (spec.valueNorm)
      for (size_t h = 0; h < kvHeads; h++) {
        float* value = values + t * keyWidth + h * headDim;
        kernels.rmsNorm(value, kOnes.data(), spec.normEpsilon, headDim, value);
      }
    if (!stores) return;  // pages may be on their way from the disk, or another engine's: attention stores them
    const BatchToken& token = batch.tokens[t];
    const uint32_t pageTokens = cache.pageTokens();
    const int32_t page = batch.pages[batch.ranges[token.range].table(group) + token.position / pageTokens];
    cacheStore(compute.kernels, cache.layout(layer), cache.page(layer, static_cast<size_t>(page)),
               token.position % pageTokens, key, values + t * keyWidth);
  });
}

ExpertRouting CpuPass::route(const LayerWeights& layer, const float* input, float* output) const {
  const size_t count = tokens(), width = spec.hiddenSize, experts = spec.routedExperts();
  float* logits = scratch.take<float>(count * experts);
  const ExpertRouting routing{scratch.take<ExpertChoice>(count * spec.expertsPerToken), scratch.take<uint32_t>(count),
                              scratch.take<float>(count), nullptr};
  // A rounding that changes the choice of experts would change everything after it.
  multiply(layer.router, layer.routerBias, input, count, logits, ProductOf::Exact);
  float* room = scratch.take<float>(size_t(compute.pool.threads()) * experts);
  const float logitScale = spec.router.logitScale;
  forRows(count, size_t(experts) * spec.expertsPerToken + width, [&](size_t t, unsigned worker) {
    if (logitScale != 1) compute.kernels.rows.scale(logitScale, logits + t * experts, experts);
    ExpertChoice* choices = routing.choices + t * spec.expertsPerToken;
    chooseExperts(compute.kernels.rows, spec.router, layer.routerChoiceBias, logits + t * experts, experts,
                  spec.expertsPerToken, choices, room + size_t(worker) * experts);
    if (layer.expertScale != nullptr)
      for (uint32_t c = 0; c < spec.expertsPerToken; c++) choices[c].weight *= layer.expertScale[choices[c].expert];
    std::fill_n(output + t * width, width, 0.0f);
  });
  if (bringExperts) bringExperts(routing.choices, count * spec.expertsPerToken);
  return routing;
}

ExpertTokens CpuPass::tokensOf(const ExpertRouting& routing, uint32_t expert) const {
  if (measuring) return {nullptr, nullptr, tokens()};
  size_t count = 0;
  for (size_t c = 0; c < tokens() * spec.expertsPerToken; c++) {
    if (routing.choices[c].expert != expert) continue;
    routing.tokens[count] = static_cast<uint32_t>(c / spec.expertsPerToken);
    routing.shares[count++] = routing.choices[c].weight;
  }
  return {routing.tokens, routing.shares, count};
}

ExpertTokens CpuPass::gated(const StoredMatrix& gate, const float* input) const {
  const size_t count = tokens();
  float* shares = scratch.take<float>(count);
  auto* all = scratch.take<uint32_t>(count);
  multiply(gate, nullptr, input, count, shares, ProductOf::Exact);
  forRows(count, 1, [&](size_t t, unsigned) {
    shares[t] = 1.0f / (1.0f + std::exp(-shares[t]));
    all[t] = static_cast<uint32_t>(t);
  });
  return {all, shares, count};
}

void CpuPass::weighRows(float* x, const ExpertRouting& routing, const ExpertTokens& of, size_t width) const {
  forRows(of.count, width, [&](size_t i, unsigned) {
    compute.kernels.rows.scale(routing.shares[i], x + i * width, width);
    routing.shares[i] = 1;
  });
}

void CpuPass::gatherRows(const float* x, const ExpertTokens& of, size_t width, float* to) const {
  forRows(of.count, width,
          [&](size_t i, unsigned) { std::memcpy(to + i * width, x + of.tokens[i] * width, width * sizeof(float)); });
}

void CpuPass::scatterRows(const float* x, const ExpertTokens& of, size_t width, float* to) const {
  forRows(of.count, width, [&](size_t i, unsigned) {
    compute.kernels.rows.addScaled(x + i * width, of.shares[i], to + of.tokens[i] * width, width);
  });
}

}  // namespace spillway
