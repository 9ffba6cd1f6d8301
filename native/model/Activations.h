// What a batch carries from task to task of a pass.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "../system/Arena.h"
#include "../system/DirectFile.h"
#include "../system/Scratch.h"
#include "DecoderSpec.h"
#include "distanceRows.h"

namespace spillway {

struct Activations {
  // keepsKeys: with room for new keys and values, which pages on disk need between projection and attention.
  Activations(const DecoderSpec& spec, uint32_t tokens, bool keepsKeys)
      : capacityTokens(tokens), keepsKeys(keepsKeys), memory(ownBytes(spec, tokens, keepsKeys), "activations") {
    place(spec, memory.data());
    if (!spec.attendsByRows()) return;
    rows = std::make_unique<Activations>(spec.attending(), tokens, true);
    rows->ofRows = true;
  }
  // In memory of another owner, bytesFor() of it, which may be a device's: nothing here is to be touched by the
  // processor then.
  Activations(const DecoderSpec& spec, uint32_t tokens, bool keepsKeys, std::shared_ptr<void> owner, uint8_t* data)
      : capacityTokens(tokens), keepsKeys(keepsKeys), owner(std::move(owner)) {
    place(spec, data);
  }
  Activations(const Activations&) = delete;
  Activations& operator=(const Activations&) = delete;

  void place(const DecoderSpec& spec, uint8_t* data) {
    const uint32_t tokens = capacityTokens;
    hidden = reinterpret_cast<float*>(data);
    queries = hidden + hiddenBytes(spec, tokens) / sizeof(float);
    rotary = queries + bytes(tokens, spec.outputWidth()) / sizeof(float);
    keys = rotary + bytes(tokens, rotaryWidth(spec)) / sizeof(float);
    values = keys + bytes(tokens, spec.keyWidth()) / sizeof(float);
    mixed = keys + (keepsKeys ? 2 * bytes(tokens, spec.keyWidth()) / sizeof(float) : 0);
    branch = mixed + mixedBytes(spec, tokens) / sizeof(float);
  }

  static size_t bytesFor(const DecoderSpec& spec, uint32_t tokens, bool keepsKeys) {
    return ownBytes(spec, tokens, keepsKeys) + (spec.attendsByRows() ? ownBytes(spec.attending(), tokens, true) : 0);
  }

  uint32_t capacityTokens;
  bool keepsKeys;
  Arena memory;
  std::shared_ptr<void> owner;  // of memory that is elsewhere
  // [streams, tokens, hiddenSize]; whole blocks of 4096 bytes, so that disks can read into them directly
  float* hidden;
  float* queries;  // [tokens, heads * headDim]; attention overwrites them with its outputs, and other mixers begin
                   // there; what stands beside attention leaves its outputs after them
  // [tables, tokens, dims]: cosines, then sines, of a token's position; on a device [tables, 2, tokens, dims / 2].
  // Computed once a pass.
  float* rotary;
  float *keys, *values;  // [tokens, kvHeads * headDim] each, of the layer that was projected last; only where keepsKeys
  float* branch;  // [tokens, hiddenSize]: what a branch adds, of this share, then of all; only of a share of the layers
  // [tokens, mixedWidth]: what a layer has projected of each token beside queries, keys and values; of disentangled
  // attention, keys and queries of distances, as panels.
  float* mixed;
  uint64_t rotarySerial = 0;  // the batch that `rotary` belongs to
  // Where a share attends to some rows: their queries, keys and values of all heads. Of these, that they are such.
  std::unique_ptr<Activations> rows;
  bool ofRows = false;
  // The square that `keys` and `values` belong to: a batch's serial (0: none) and a layer.
  uint64_t keysSerial = 0;
  size_t keysLayer = 0;

 private:
  static size_t ownBytes(const DecoderSpec& spec, uint32_t tokens, bool keepsKeys) {
    return hiddenBytes(spec, tokens) + bytes(tokens, spec.outputWidth()) + bytes(tokens, rotaryWidth(spec)) +
           (keepsKeys ? 2 * bytes(tokens, spec.keyWidth()) : 0) + mixedBytes(spec, tokens) +
           (spec.shares > 1 ? bytes(tokens, spec.hiddenSize) : 0);
  }
  static size_t mixedBytes(const DecoderSpec& spec, size_t tokens) {
    if (spec.disentangled.span == 0 || tokens == 0) return bytes(tokens, spec.mixedWidth());
    const DistanceRows rows(spec.disentangled, std::min<size_t>(tokens, spec.contextTokens));
    return bytes(2 * 16 * rows.panels(), spec.queryWidth());
  }
  static size_t bytes(size_t tokens, size_t width) { return Scratch::aligned(tokens * width * sizeof(float)); }
  static size_t hiddenBytes(const DecoderSpec& spec, size_t tokens) {
    return DirectFile::aligned(tokens * spec.hiddenWidth() * sizeof(float));
  }
  static size_t rotaryWidth(const DecoderSpec& spec) { return spec.rotaryTables.size() * spec.rotaryDims; }
};

}  // namespace spillway
