// Whose logits a head computes, and what becomes of them: the same on a processor and on a device.
#pragma once
#include <vector>

#include "../kernels/cpu/Kernels.h"
#include "Batch.h"
#include "ComputeTask.h"
#include "DecoderSpec.h"

namespace spillway {

// One row of logits that is wanted, and where its result goes.
struct WantedLogits {
  uint32_t range;
  uint32_t token;   // of the batch
  uint32_t result;  // index among the sampled sequences, or among the scores
  uint32_t top;     // of a sampled one: first entry of topTokens
  bool first;       // one of those that come first
};

// Rows whose logits exist at a time: enough to read the head's weights seldom, few enough to bound the memory.
size_t headRowsAtATime(const DecoderSpec& spec);

// All of a batch, those of which `first` (of a sequence that samples) holds before the others; gives `result` room for
// them. Throws Error(InvalidArgument) for a sequence that shall sample and is not at its last known token,
// Error(Memory) for too many alternatives.
std::vector<WantedLogits> listWanted(const Batch& batch, HeadResult& result, bool (*first)(const Sequence&));

// Scores or samples from one sequence's logits, which a sequence's grammar changes. workspace: vocabulary entries of 8
// bytes. By many threads at once, each for sequences of its own.
void useLogits(const Kernels& kernels, const Batch& batch, const WantedLogits& wanted, float* logits, size_t vocabulary,
               void* workspace, HeadResult& result);

// The sampled tokens to their sequences, and where their grammars are to the result. What stands in `result` for a
// sequence without one says as of which layer (HeadResult::tokens).
void appendSampled(const Batch& batch, const std::vector<WantedLogits>& wanted, HeadResult& result);

}  // namespace spillway
