#include <algorithm>

#include "CpuPass.h"

namespace spillway {

// LFM2: of three parts a row has, gates B and C and an input x, the output is C * convolution(B * x), token by token in
// order, so that chunks change no bit.
void CpuPass::applyShortConvolution(size_t layer) const {
  const ScratchScope scope(*this);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  if (measuring) return;
  rememberedBy(layer, remembered);
  const size_t width = spec.hiddenSize, stride = spec.mixedWidth();
  const float* bias = weights.layer(layer).convBias;
  constexpr size_t kChannels = 256;  // at once
  const size_t blocks = (width + kChannels - 1) / kChannels;
  forRows(batch.ranges.size() * blocks, kChannels * tokensOfRange(), [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / blocks];
    const size_t first = index % blocks * kChannels, end = std::min(width, first + kChannels);
    const size_t firstToken = range.firstToken, endToken = firstToken + range.tokens;
    for (size_t t = firstToken; t < endToken; t++) {
      float* row = activations.mixed + t * stride;
      for (size_t c = first; c < end; c++) row[c] *= row[2 * width + c];
    }
    convolve(range, layer, remembered[index / blocks], width, first, end - first);
    for (size_t t = firstToken; t < endToken; t++) {
      const float* row = activations.mixed + t * stride;
      float* output = activations.queries + t * width;
      for (size_t c = first; c < end; c++) output[c] = row[width + c] * (bias == nullptr ? row[c] : row[c] + bias[c]);
    }
  });
}

}  // namespace spillway
