#include <algorithm>

#include "../../model/attentionShape.h"
#include "CpuPass.h"

namespace spillway {

// Attention sinks and the last tokens (StreamingLLM, Xiao et al. 2023), whole pages of both. Keys keep the rotation of
// their positions, so the pages that a token sees can stand one after another, as if there were none between: a row's
// tokens that see the same first page of the last ones are attended to together. Which pages a token sees follows from
// its position alone, so that chunks change no bit.
void CpuPass::attendEvicted(size_t layer, const AttentionShape& shape) const {
  const size_t pageTokens = cache.layout(layer).pageTokens;
  const size_t sinks = (spec.evictionSinks + pageTokens - 1) / pageTokens, window = spec.evictionWindow;
  const size_t tablePages = sinks + window / pageTokens + 3;
  const size_t mostPieces = tokens() / pageTokens + 2 * batch.ranges.size();
  const ScratchScope scope(*this);
  AttentionRow* pieces = scratch.take<AttentionRow>(mostPieces);
  const uint8_t** tables = scratch.take<const uint8_t*>(mostPieces * tablePages);
  if (measuring) {
    scratch.take<uint8_t>(attentionScratchBytes(cache.layout(layer), spec.heads, mostPieces, compute.pool.threads(),
                                                keepKeys < 1 ? spec.contextTokens : 0));
    return;
  }
  size_t count = 0;
  const uint32_t group = cache.groups().groupOf(layer);
  const size_t queryWidth = spec.queryWidth(spec.layerSpecs[layer]);
  for (size_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[batch.alike[r]];
    const uint8_t* const* pages = batch.pagePointers.data() + range.table(group);
    const size_t end = size_t(range.firstPosition) + range.tokens;
    for (size_t position = range.firstPosition; position < end;) {
      const size_t first = std::max(sinks, (std::max(position + 1, window) - window) / pageTokens);
      // The next position whose first page is another one.
      const size_t next = std::min(end, (first + 1) * pageTokens + window - 1), gone = (first - sinks) * pageTokens;
      const uint8_t** table = tables + count * tablePages;
      const size_t used = (next - 1) / pageTokens + 1;
      std::copy_n(pages, std::min(sinks, used), table);
      for (size_t page = first; page < used; page++) table[sinks + page - first] = pages[page];
      float* queries = activations.queries + (size_t(range.firstToken) + position - range.firstPosition) * queryWidth;
      const uint32_t prompt = range.sequence->promptTokens;
      pieces[count++] = {queries,
                         queries,
                         static_cast<uint32_t>(position - gone),
                         static_cast<uint32_t>(next - position),
                         table,
                         prompt > gone ? prompt - static_cast<uint32_t>(gone) : 0};
      position = next;
    }
  }
  spillway::attend(compute, cache.layout(layer), shape, pieces, count, queryWidth, queryWidth, scratch);
}

}  // namespace spillway
