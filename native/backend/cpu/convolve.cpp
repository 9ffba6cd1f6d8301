#include <algorithm>
#include <string>

#include "../../system/Error.h"
#include "CpuPass.h"
#include "lanes.h"

namespace spillway {

namespace {

constexpr size_t kMostTaps = 64;  // as validate() has it

// Of up to kLanes channels. turned: [taps, kLanes]
SPILLWAY_WIDEST void convolveChannels(float* row, size_t tokens, size_t stride, float* last, size_t width,
                                      const float* turned, size_t taps, size_t count) {
  if (count == kLanes) {
    for (size_t t = 0; t < tokens; t++, row += stride) {
      Lanes sum{}, own, weight, seen;
      for (size_t k = 0; k + 1 < taps; k++) {
        loadLanes(last + k * width, seen);
        loadLanes(turned + k * kLanes, weight);
        sum += seen * weight;
        if (k > 0) storeLanes(seen, last + (k - 1) * width);
      }
      loadLanes(row, own);
      loadLanes(turned + (taps - 1) * kLanes, weight);
      if (taps > 1) storeLanes(own, last + (taps - 2) * width);
      storeLanes(sum + own * weight, row);
    }
    return;
  }
  for (size_t t = 0; t < tokens; t++, row += stride) {
    for (size_t c = 0; c < count; c++) {
      const float own = row[c];
      float sum = 0;
      for (size_t k = 0; k + 1 < taps; k++) sum += last[k * width + c] * turned[k * kLanes + c];
      row[c] = sum + own * turned[(taps - 1) * kLanes + c];
      for (size_t k = 0; k + 2 < taps; k++) last[k * width + c] = last[(k + 1) * width + c];
      if (taps > 1) last[(taps - 2) * width + c] = own;
    }
  }
}

}  // namespace

void CpuPass::rememberedBy(size_t layer, float** states) const {
  for (const BatchRange& range : batch.ranges) {
    const auto state = static_cast<uint32_t>(range.sequence->state);
    uint32_t& next = cache.nextPosition(layer, state);
    if (range.firstPosition != 0 && range.firstPosition != next)
      throw Error(ErrorCode::InvalidArgument, "row " + std::to_string(range.sequence->handle) + ": found position " +
                                                  std::to_string(range.firstPosition) + ", expected " +
                                                  std::to_string(next) +
                                                  ": what a layer remembers follows from all positions before");
    *states = cache.state(layer, state);
    if (range.firstPosition == 0) std::fill_n(*states, spec.stateFloats(spec.layerSpecs[layer]), 0.0f);
    next = range.firstPosition + range.tokens;
    states++;
  }
}

void CpuPass::convolve(const BatchRange& range, size_t layer, float* last, size_t width, size_t channel,
                       size_t channels) const {
  const float* weights = this->weights.layer(layer).conv;
  const size_t taps = spec.recurrent.taps, stride = spec.mixedWidth();
  float turned[kMostTaps * kLanes];
  for (size_t first = channel; first < channel + channels; first += kLanes) {
    const size_t count = std::min(kLanes, channel + channels - first);
    for (size_t c = 0; c < count; c++)
      for (size_t k = 0; k < taps; k++) turned[k * kLanes + c] = weights[(first + c) * taps + k];
    float* rows = activations.mixed + size_t(range.firstToken) * stride + first;
    convolveChannels(rows, range.tokens, stride, last + first, width, turned, taps, count);
  }
}

void CpuPass::convolveMixed(size_t layer, size_t width, float* const* remembered) const {
  const float* bias = weights.layer(layer).convBias;
  const size_t stride = spec.mixedWidth();
  constexpr size_t kChannels = 256;  // at once
  const size_t blocks = (width + kChannels - 1) / kChannels;
  forRows(batch.ranges.size() * blocks, kChannels * tokensOfRange(), [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / blocks];
    const size_t first = index % blocks * kChannels, count = std::min(width - first, kChannels);
    convolve(range, layer, remembered[index / blocks], width, first, count);
    for (size_t t = range.firstToken; t < size_t(range.firstToken) + range.tokens; t++) {
      float* row = activations.mixed + t * stride + first;
      if (bias != nullptr)
        for (size_t c = 0; c < count; c++) row[c] += bias[first + c];
      compute.kernels.rows.activate(Activation::Silu, row, nullptr, count);
    }
  });
}

}  // namespace spillway
