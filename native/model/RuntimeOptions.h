// What a runtime is opened with, and what it takes then (src/bindings/Addon.ts).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "../kernels/cpu/CacheLayout.h"
#include "../kernels/cpu/InstructionSet.h"
#include "../kernels/cpu/Kernels.h"
#include "../system/DirectFile.h"
#include "Batch.h"
#include "DecoderSpec.h"
#include "Weights.h"

namespace spillway {

// Weights from a store instead of the model's files.
struct StoredWeights {
  std::string store;  // path
  std::string fingerprint;
  uint64_t residentLayerBytes = 0;  // of each layer's block; the rest streams
  uint32_t buffers = 1;             // that layers stream into
};

// Room on disk for what does not fit into memory while the runtime lives.
struct SpillOptions {
  std::string folder;
  uint32_t pages = 0;        // of the cache, for every layer of a group
  uint32_t buffers = 0;      // for staging; 0 where there are no pages
  uint32_t bufferPages = 0;  // of one layer that a buffer has places for; likewise
  uint64_t hiddenBytes = 0;  // for hidden stores
  uint64_t gapBytes = 0;     // so much more is read to save a request
};

// Whose products a device computes with: its own kernels' alone, or, for long prompts, cuBLASLt's.
enum class GpuProducts : uint8_t {
  Own,
  CublasLt,  // an error where it cannot be used
  Auto,      // CublasLt where it can be used, else Own
};

// A device that computes, instead of the processor (src/bindings/Addon.ts).
struct GpuOptions {
  uint32_t device = 0;
  uint64_t memoryBytes = 0;
  uint64_t pinnedBytes = 0;
  uint32_t pages = 0;  // of the cache, for every layer
  uint64_t residentLayerBytes = 0;
  uint32_t buffers = 0;
  // For pages of the cache that live in host memory and on disk and come to the device where it attends: how many
  // buffers, and the pages of one layer that each has places for. 0: such pages stay, and the processor attends to
  // them.
  uint32_t cacheBuffers = 0;
  uint32_t cacheBufferPages = 0;
  // With such buffers: of each sequence the first pages come, as many as its batch says (makeBatch), and the processor
  // attends to those after them, where they are.
  bool sharesAttention = false;
  GpuProducts products = GpuProducts::Own;
  uint32_t longPromptTokens = 128;  // a prompt of as many is long: CudaPass.h. Others only in tests
};

struct RuntimeOptions {
  DecoderSpec decoder;
  std::vector<WeightBinding> bindings;
  std::vector<std::string> files;
  Precision precision = Precision::Default;
  uint32_t threads = 1;
  InstructionSet instructionSet = InstructionSet::Scalar;
  CacheType cacheType = CacheType::F32;
  float keepKeys = 1;  // above 0; below 1: sparse attention
  uint32_t pageTokens = 32;
  uint32_t pages = 1;
  uint32_t states = 0;                // sequences of which layers can remember a state at once (DecoderSpec::remembers)
  std::vector<uint32_t> cacheGroups;  // of each layer (CacheGroups.h); empty: all layers are one group
  Limits limits;
  std::optional<StoredWeights> weights;
  std::optional<SpillOptions> spill;
  std::optional<GpuOptions> gpu;
  IoBackend diskBackend = IoBackend::Auto;
  DiskFaults* diskFaults = nullptr;  // tests only; must outlive the runtime
};

// Whether attention has a queue of its own, for the processor attends to pages in host memory: a device computes other
// batches meanwhile.
inline bool attendsApart(const RuntimeOptions& options) {
  return options.gpu && options.pages != 0 && (options.gpu->cacheBuffers == 0 || options.gpu->sharesAttention);
}

// Entries of page tables that a batch may reach: those of sequences of full length. There may be more than pages, since
// sequences share these.
inline uint64_t mostPageEntries(const RuntimeOptions& options) {
  return uint64_t(options.limits.rowsPerSquare) *
         ((options.decoder.contextTokens + options.pageTokens - 1) / options.pageTokens);
}

// Of the device.
struct GpuBytes {
  size_t weights = 0;
  size_t weightBuffers = 0;  // all of them
  size_t cache = 0;
  size_t cacheBuffers = 0;  // all of them
  size_t scratch = 0;
  size_t activations = 0;  // of one buffer of limits.tokensPerSquare tokens
  // Of the weights in host memory, and of the cache there where the device reaches it, what the system did not let be
  // pinned: it crosses by one thread's copies, some eighth as fast. Known once loaded.
  size_t unpinned = 0;
  std::vector<uint64_t>
      streamedFromStore;  // of RuntimeBytes::streamed, what comes from the store, not from host memory
};

struct RuntimeBytes {
  size_t weights = 0;        // resident ones
  size_t weightBuffers = 0;  // all of them
  size_t cache = 0;
  size_t state = 0;  // of one sequence, of all layers that remember one
  size_t scratch = 0;
  size_t activations = 0;  // of one buffer of limits.tokensPerSquare tokens
  size_t staging = 0;      // buffers for pages on disk, all of them
  size_t held = 0;         // for values of such pages that were chosen, where ranges choose among their keys
  uint64_t spill = 0;      // of the spill file, on disk
  size_t pageSlot = 0;     // of it, a page of one layer
  size_t pageKeys = 0;     // of that, where ranges choose among their keys: what they read of it first; else 0
  size_t spillBlock = 0;   // whole blocks of so many bytes are read of the file, once it is open
  std::vector<uint64_t>
      streamed;  // what is read of each layer's block each time that it is loaded; 0 where all of it is resident
  std::vector<uint64_t> streamedExperts;  // of it, those of experts
  std::optional<GpuBytes> gpu;  // where a device computes: what is in its memory. The numbers above are the host's then
};

}  // namespace spillway
