#include "spillFixture.h"

namespace spillway::fixture {

SpillingRuntime::SpillingRuntime(const RuntimeOptions& options)
    : layers(options.decoder.layers),
      pageTokens(options.pageTokens),
      fetches(options.gpu && options.gpu->cacheBuffers != 0),
      shares(fetches && options.gpu->sharesAttention),
      cacheBuffers(fetches         ? options.gpu->cacheBuffers
                   : options.spill ? options.spill->buffers
                                   : 0),
      firstDevicePage(int32_t(options.pages)),
      weightBuffers(options.weights ? options.weights->buffers : 0),
      tiny(options),
      lastStore_(layers),
      cacheUses_(cacheBuffers),
      weightUses_(weightBuffers) {
  for (const LayerSpec& layer : options.decoder.layerSpecs) windows_.push_back(layer.window);
}

SpillingRuntime::~SpillingRuntime() = default;

uint32_t SpillingRuntime::batch(const std::vector<SpilledRange>& ranges) {
  std::vector<int32_t> rows, pages, copies, coming;
  for (const auto& [range, tail, comes] : ranges) {
    if (shares) coming.push_back(std::min(comes, int32_t(range.pages.size())));
    if (range.copyFrom >= 0) copies.insert(copies.end(), {int32_t(rows.size() / kBatchStride), range.copyFrom});
    for (uint32_t value : {range.row, range.first, range.tokens, uint32_t(range.mode), uint32_t(pages.size()),
                           uint32_t(range.pages.size()), uint32_t(tail)}) {
      rows.push_back(int32_t(value));
    }
    pages.insert(pages.end(), range.pages.begin(), range.pages.end());
  }
  return tiny.runtime.createBatch(rows, pages, copies, coming);
}

EventId SpillingRuntime::submit(uint32_t batch, const std::vector<SpilledRange>& ranges, std::vector<EventId>& events) {
  Runtime& runtime = tiny.runtime;
  const auto submitted = [&](EventId event) { return events.push_back(event), event; };
  EventId last = submitted(runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {}));
  for (uint32_t layer = 0; layer < layers; layer++) {
    const auto [loads, stores] = moves(ranges, layer);
    int32_t weights = kNoBuffer, cache = kNoBuffer;
    std::vector<EventId> weightsReady{last}, attendAfter;
    if (runtime.bytes().streamed[layer] != 0) {
      weights = int32_t(nextWeights_++ % weightBuffers);
      weightsReady.push_back(
          submitted(runtime.submitLoadWeight(layer, uint32_t(weights), weightUses_[size_t(weights)])));
    }
    if (loads || stores) {
      cache = int32_t(nextCache_++ % cacheBuffers);
      std::vector<EventId> after = cacheUses_[size_t(cache)];
      if (loads) {
        after.insert(after.end(), lastStore_[layer].begin(), lastStore_[layer].end());
        attendAfter.push_back(submitted(runtime.submitLoadCache(layer, batch, uint32_t(cache), after)));
      } else {
        attendAfter = after;
      }
    }
    attendAfter.push_back(
        submitted(runtime.submitCompute(ComputePart::Project, layer, batch, tiny.activations, weightsReady, weights)));
    last = submitted(
        runtime.submitCompute(ComputePart::Attend, layer, batch, tiny.activations, attendAfter, kNoBuffer, cache));
    if (cache != kNoBuffer) cacheUses_[size_t(cache)] = {last};
    if (stores) {
      const EventId stored = submitted(runtime.submitStoreCache(layer, batch, uint32_t(cache), {last}));
      cacheUses_[size_t(cache)].push_back(stored);
      lastStore_[layer] = {stored};
    }
    last = submitted(runtime.submitCompute(ComputePart::Finish, layer, batch, tiny.activations, {last}, weights));
    if (weights != kNoBuffer) weightUses_[size_t(weights)] = {last};
  }
  return submitted(runtime.submitCompute(ComputePart::Head, 0, batch, tiny.activations, {last}));
}

std::unique_ptr<HeadResult> SpillingRuntime::pass(const std::vector<SpilledRange>& ranges) {
  const uint32_t handle = batch(ranges);
  std::vector<EventId> events;
  submit(handle, ranges, events);
  tiny.runtime.freeBatch(handle);
  std::unique_ptr<HeadResult> head;
  for (EventId event : events) {
    Completion completion = tiny.await(event);
    if (completion.failed && !failure)
      failure = std::move(completion);
    else if (event == events.back() && !completion.failed)
      head.reset(static_cast<HeadResult*>(completion.result.release()));
  }
  return head;
}

std::pair<bool, bool> SpillingRuntime::moves(const std::vector<SpilledRange>& ranges, uint32_t layer) const {
  bool loads = false, stores = false;
  for (const auto& [range, tail, comes] : ranges) {
    const uint32_t coming = !fetches ? 0 : shares ? uint32_t(comes) : UINT32_MAX;
    for (uint32_t p = 0; p < range.pages.size(); p++) {
      if (p < coming) {
        const uint32_t begin = p * pageTokens, end = begin + pageTokens;
        if (range.pages[p] >= firstDevicePage || begin >= range.first + range.tokens) continue;
        const bool seen = windows_[layer] == 0 || end + windows_[layer] > range.first + 1;
        loads |= begin < range.first && seen;
        stores |= end > range.first;
        continue;
      }
      if (range.pages[p] >= 0) continue;
      const uint32_t end = (p + 1) * pageTokens;  // one past its last position
      if (end > range.first + range.tokens) continue;
      if (end > range.first)
        stores = true;
      else if (windows_[layer] == 0 || end + windows_[layer] > range.first + 1)
        loads = true;
    }
  }
  return {loads, stores};
}

std::vector<float> scoreInMemory(RuntimeOptions options, const std::vector<int32_t>& text, uint32_t promptTokens) {
  TinyRuntime tiny(std::move(options));
  const uint32_t row = tiny.runtime.createSequence(sequenceOptions(text, uint32_t(text.size()), promptTokens));
  std::vector<float> scores;
  for (uint32_t first = 0; first < text.size(); first += 48) {
    const uint32_t tokens = std::min(48u, uint32_t(text.size()) - first);
    const auto head = tiny.pass({{row, first, tokens, HeadMode::Score, {0, 1, 2, 3, 4, 5}}});
    scores.insert(scores.end(), head->scores.begin(), head->scores.end());
  }
  return scores;
}

std::vector<SpilledRow> randomRows(const RuntimeOptions& options, size_t count, std::mt19937& random) {
  std::vector<int32_t> memory(options.pages), disk(options.spill->pages);
  for (size_t i = 0; i < memory.size(); i++) memory[i] = int32_t(i);
  for (size_t i = 0; i < disk.size(); i++) disk[i] = -1 - int32_t(i);
  // Mostly in order, so that neighbours on disk are joined in one request, but not always.
  if (random() % 2 == 0)
    std::shuffle(disk.begin(), disk.end(), random);
  else
    std::reverse(disk.begin(), disk.end());
  std::shuffle(memory.begin(), memory.end(), random);
  const auto take = [](std::vector<int32_t>& from) {
    const int32_t page = from.back();
    from.pop_back();
    return page;
  };
  std::vector<SpilledRow> rows(count);
  for (SpilledRow& row : rows) {
    row.text = randomTokens(5 + random() % 86, options.decoder.vocabularySize, random());
    const size_t pages = (row.text.size() + options.pageTokens - 1) / options.pageTokens;
    const unsigned onDisk = random() % 5;  // of four pages; four: all of them
    for (size_t p = 0; p < pages; p++) row.pages.push_back(take(random() % 4 < onDisk ? disk : memory));
    const bool last = row.pages.back() >= 0 && random() % 2 == 0;
    row.tail = last ? row.pages.back() : take(memory);
  }
  return rows;
}

void scoreSpilling(SpillingRuntime& runtime, std::vector<SpilledRow>& rows, std::mt19937& random,
                   uint32_t promptTokens) {
  for (SpilledRow& row : rows)
    row.handle =
        runtime.tiny.runtime.createSequence(sequenceOptions(row.text, uint32_t(row.text.size()), promptTokens));
  const auto left = [](const SpilledRow& row) { return uint32_t(row.text.size()) - row.done; };
  while (std::any_of(rows.begin(), rows.end(), [&](const SpilledRow& row) { return left(row) != 0; })) {
    std::vector<SpilledRange> ranges;
    std::vector<SpilledRow*> taken;
    uint32_t room = 64;
    for (SpilledRow& row : rows) {
      if (left(row) == 0 || room == 0 || random() % 4 == 0) continue;
      const uint32_t most = random() % 3 == 0 ? 1 : random() % 2 == 0 ? 17 : 40;
      const uint32_t tokens = 1 + random() % std::min({left(row), room, most});
      ranges.push_back({{row.handle, row.done, tokens, HeadMode::Score, row.pages}, row.tail});
      taken.push_back(&row);
      row.done += tokens;
      room -= tokens;
    }
    if (ranges.empty()) continue;
    const auto head = runtime.pass(ranges);
    if (head == nullptr) return;
    size_t at = 0;
    for (size_t s = 0; s < head->scored.size(); s += 3) {
      const size_t count = size_t(head->scored[s + 2]);
      for (SpilledRow* row : taken) {
        if (int32_t(row->handle) == head->scored[s])
          row->scores.insert(row->scores.end(), head->scores.begin() + long(at),
                             head->scores.begin() + long(at + count));
      }
      at += count;
    }
  }
  for (SpilledRow& row : rows) runtime.tiny.runtime.freeSequence(row.handle);
}

}  // namespace spillway::fixture
