#include "productRuns.h"

#include <algorithm>

namespace spillway {

ProductRuns listProductRuns(const Batch& batch, uint32_t longPromptTokens, cuda::RowRun* memory) {
  ProductRuns runs;
  const auto list = [&](bool ofLong, cuda::RowRun* to) {
    size_t count = 0;
    for (const BatchRange& range : batch.ranges) {
      const uint32_t prompt = range.sequence->promptTokens;
      const uint32_t split = prompt >= longPromptTokens && prompt > range.firstPosition
                                 ? std::min(prompt - range.firstPosition, range.tokens)
                                 : 0;
      const size_t first = range.firstToken + (ofLong ? 0 : split), some = ofLong ? split : range.tokens - split;
      if (some == 0) continue;
      if (count != 0 && to[count - 1].first + to[count - 1].count == first)
        to[count - 1].count += some;
      else
        to[count++] = {first, some};
    }
    return count;
  };
  runs.ofLong = memory;
  runs.longCount = list(true, memory);
  // A range has one of either at most.
  runs.ofOthers = memory + runs.longCount;
  runs.otherCount = list(false, memory + runs.longCount);
  return runs;
}

}  // namespace spillway
