// Top-k sparse attention on the device (AttentionShape::keep; kernels/cpu/topK.h has the rule): tokens by
// themselves, as decodeAttention() takes them, in three steps. A token's first keys may be here and the others in host
// memory: their scores, which have to compete, go down between the first step and the last, and the cuts come up. All
// pointers are device memory; at most 65535 tokens at a time. Results depend on a token and the keys and values it
// keeps alone, bitwise.
#pragma once
#include "../cpu/topK.h"
#include "Attention.h"

namespace spillway::cuda {

// Of the keys that each query sees here, scaled and biased, by position from 0 on. Others are not written.
struct KeyScores {
  float* scores;  // [tokens, heads, stride]
  size_t stride;
};

// parts: attentionParts(the largest position of a key here).
void scoreKeys(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
               const AttentionToken* tokens, size_t count, const float* queries, size_t queryStride, uint32_t parts,
               const KeyScores& scores, const CommonKeys& common = {});

// Which keys each query keeps, of tokens that have all of them here. cuts: [count, heads].
void selectKeys(cudaStream_t stream, const AttentionShape& shape, const AttentionToken* tokens, size_t count,
                const KeyScores& scores, AttentionCut* cuts);

// Over the kept keys here and a token's own, if it is here: partial results, not merged. Values that no query keeps are
// not read.
void attendKept(cudaStream_t stream, const CacheLayout& layout, const AttentionShape& shape,
                const AttentionToken* tokens, size_t count, const KeyScores& scores, const AttentionCut* cuts,
                const AttentionPartials& partials);

}  // namespace spillway::cuda
