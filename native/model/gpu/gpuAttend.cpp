#include <algorithm>

#include "GpuPass.h"
#include "attendingRuns.h"

namespace spillway {

namespace {

// What the kernels read of a batch, on the device. Cut by layers, since a page lies elsewhere in each.
struct Tables {
  const cuda::AttentionToken* tokens;  // of the whole batch
  const cuda::AttentionRange* ranges;  // those that attendRanges() takes
};

// Entries of page tables that this batch's tokens reach.
size_t reachedPages(const GpuPass& pass) {
  if (pass.measuring()) return pass.mostPages;
  size_t entries = 0;
  for (const BatchRange& range : pass.batch.ranges) entries += (range.firstPosition + range.tokens - 1) / pass.layout().pageTokens + 1;
  return entries;
}

// One upload: pointers to pages (null for those that are elsewhere), then tokens, then ranges.
Tables uploadTables(const GpuPass& pass, size_t layer, const AttendingRun* runs, size_t runCount) {
  const Batch& batch = pass.batch;
  const uint32_t pageTokens = pass.layout().pageTokens;
  const size_t entries = reachedPages(pass), tokens = pass.tokens(), hostMark = pass.host.used();
  const size_t tokensAt = entries * sizeof(uint8_t*), rangesAt = tokensAt + tokens * sizeof(cuda::AttentionToken);
  const size_t bytes = rangesAt + (pass.measuring() ? tokens : runCount) * sizeof(cuda::AttentionRange);
  uint8_t* there = pass.scratch.take<uint8_t>(bytes);
  uint8_t* here = pass.host.take<uint8_t>(bytes);
  if (!pass.measuring()) {
    auto* pointers = reinterpret_cast<const uint8_t**>(here);
    auto* attending = reinterpret_cast<cuda::AttentionToken*>(here + tokensAt);
    auto* ranges = reinterpret_cast<cuda::AttentionRange*>(here + rangesAt);
    size_t entry = 0;
    for (const BatchRange& range : batch.ranges) {
      const auto* table = reinterpret_cast<const uint8_t* const*>(there) + entry;
      const uint32_t count = (range.firstPosition + range.tokens - 1) / pageTokens + 1;
      for (uint32_t p = 0; p < count; p++) {
        const int32_t page = batch.pages[range.firstPage + p];
        pointers[entry++] = pass.pages.holds(page) ? pass.pages.page(layer, page) : nullptr;
      }
      for (uint32_t t = 0; t < range.tokens; t++) attending[range.firstToken + t] = {table, range.firstPosition + t};
    }
    for (size_t r = 0; r < runCount; r++) ranges[r] = {runs[r].firstToken, runs[r].tokens};
    pass.link->upload(there, here, bytes);
  }
  pass.host.release(hostMark);
  return {reinterpret_cast<const cuda::AttentionToken*>(there + tokensAt), reinterpret_cast<const cuda::AttentionRange*>(there + rangesAt)};
}

// New keys and values to those pages that are on the device.
void storeKeys(const GpuPass& pass, const Tables& tables) {
  const Batch& batch = pass.batch;
  const size_t width = pass.spec.keyWidth();
  const auto isThere = [&](size_t t) {
    const BatchToken& token = batch.tokens[t];
    return pass.pages.holds(batch.pages[batch.ranges[token.range].firstPage + token.position / pass.layout().pageTokens]);
  };
  for (size_t first = 0, end; first < pass.tokens(); first = end) {
    end = first + 1;
    const bool there = isThere(first);
    while (end < pass.tokens() && isThere(end) == there) end++;
    if (!there) continue;
    cuda::storeTokens(pass.link->stream(), pass.layout(), tables.tokens + first, end - first, pass.activations.keys + first * width, pass.activations.values + first * width, width);
  }
}

// Tokens by themselves, as many at a time as there is room for partial results.
void attendOneByOne(const GpuPass& pass, const AttentionShape& shape, const Tables& tables, uint32_t first, uint32_t count, const cuda::AttentionPartials& room, size_t roomParts) {
  const size_t width = pass.spec.queryWidth();
  for (uint32_t end = first + count; first < end;) {
    uint32_t lastPosition = 0, some = 0;
    for (; first + some < end; some++) {
      const uint32_t last = std::max(lastPosition, pass.batch.tokens[first + some].position);
      if (some != 0 && size_t(some + 1) * shape.heads * cuda::attentionParts(last) > roomParts) break;
      lastPosition = last;
    }
    cuda::AttentionPartials partials = room;
    partials.parts = cuda::attentionParts(lastPosition);
    float* queries = pass.activations.queries + first * width;
    cuda::attendTokens(pass.link->stream(), pass.layout(), shape, tables.tokens + first, some, queries, width, queries, width, partials);
    first += some;
  }
}

}  // namespace

void attendLayer(const GpuPass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  if (!pass.measuring()) takeKeys(pass.batch, pass.activations, layer);
  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();
  const size_t tokens = pass.tokens(), elements = tokens * spec.queryWidth();
  const bool inRanges = pass.compute.precision == Precision::Default && cuda::hasRangeAttention(pass.layout());
  const AttentionShape shape{spec.heads, spec.attentionScale, spec.layerSpecs[layer].window, pass.constants.slopes, spec.alibiRoundToBfloat16, 1};

  AttendingRun* runs = pass.host.take<AttendingRun>(2 * tokens);
  const AttendingRuns found = pass.measuring() ? AttendingRuns{} : listAttendingRuns(pass.batch, pass.pages, pass.layout().pageTokens, shape.window, inRanges, runs);
  const Tables tables = uploadTables(pass, layer, runs, found.inRanges);
  float* queries = inRanges ? pass.scratch.take<float>(elements) : nullptr;  // attendRanges() may not overwrite them
  // Room for the partial results of one token at least, of all at most, and of 32 MiB otherwise.
  const size_t tokenParts = size_t(spec.heads) * cuda::attentionParts(spec.contextTokens - 1), partBytes = (spec.headDim + 2) * sizeof(float);
  const size_t roomParts = std::min(tokens * tokenParts, std::max(tokenParts, (size_t(32) << 20) / partBytes));
  const cuda::AttentionPartials room{pass.scratch.take<cuda::AttentionPartial>(roomParts), pass.scratch.take<float>(roomParts * spec.headDim), 0};

  if (!pass.measuring()) {
    storeKeys(pass, tables);
    if (found.inRanges != 0) {
      cuda::check(cudaMemcpyAsync(queries, pass.activations.queries, elements * sizeof(float), cudaMemcpyDeviceToDevice, pass.link->stream()), "cudaMemcpyAsync");
      cuda::attendRanges(pass.link->stream(), pass.layout(), shape, tables.tokens, tables.ranges, found.inRanges, found.longest, queries, spec.queryWidth(),
                         pass.activations.queries, spec.queryWidth());
    }
    for (size_t r = found.inRanges; r < found.inRanges + found.oneByOne; r++) attendOneByOne(pass, shape, tables, runs[r].firstToken, runs[r].tokens, room, roomParts);
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
}

}  // namespace spillway
