// Disentangled attention (DeBERTa): what a query's content makes of its distance to a key, and a key's content of its
// distance to a query, are biases of their score.
#include <algorithm>

#include "../../model/attentionShape.h"
#include "../../model/distanceRows.h"
#include "CpuPass.h"

namespace spillway {

namespace {

// Of the batch's longest row, as many tokens as there may be.
size_t longestRow(const CpuPass& pass) {
  if (pass.measuring) return std::max<size_t>(1, std::min<size_t>(pass.tokens(), pass.spec.contextTokens));
  size_t longest = 1;
  for (const BatchRange& range : pass.batch.ranges) longest = std::max<size_t>(longest, range.tokens);
  return longest;
}

size_t whole(size_t count) { return (count + 15) / 16 * 16; }

// rows [count, width] as panels of 16 rows for each head, [heads, panels, headDim, 16].
void pack(const float* rows, size_t count, size_t heads, size_t headDim, size_t head, float* panels) {
  const size_t each = (count + 15) / 16 * headDim * 16;
  float* to = panels + head * each;
  for (size_t row = 0; row < whole(count); row++) {
    float* lane = to + row / 16 * headDim * 16 + row % 16;
    const float* from = rows + row * heads * headDim + head * headDim;
    for (size_t d = 0; d < headDim; d++) lane[d * 16] = row < count ? from[d] : 0.0f;
  }
}

}  // namespace

void CpuPass::projectDistances(size_t layer) const {
  const LayerWeights& own = weights.layer(layer);
  const DisentangledSpec& disentangled = spec.disentangled;
  const DistanceRows needed(disentangled, longestRow(*this));
  const size_t width = spec.queryWidth();
  const ScratchScope scope(*this);
  float* embedded = scratch.take<float>(needed.count * spec.hiddenSize);
  float* keys = scratch.take<float>(needed.count * width);
  float* queries = scratch.take<float>(needed.count * width);
  forRows(needed.count, spec.hiddenSize, [&](size_t row, unsigned) {
    float* to = embedded + row * spec.hiddenSize;
    const GlobalWeights& global = weights.global();
    unpackRow(global.distanceEmbedding, needed.first + row, to);
    if (global.distanceNorm != nullptr) normRow(to, global.distanceNorm, global.distanceNormBias, to);
  });
  const bool others = disentangled.ownProducts;
  const auto project = [&](const StoredMatrix& matrix, const float* bias, float* to) {
    Pass::multiply(matrix, bias, embedded, needed.count, to, ProductOf::Others);
  };
  if (disentangled.contentToPosition)
    project(others ? own.kDistance : own.k, others ? own.kDistanceBias : own.kBias, keys);
  if (disentangled.positionToContent)
    project(others ? own.qDistance : own.q, others ? own.qDistanceBias : own.qBias, queries);
  float* packed = activations.mixed;
  const size_t table = needed.panels() * 16 * width;
  forRows(spec.heads, needed.count * spec.headDim, [&](size_t head, unsigned) {
    if (disentangled.contentToPosition) pack(keys, needed.count, spec.heads, spec.headDim, head, packed);
    if (disentangled.positionToContent) pack(queries, needed.count, spec.heads, spec.headDim, head, packed + table);
  });
}

void CpuPass::attendDisentangled(size_t layer, const AttentionShape& shape) const {
  const DisentangledSpec& disentangled = spec.disentangled;
  const size_t longest = longestRow(*this), width = spec.queryWidth(), heads = spec.heads, headDim = spec.headDim;
  const DistanceRows needed(disentangled, longest);
  const size_t rowFloats = needed.panels() * 16, mostFloats = heads * longest * whole(longest);
  const ScratchScope scope(*this);
  float* biases = scratch.take<float>(mostFloats);
  float* products = scratch.take<float>(compute.pool.threads() * 2 * longest * rowFloats);
  uint32_t* rowOf = scratch.take<uint32_t>(2 * longest);
  if (measuring) {
    scratch.take<uint8_t>(attentionScratchBytes(cache.layout(layer), spec.heads, batch.ranges.size(),
                                                compute.pool.threads(), keepKeys < 1 ? spec.contextTokens : 0));
    return;
  }
  for (size_t i = 0; i + 1 < 2 * longest; i++)
    rowOf[i] = static_cast<uint32_t>(
        distanceRow(disentangled, static_cast<ptrdiff_t>(i) - static_cast<ptrdiff_t>(longest - 1)) - needed.first);
  const float* ofDistances = activations.mixed;
  const size_t table = rowFloats * width, panelFloats = rowFloats * headDim;

  // What a head's queries and keys of a row add to their scores: [tokens, whole(tokens)].
  const auto fill = [&](const AttentionRow& row, size_t head, float* to, float* of) {
    const size_t tokens = row.tokens, stride = whole(tokens);
    const size_t firstToken = static_cast<size_t>(row.queries - activations.queries) / width;
    const uint32_t* place = rowOf + longest - 1;
    const size_t first = place[-static_cast<ptrdiff_t>(tokens) + 1] / 16;
    const size_t panels = place[tokens - 1] / 16 + 1 - first;
    const auto multiply = [&](const float* rows, const float* packed, float* outputs) {
      compute.kernels.attention.dotPanels(rows + firstToken * width + head * headDim, tokens, width,
                                          packed + head * panelFloats + first * 16 * headDim, panels, headDim, outputs,
                                          panels * 16);
    };
    float *queries = of, *keys = of + tokens * panels * 16;
    if (disentangled.contentToPosition) multiply(activations.queries, ofDistances, queries);
    if (disentangled.positionToContent) multiply(activations.keys, ofDistances + table, keys);
    for (size_t q = 0; q < tokens; q++) {
      const float* ofQuery = queries + q * panels * 16 - first * 16;
      const float* ofKey = keys - first * 16;
      const uint32_t* at = place + q;
      float* bias = to + q * stride;
      for (size_t k = 0; k < tokens; k++) {
        const size_t distance = at[-static_cast<ptrdiff_t>(k)];
        bias[k] = (disentangled.contentToPosition ? ofQuery[distance] : 0.0f) +
                  (disentangled.positionToContent ? ofKey[k * panels * 16 + distance] : 0.0f);
      }
      std::fill(bias + tokens, bias + stride, 0.0f);
    }
  };

  std::vector<AttentionRow>& rows = batch.attentionRows;
  for (size_t next = 0; next < rows.size();) {
    // As many rows as the biases have room for, one at least.
    const size_t from = next;
    for (size_t taken = 0; next < rows.size(); next++) {
      const size_t floats = heads * rows[next].tokens * whole(rows[next].tokens);
      if (taken + floats > mostFloats) break;
      rows[next].biases = biases + taken;
      rows[next].biasStride = whole(rows[next].tokens);
      taken += floats;
    }
    compute.pool.parallelFor((next - from) * heads, [&](size_t index, unsigned worker) {
      const AttentionRow& row = rows[from + index / heads];
      const size_t head = index % heads;
      fill(row, head, const_cast<float*>(row.biases) + head * row.tokens * row.biasStride,
           products + worker * 2 * longest * rowFloats);
    });
    spillway::attend(compute, cache.layout(layer), shape, rows.data() + from, next - from, width, width, scratch);
  }
}

}  // namespace spillway
