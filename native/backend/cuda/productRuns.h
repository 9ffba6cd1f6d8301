// Which tokens of a batch are multiplied by cuBLASLt, which by the device's own kernels: what follows from a token and
// its sequence's prompt alone.
#pragma once
#include <cstddef>
#include <cstdint>

#include "../../kernels/cuda/CublasLtProducts.h"
#include "../../model/Batch.h"

namespace spillway {

struct ProductRuns {
  const cuda::RowRun* ofLong = nullptr;
  size_t longCount = 0;
  const cuda::RowRun* ofOthers = nullptr;
  size_t otherCount = 0;
};

// Runs of consecutive tokens: those within prompts of `longPromptTokens` and more, and all others. memory: room for two
// a range, no more runs than that there are.
ProductRuns listProductRuns(const Batch& batch, uint32_t longPromptTokens, cuda::RowRun* memory);

}  // namespace spillway
