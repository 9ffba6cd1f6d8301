// What attention's kernels read of a batch in one layer: where its pages are, which token attends how, and which
// prompts go together.
#pragma once
#include "../../kernels/cuda/QuantisedPages.h"
#include "CudaPass.h"
#include "attendingRuns.h"

namespace spillway {

// Copies of one sequence's pages in host memory: the first one is of the sequence's first such page.
struct UploadedPages {
  uint8_t* data = nullptr;
  uint32_t count = 0;
};

// Pages of 8 and 4 bits as halves, which prompts attend over. None of caches that are not quantised.
struct HalvedPages {
  uint8_t* data = nullptr;
  uint32_t count = 0;
  size_t pageBytes = 0;
};

// Ranges that attend at once: all of them on the device, or one whose pages are uploaded to it; of quantised pages as
// many as there is room for as halves.
struct RangeGroup {
  uint32_t firstRange, ranges, longest;  // longest: in tokens
  uint32_t firstPage, pages;             // of those that become halves before
  const AttendingRun* uploaded;          // the one, or null
};

// Of the pages that prompts attend over.
inline CacheLayout rangeLayout(const CacheLayout& layout) {
  return isQuantised(layout.type) ? cuda::plainLayout(layout) : layout;
}

// All but the groups in device memory.
struct AttentionTables {
  const cuda::AttentionToken* tokens;       // of the whole batch
  const cuda::AttentionRange* ranges;       // those on the device, then those that are uploaded to it
  const cuda::AttentionToken* rangeTokens;  // `tokens`, or of those in ranges the same over halves
  const cuda::AttentionToken* homeTokens;   // of those that are uploaded, over their pages in host memory; null where
                                            // the device does not reach these
  const uint8_t* const* quantised;          // pages that become halves, null for those that need not, and where
  uint8_t* const* halves;
  const RangeGroup* groups;
  size_t groupCount;
};

// Takes what it needs of both scratches; what the tables hold has gone into the stream when it returns. homes: whether
// the device brings keys and values of tokens that are uploaded to their pages.
AttentionTables uploadTables(const CudaPass& pass, size_t layer, const AttendingRuns& runs,
                             const UploadedPages& uploaded, const HalvedPages& halved, bool homes);

// The first of a run's keys that any of its tokens sees in a layer with this window (0: none).
uint32_t firstSeenKey(const CudaPass& pass, const AttendingRun& run, uint32_t window);

}  // namespace spillway
