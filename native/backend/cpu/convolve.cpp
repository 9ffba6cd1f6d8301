#include <algorithm>
#include <string>

#include "../../system/Error.h"
#include "CpuPass.h"
#include "lanes.h"

namespace spillway {

namespace {

// Of kLanes channels, whose last elements stay in registers. turned: [Taps, kLanes]
template <size_t Taps>
__attribute__((always_inline)) inline void convolveLanes(float* row, size_t tokens, size_t stride, float* last,
                                                         size_t width, const float* turned) {
  Lanes weights[Taps], seen[Taps];
  for (size_t k = 0; k < Taps; k++) loadLanes(turned + k * kLanes, weights[k]);
  for (size_t k = 0; k + 1 < Taps; k++) loadLanes(last + k * width, seen[k]);
  for (size_t t = 0; t < tokens; t++, row += stride) {
    Lanes sum{};
    loadLanes(row, seen[Taps - 1]);
    for (size_t k = 0; k + 1 < Taps; k++) sum += seen[k] * weights[k];
    storeLanes(sum + seen[Taps - 1] * weights[Taps - 1], row);
    for (size_t k = 0; k + 1 < Taps; k++) seen[k] = seen[k + 1];
  }
  for (size_t k = 0; k + 1 < Taps; k++) storeLanes(seen[k], last + k * width);
}

// Of up to kLanes channels. turned: [taps, kLanes]
SPILLWAY_LOOPS convolveChannelsLoops(float* row, size_t tokens, size_t stride, float* last, size_t width,
                                     const float* turned, size_t taps, size_t count) {
  if (count == kLanes) switch (taps) {
      case 2: return convolveLanes<2>(row, tokens, stride, last, width, turned);
      case 3: return convolveLanes<3>(row, tokens, stride, last, width, turned);
      case 4: return convolveLanes<4>(row, tokens, stride, last, width, turned);
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
SPILLWAY_WIDEST(convolveChannels,
                (float* row, size_t tokens, size_t stride, float* last, size_t width, const float* turned, size_t taps,
                 size_t count),
                (row, tokens, stride, last, width, turned, taps, count))

}  // namespace

void CpuPass::rememberedBy(size_t layer, float** states) const {
  bool begins = false;
  for (size_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[r];
    const auto state = static_cast<uint32_t>(range.sequence->state);
    uint32_t& next = cache.nextPosition(layer, state);
    if (range.firstPosition != 0 && range.firstPosition != next)
      throw Error(ErrorCode::InvalidArgument, "row " + std::to_string(range.sequence->handle) + ": found position " +
                                                  std::to_string(range.firstPosition) + ", expected " +
                                                  std::to_string(next) +
                                                  ": what a layer remembers follows from all positions before");
    states[r] = cache.state(layer, state);
    next = range.firstPosition + range.tokens;
    begins = begins || range.firstPosition == 0;
  }
  if (!begins) return;
  const size_t floats = spec.stateFloats(spec.layerSpecs[layer]);
  forRows(batch.ranges.size(), floats, [&](size_t r, unsigned) {
    if (batch.ranges[r].firstPosition == 0) std::fill_n(states[r], floats, 0.0f);
  });
}

const float* CpuPass::turnTaps(size_t layer, size_t width) const {
  const size_t taps = spec.recurrent.taps, blocks = (width + kLanes - 1) / kLanes;
  float* turned = scratch.take<float>(blocks * taps * kLanes);
  const float* weights = this->weights.layer(layer).conv;
  forRows(blocks, taps * kLanes, [&](size_t block, unsigned) {
    const size_t first = block * kLanes, count = std::min(kLanes, width - first);
    float* to = turned + first * taps;
    for (size_t c = 0; c < count; c++)
      for (size_t k = 0; k < taps; k++) to[k * kLanes + c] = weights[(first + c) * taps + k];
  });
  return turned;
}

void CpuPass::convolve(const BatchRange& range, const float* turned, float* last, size_t width, size_t channel,
                       size_t channels) const {
  const size_t taps = spec.recurrent.taps, stride = spec.mixedWidth();
  for (size_t first = channel; first < channel + channels; first += kLanes) {
    const size_t count = std::min(kLanes, channel + channels - first);
    float* rows = activations.mixed + size_t(range.firstToken) * stride + first;
    convolveChannels(rows, range.tokens, stride, last + first, width, turned + first * taps, taps, count);
  }
}

void CpuPass::convolveMixed(size_t layer, size_t width, float* const* remembered, bool activated) const {
  const ScratchScope scope(*this);
  const float* turned = turnTaps(layer, width);
  const float* bias = weights.layer(layer).convBias;
  const size_t stride = spec.mixedWidth(), blocks = (width + kConvolvedChannels - 1) / kConvolvedChannels;
  forRows(batch.ranges.size() * blocks, kConvolvedChannels * tokensOfRange(), [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / blocks];
    const size_t first = index % blocks * kConvolvedChannels, count = std::min(width - first, kConvolvedChannels);
    convolve(range, turned, remembered[index / blocks], width, first, count);
    for (size_t t = range.firstToken; t < size_t(range.firstToken) + range.tokens; t++) {
      float* row = activations.mixed + t * stride + first;
      if (bias != nullptr)
        for (size_t c = 0; c < count; c++) row[c] += bias[first + c];
      if (activated) compute.kernels.rows.activate(Activation::Silu, row, nullptr, count);
    }
  });
}

}  // namespace spillway
