// What a batch carries from task to task of a pass.
#pragma once
#include <cstdint>

#include "../runtime/Arena.h"
#include "../runtime/Scratch.h"
#include "DecoderSpec.h"

namespace spillway {

struct Activations {
  Activations(const DecoderSpec& spec, uint32_t tokens) : capacityTokens(tokens), memory(bytesFor(spec, tokens), "activations") {
    hidden = reinterpret_cast<float*>(memory.data());
    queries = hidden + Scratch::aligned(elements(tokens, spec.hiddenSize) * sizeof(float)) / sizeof(float);
    rotary = queries + Scratch::aligned(elements(tokens, spec.queryWidth()) * sizeof(float)) / sizeof(float);
  }

  static size_t bytesFor(const DecoderSpec& spec, uint32_t tokens) {
    return Scratch::aligned(elements(tokens, spec.hiddenSize) * sizeof(float)) + Scratch::aligned(elements(tokens, spec.queryWidth()) * sizeof(float)) +
           Scratch::aligned(elements(tokens, spec.rotaryTables.size() * spec.rotaryDims) * sizeof(float));
  }

  uint32_t capacityTokens;
  Arena memory;
  float* hidden;   // [tokens, hiddenSize]
  float* queries;  // [tokens, heads * headDim]; attention overwrites them with its outputs
  // [tables, tokens, dims]: cosines, then sines, of a token's position; computed once a pass.
  float* rotary;
  uint64_t rotarySerial = 0;  // the batch that `rotary` belongs to

 private:
  static size_t elements(size_t tokens, size_t width) { return tokens * width; }
};

}  // namespace spillway
