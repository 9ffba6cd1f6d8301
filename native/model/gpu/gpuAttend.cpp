#include <algorithm>

#include "GpuPass.h"
#include "HostAttention.h"
#include "attendingRuns.h"

namespace spillway {

namespace {

// Prompts attend on the device even where their pages are in host memory: it computes far faster, and their keys and values are there anyway. What earlier
// chunks have left in host memory is copied for the time, of one row after another, up to this position; from there on the processor attends.
constexpr uint32_t kMostLentTokens = 4096;

// Copies of pages in host memory: the first one is of the row's first such page.
struct LentPages {
  uint8_t* data = nullptr;
  uint32_t count = 0;
};

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

// One upload: pointers to pages (null for those that are elsewhere), then tokens, then ranges: those on the device, then those that are lent to it.
Tables uploadTables(const GpuPass& pass, size_t layer, const AttendingRuns& runs, const LentPages& lent) {
  const Batch& batch = pass.batch;
  const uint32_t pageTokens = pass.layout().pageTokens;
  const size_t entries = reachedPages(pass), tokens = pass.tokens(), hostMark = pass.host.used();
  const size_t tokensAt = entries * sizeof(uint8_t*), rangesAt = tokensAt + tokens * sizeof(cuda::AttentionToken);
  const size_t bytes = rangesAt + (pass.measuring() ? tokens : runs.size(Attending::InRange) + runs.size(Attending::Lent)) * sizeof(cuda::AttentionRange);
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
        const bool lends = page >= 0 && p - range.devicePages < lent.count;
        pointers[entry++] = pass.pages.holds(page) ? pass.pages.page(layer, page) : lends ? lent.data + (p - range.devicePages) * pass.pages.pageBytes : nullptr;
      }
      const uint32_t keys = firstHostKey(range, pageTokens);
      for (uint32_t t = 0; t < range.tokens; t++) {
        const uint32_t position = range.firstPosition + t;
        attending[range.firstToken + t] = {table, position, position < keys ? 0 : keys};
      }
    }
    for (const Attending kind : {Attending::InRange, Attending::Lent}) {
      for (const AttendingRun* run = runs.begin(kind); run != runs.end(kind); run++) *ranges++ = {run->firstToken, run->tokens};
    }
    pass.link->upload(there, here, bytes);
  }
  pass.host.release(hostMark);
  return {reinterpret_cast<const cuda::AttentionToken*>(there + tokensAt), reinterpret_cast<const cuda::AttentionRange*>(there + rangesAt)};
}

// New keys and values of consecutive tokens to their pages.
void storeRun(const GpuPass& pass, const Tables& tables, size_t first, size_t count) {
  const size_t width = pass.spec.keyWidth();
  cuda::storeTokens(pass.link->stream(), pass.layout(), tables.tokens + first, count, pass.activations.keys + first * width, pass.activations.values + first * width, width);
}

// To those pages that are on the device for good.
void storeKeys(const GpuPass& pass, const Tables& tables) {
  const Batch& batch = pass.batch;
  const auto isThere = [&](size_t t) {
    const BatchToken& token = batch.tokens[t];
    return pass.pages.holds(batch.pages[batch.ranges[token.range].firstPage + token.position / pass.layout().pageTokens]);
  };
  for (size_t first = 0, end; first < pass.tokens(); first = end) {
    end = first + 1;
    const bool there = isThere(first);
    while (end < pass.tokens() && isThere(end) == there) end++;
    if (!there) continue;
    storeRun(pass, tables, first, end - first);
  }
}

// A row's pages in host memory, up to what is computed now.
void lendPages(const GpuPass& pass, size_t layer, const AttendingRun& run, uint32_t window, const LentPages& lent) {
  const BatchToken& token = pass.batch.tokens[run.firstToken];
  const BatchRange& range = pass.batch.ranges[token.range];
  const uint32_t pageTokens = pass.layout().pageTokens, firstSeen = window != 0 && token.position >= window ? token.position - window + 1 : 0;
  for (uint32_t p = std::max(range.devicePages, firstSeen / pageTokens); p * pageTokens < token.position; p++) {
    const auto page = static_cast<size_t>(pass.batch.pages[range.firstPage + p]);
    pass.link->upload(lent.data + (p - range.devicePages) * pass.pages.pageBytes, pass.hostPages.page(layer, page), pass.pages.pageBytes);
  }
}

// How many positions of a token's keys are on the device.
uint32_t keysThere(const GpuPass& pass, size_t token) {
  const BatchToken& entry = pass.batch.tokens[token];
  const uint32_t keys = firstHostKey(pass.batch.ranges[entry.range], pass.layout().pageTokens);
  return entry.position < keys ? entry.position + 1 : keys;
}

// Room for partial results of tokens that attend by themselves.
struct PartialRoom {
  cuda::AttentionPartials partials;
  size_t parts;  // of one query each
};

// A run of such tokens, as many at a time as there is room for: attend(first token, tokens, partials).
template <typename Attend>
void inSlices(const GpuPass& pass, const AttendingRun& run, const PartialRoom& room, Attend attend) {
  const size_t heads = pass.spec.heads;
  const size_t end = size_t(run.firstToken) + run.tokens;
  for (size_t first = run.firstToken, some; first < end; first += some) {
    uint32_t parts = 0;
    for (some = 0; first + some < end; some++) {
      const uint32_t most = std::max(parts, cuda::attentionParts(keysThere(pass, first + some) - 1));
      if (some != 0 && (some + 1) * heads * most > room.parts) break;
      parts = most;
    }
    cuda::AttentionPartials partials = room.partials;
    partials.parts = parts;
    attend(first, some, partials);
  }
}

}  // namespace

void attendLayer(const GpuPass& pass, size_t layer) {
  const DecoderSpec& spec = pass.spec;
  if (!pass.measuring()) takeKeys(pass.batch, pass.activations, layer);
  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();
  const size_t tokens = pass.tokens(), width = spec.queryWidth(), elements = tokens * width;
  const bool inRanges = pass.compute.precision == Precision::Default && cuda::hasRangeAttention(pass.layout());
  const AttentionShape shape{spec.heads, spec.attentionScale, spec.layerSpecs[layer].window, pass.constants.slopes, spec.alibiRoundToBfloat16, 1};

  const bool lends = inRanges && pass.hostPages.pages() != 0 && pass.keepKeys == 1;
  const AttendingRules rules{pass.layout().pageTokens, inRanges, lends ? std::min(spec.contextTokens, kMostLentTokens) : 0};
  LentPages lent{nullptr, (rules.lentTokens + rules.pageTokens - 1) / rules.pageTokens};
  lent.data = pass.scratch.take<uint8_t>(lent.count * pass.pages.pageBytes);

  AttendingRun* runMemory = pass.host.take<AttendingRun>(tokens);
  const AttendingRuns runs = pass.measuring() ? AttendingRuns{} : listAttendingRuns(pass.batch, rules, runMemory);
  const Tables tables = uploadTables(pass, layer, runs, lent);
  float* copied = inRanges ? pass.scratch.take<float>(elements) : nullptr;  // queries, which attendRanges() may not overwrite
  // For one token at least, for all at most, and 32 MiB otherwise.
  const size_t tokenParts = size_t(spec.heads) * cuda::attentionParts(spec.contextTokens - 1), partBytes = (spec.headDim + 2) * sizeof(float);
  const size_t roomParts = std::min(tokens * tokenParts, std::max(tokenParts, (size_t(32) << 20) / partBytes));
  PartialRoom room{{pass.scratch.take<cuda::AttentionPartial>(roomParts), pass.scratch.take<float>(roomParts * spec.headDim), 0}, roomParts};
  HostAttention host(pass, runs, rules, layer);

  if (!pass.measuring()) {
    cudaStream_t stream = pass.link->stream();
    float* queries = pass.activations.queries;
    const bool hosted = runs.size(Attending::Split) + runs.size(Attending::OnHost) + runs.size(Attending::Lent) != 0;
    if (hosted) host.fetch();
    // From here on the device works, while the processor does its part.
    storeKeys(pass, tables);
    if (runs.size(Attending::InRange) + runs.size(Attending::Lent) != 0) {
      cuda::check(cudaMemcpyAsync(copied, queries, elements * sizeof(float), cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
      cuda::attendRanges(stream, pass.layout(), shape, tables.tokens, tables.ranges, runs.size(Attending::InRange), runs.longest, copied, width, queries, width);
    }
    for (const AttendingRun* run = runs.begin(Attending::Lent); run != runs.end(Attending::Lent); run++) {
      lendPages(pass, layer, *run, shape.window, lent);
      storeRun(pass, tables, run->firstToken, run->tokens);
      const cuda::AttentionRange* range = tables.ranges + runs.size(Attending::InRange) + (run - runs.begin(Attending::Lent));
      cuda::attendRanges(stream, pass.layout(), shape, tables.tokens, range, 1, run->tokens, copied, width, queries, width);
    }
    for (const AttendingRun* run = runs.begin(Attending::ByItself); run != runs.end(Attending::ByItself); run++) {
      inSlices(pass, *run, room, [&](size_t first, size_t some, const cuda::AttentionPartials& partials) {
        cuda::attendTokens(stream, pass.layout(), shape, tables.tokens + first, some, queries + first * width, width, queries + first * width, width, partials);
      });
    }
    if (hosted) {
      host.attend();
      host.send();
    }
    const auto merge = [&](size_t first, size_t some, cuda::AttentionPartials partials) {
      partials.otherWeights = host.partials() + first * spec.heads;
      partials.otherValues = host.values() + first * width;
      cuda::mergePartials(stream, partials, some, spec.heads, spec.headDim, queries + first * width, width);
    };
    for (const AttendingRun* run = runs.begin(Attending::Split); run != runs.end(Attending::Split); run++) {
      inSlices(pass, *run, room, [&](size_t first, size_t some, const cuda::AttentionPartials& partials) {
        cuda::attendParts(stream, pass.layout(), shape, tables.tokens + first, some, queries + first * width, width, partials);
        merge(first, some, partials);
      });
    }
    for (const AttendingRun* run = runs.begin(Attending::OnHost); run != runs.end(Attending::OnHost); run++) merge(run->firstToken, run->tokens, room.partials);
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
}

}  // namespace spillway
