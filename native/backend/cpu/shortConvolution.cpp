#include <algorithm>

#include "CpuPass.h"

namespace spillway {

// LFM2: of three parts a row has, gates B and C and an input x, the output is C * convolution(B * x), token by token in
// order, so that chunks change no bit.
void CpuPass::applyShortConvolution(size_t layer) const {
  const ScratchScope scope(*this);
  float** remembered = scratch.take<float*>(batch.ranges.size());
  const float* turned = turnTaps(layer, spec.hiddenSize);
  if (measuring) return;
  rememberedBy(layer, remembered);
  const size_t width = spec.hiddenSize, stride = spec.mixedWidth();
  const float* bias = weights.layer(layer).convBias;
  const size_t blocks = (width + kConvolvedChannels - 1) / kConvolvedChannels;
  forRows(batch.ranges.size() * blocks, kConvolvedChannels * tokensOfRange(), [&](size_t index, unsigned) {
    const BatchRange& range = batch.ranges[index / blocks];
    const size_t first = index % blocks * kConvolvedChannels, end = std::min(width, first + kConvolvedChannels);
    const size_t firstToken = range.firstToken, endToken = firstToken + range.tokens;
    for (size_t t = firstToken; t < endToken; t++) {
      float* row = activations.mixed + t * stride;
      for (size_t c = first; c < end; c++) row[c] *= row[2 * width + c];
    }
    convolve(range, turned, remembered[index / blocks], width, first, end - first);
    for (size_t t = firstToken; t < endToken; t++) {
      const float* row = activations.mixed + t * stride;
      float* output = activations.queries + t * width;
      for (size_t c = first; c < end; c++) output[c] = row[width + c] * (bias == nullptr ? row[c] : row[c] + bias[c]);
    }
  });
}

}  // namespace spillway
