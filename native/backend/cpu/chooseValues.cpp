#include <algorithm>

#include "../../model/stagedPages.h"
#include "CpuPass.h"

namespace spillway {

// Keys are scored to know which values are wanted, and once more by attend(), which then goes on with them: a row's
// scores would take as much memory as all of its bits here, for each of 32 query heads.
void CpuPass::chooseValues(size_t layer, const AttentionShape& shape) const {
  const CacheLayout& layout = cache.layout(layer);
  const size_t mark = scratch.used(), ranges = batch.ranges.size();
  auto* rows = scratch.take<AttentionRow>(ranges);
  auto** chosen = scratch.take<const uint64_t*>(ranges);
  auto* loaded = scratch.take<bool>(ranges);
  if (measuring) {
    const size_t bits = layout.kvHeads * chosenWords(spec.contextTokens, 0) * sizeof(uint64_t);
    scratch.take<uint8_t>(ranges * Scratch::aligned(bits));
    scratch.take<uint8_t>(
        attentionScratchBytes(layout, spec.heads, ranges, compute.pool.threads(), spec.contextTokens));
    scratch.release(mark);
    return;
  }
  std::fill_n(chosen, ranges, nullptr);
  std::fill_n(loaded, ranges, false);
  forStagedPages(batch, cache.groups().groupOf(layer), spec.layerSpecs[layer].window, layout.pageTokens,
                 [&](const StagedPage& page) {
                   loaded[page.range] |= page.loaded && isChoosing(batch.ranges[page.range]);
                   return true;
                 });
  size_t count = 0;
  for (size_t r = 0; r < ranges; r++) {
    const uint32_t index = batch.alike[r];
    if (!loaded[index]) continue;
    AttentionRow& row = rows[count++] = batch.attentionRows[r];
    const size_t words = layout.kvHeads * chosenWords(row.firstPosition, row.tokens);
    row.chosen = scratch.take<uint64_t>(words);
    std::fill_n(row.chosen, words, 0);
    chosen[index] = row.chosen;
  }
  const size_t queryWidth = spec.queryWidth(spec.layerSpecs[layer]);
  if (count != 0) {
    spillway::attend(compute, layout, shape, rows, count, queryWidth, queryWidth, scratch);
    bringValues(chosen);
  }
  scratch.release(mark);
}

}  // namespace spillway
