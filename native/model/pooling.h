// Embeddings of sequences: which hidden states make them, and how. The same on a processor and on a device.
#pragma once
#include <vector>

#include "Batch.h"
#include "ComputeTask.h"

namespace spillway {

// Whether the hidden state after the final norm of the token at a position is needed for a sequence's embedding.
bool isPooled(const Sequence& sequence, size_t position);

// The batch's tokens whose hidden states after the final norm are needed, in order: of sequences that are embedded, by
// how they are pooled.
std::vector<uint32_t> listPooled(const Batch& batch);

// Takes such hidden states, [count, width], into their sequences. A sequence's come in order of position, however they
// are cut into batches: sums are the same.
void pool(const Batch& batch, const uint32_t* tokens, size_t count, const float* normed, size_t width);

// The embeddings of the sequences that are at their end (`result.embedded`).
void takeEmbeddings(const Batch& batch, size_t width, HeadResult& result);

}  // namespace spillway
