#include <cstring>

#include "../../model/layer.h"
#include "CpuPass.h"
#include "../../model/stagedPages.h"

namespace spillway {

void pointToPages(const CpuPass& pass, size_t layer) {
  const Batch& batch = pass.batch;
  const uint32_t group = pass.cache.groups().groupOf(layer);
  for (const BatchRange& range : batch.ranges) {
    const uint32_t table = range.table(group);
    for (uint32_t i = table; i < table + range.pageCount; i++) {
      const bool here = batch.pages[i] >= 0 && static_cast<uint32_t>(batch.pages[i]) < pass.cache.pages();
      batch.pagePointers[i] = here ? pass.cache.page(layer, static_cast<size_t>(batch.pages[i])) : nullptr;
    }
  }
}

namespace {

// Where a range's pages are during this layer: in the pool, in the staging buffer, in the sequence's tail; null for
// those that attention does not touch here.
void findPages(const CpuPass& pass, size_t layer) {
  const Batch& batch = pass.batch;
  const uint32_t pageTokens = pass.cache.pageTokens();
  const uint32_t group = pass.cache.groups().groupOf(layer);
  pointToPages(pass, layer);
  for (size_t r = 0; r < batch.ranges.size(); r++) {
    const BatchRange& range = batch.ranges[r];
    const uint32_t end = range.firstPosition + range.tokens;
    if (!range.spilled || end % pageTokens == 0) continue;
    const uint32_t last = range.table(group) + end / pageTokens;
    if (isOnDisk(batch.pages[last]))
      batch.pagePointers[last] = pass.cache.page(layer, static_cast<size_t>(batch.of(r, group).tail));
  }
  forStagedPages(batch, group, pass.spec.layerSpecs[layer].window, pageTokens, [&](const StagedPage& page) {
    batch.pagePointers[page.entry] = pass.staged + page.place * pass.stagedBytes;
    return true;
  });
}

// Pages that were begun in the tail and become complete now: the tail's tokens come first, since the tail may be
// written to anew.
void takeTails(const CpuPass& pass, size_t layer, const OfToken& stores) {
  const Batch& batch = pass.batch;
  const size_t bytes = cachePageBytes(pass.cache.layout(layer));
  const uint32_t group = pass.cache.groups().groupOf(layer);
  pass.forRows(batch.ranges.size(), bytes / sizeof(float), [&](size_t r, unsigned) {
    const BatchRange& range = batch.ranges[r];
    const uint32_t pageTokens = pass.cache.pageTokens();
    const uint32_t current = range.firstPosition / pageTokens;
    const uint32_t entry = range.table(group) + current;
    const bool completed = (range.firstPosition + range.tokens) / pageTokens > current;
    if (!completed || range.firstPosition % pageTokens == 0 || !isOnDisk(batch.pages[entry])) return;
    if (stores && !stores({static_cast<uint32_t>(r), range.firstPosition})) return;
    std::memcpy(const_cast<uint8_t*>(batch.pagePointers[entry]),
                pass.cache.page(layer, static_cast<size_t>(batch.of(r, group).tail)), bytes);
  });
}

}  // namespace

void placePages(const CpuPass& pass, size_t layer, const OfToken& stores) {
  Activations& activations = pass.activations;
  takeKeys(pass.batch, activations, layer);
  findPages(pass, layer);
  const LayerSpec& layerSpec = pass.spec.layerSpecs[layer];
  if (!layerSpec.ownKeys()) return;
  takeTails(pass, layer, stores);
  const uint32_t pageTokens = pass.cache.pageTokens();
  const size_t width = pass.spec.keyWidth(layerSpec);
  const uint32_t group = pass.cache.groups().groupOf(layer);
  pass.forRows(pass.tokens(), 2 * width, [&](size_t t, unsigned) {
    const BatchToken& token = pass.batch.tokens[t];
    const uint8_t* page =
        pass.batch.pagePointers[pass.batch.ranges[token.range].table(group) + token.position / pageTokens];
    if (page == nullptr || (stores && !stores(token))) return;  // on a device, or by it
    cacheStore(pass.compute.kernels, pass.cache.layout(layer), const_cast<uint8_t*>(page), token.position % pageTokens,
               activations.keys + t * width, activations.values + t * width);
  });
}

}  // namespace spillway
