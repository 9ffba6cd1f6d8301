// Which experts of a mixture a token goes to.
#pragma once
#include <algorithm>
#include <cstdint>

#include "../kernels/cpu/RowKernels.h"

namespace spillway {

struct ExpertChoice {
  uint32_t expert;
  float weight;
};

// The best `count` of softmax(logits), divided by their sum, the lowest index first among equals. Of a NaN among the
// logits all weights are NaN: it has to show. Logits are overwritten.
inline void chooseExperts(const RowKernels& kernels, float* logits, uint32_t experts, uint32_t count,
                          ExpertChoice* choices) {
  float maximum;
  size_t first;
  kernels.argMax(logits, experts, &maximum, &first);
  kernels.expShifted(logits, maximum, experts,
                     logits);  // the softmax up to a factor, which the division takes out again
  float sum = 0;
  for (uint32_t c = 0; c < count; c++) {
    uint32_t best = experts;
    for (uint32_t e = 0; e < experts; e++) {
      const bool taken =
          std::any_of(choices, choices + c, [e](const ExpertChoice& choice) { return choice.expert == e; });
      if (!taken && (best == experts || logits[e] > logits[best])) best = e;
    }
    choices[c] = {best, logits[best]};
    sum += logits[best];
  }
  for (uint32_t c = 0; c < count; c++) choices[c].weight /= sum;
}

}  // namespace spillway
