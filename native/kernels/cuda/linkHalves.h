// Floats of the device that cross the link in 16 bits: made so by the kernel that writes them to pinned memory, and
// floats again by the one that reads them there, past the copy engine (copyPinned.h).
#pragma once
#include "Attention.h"
#include "gpu.h"

namespace spillway::cuda {

// Numbers beyond a half's range become the largest half.
void sendHalves(cudaStream_t stream, const float* from, size_t n, uint16_t* pinned);

// Outputs of attention elsewhere, [queries, headDim], of which each is `half / kOutputUnit` of what its query's weights
// sum to: to = half * kOutputUnit * sum. As means of values they are within a half's range, the weighted sums are not.
void receiveOutputs(cudaStream_t stream, const uint16_t* pinned, const AttentionPartial* partials, size_t queries,
                    uint32_t headDim, float* to);
// Above 1, since codes of 8 and 4 bits may stand for somewhat more than the values that became them.
constexpr float kOutputUnit = 2;

}  // namespace spillway::cuda
