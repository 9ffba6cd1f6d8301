#include <algorithm>
#include <optional>
#include <vector>

#include "../../model/attentionShape.h"
#include "../../model/layer.h"
#include "AttentionTables.h"
#include "HostAttention.h"
#include "KeysInCommon.h"

namespace spillway {

namespace {

// Prompts attend on the device even where their pages are in host memory: it computes far faster, and their keys and
// values are there anyway, and brings these to their pages itself where it reaches them. What earlier chunks have left
// in host memory is copied for the time, of one sequence after another, up to this position; from there on the
// processor attends. As far, pages of 8 and 4 bits become halves for prompts; from there on each token attends to them
// by itself.
constexpr uint32_t kMostUploadedTokens = 4096;

// New keys and values of consecutive tokens to their pages.
void storeRun(const CudaPass& pass, const AttentionTables& tables, size_t first, size_t count) {
  const size_t width = pass.spec.keyWidth();
  cuda::storeTokens(pass.link->stream(), pass.layout(), tables.tokens + first, count,
                    pass.activations.keys + first * width, pass.activations.values + first * width, width);
}

// Pages on the device that go on from what another sequence has computed begin as copies of that one's.
void beginPages(const CudaPass& pass, size_t layer, const BatchPart& part) {
  for (uint32_t r = part.firstRange; r < part.endRange; r++) {
    const BatchRange& range = pass.batch.ranges[r];
    if (!pass.pages.holds(range.copyFrom)) continue;
    const uint8_t* from = pass.pages.page(layer, range.copyFrom);
    cuda::check(cudaMemcpyAsync(pass.pages.page(layer, range.copyTo), from, pass.pages.pageBytes,
                                cudaMemcpyDeviceToDevice, pass.link->stream()),
                "cudaMemcpyAsync");
  }
}

// To those pages that are on the device, for good or for the time.
void storeKeys(const CudaPass& pass, size_t layer, const BatchPart& part, const AttentionTables& tables) {
  const Batch& batch = pass.batch;
  const auto isThere = [&](size_t t) {
    const BatchToken& token = batch.tokens[t];
    const size_t page = batch.ranges[token.range].firstPage + token.position / pass.layout().pageTokens;
    return pass.pageHere(layer, page) != nullptr;
  };
  const size_t endToken = part.endToken(batch);
  for (size_t first = part.firstToken(batch), end; first < endToken; first = end) {
    end = first + 1;
    const bool there = isThere(first);
    while (end < endToken && isThere(end) == there) end++;
    if (!there) continue;
    storeRun(pass, tables, first, end - first);
  }
}

// A sequence's pages in host memory that it sees, up to what is computed now.
struct UploadedRun {
  const BatchRange* range;
  uint32_t first, end;

  UploadedRun(const CudaPass& pass, const AttendingRun& run, uint32_t window) {
    const BatchToken& token = pass.batch.tokens[run.firstToken];
    const uint32_t pageTokens = pass.layout().pageTokens;
    range = &pass.batch.ranges[token.range];
    first = std::max(range->devicePages, firstSeenKey(pass, run, window) / pageTokens);
    end = (token.position + pageTokens - 1) / pageTokens;
  }
  int32_t page(const CudaPass& pass, uint32_t p) const { return pass.batch.pages[range->firstPage + p]; }
};

// What the sequence before has in common with this one is there still.
void uploadPages(const CudaPass& pass, size_t layer, const UploadedRun& run, const std::optional<UploadedRun>& before,
                 const UploadedPages& uploaded) {
  const uint32_t devicePages = run.range->devicePages;
  const size_t bytes = pass.pages.pageBytes;
  std::vector<cuda::PageCopy> copies;
  for (uint32_t p = run.first; p < run.end; p++) {
    const int32_t page = run.page(pass, p);
    const bool isThere = before && before->range->devicePages == devicePages && p >= before->first && p < before->end &&
                         before->page(pass, p) == page;
    if (isThere) continue;
    const uint8_t* from = pass.hostPages.page(layer, static_cast<size_t>(page));
    uint8_t* to = uploaded.data + (p - devicePages) * bytes;
    copies.push_back({from, to});
  }
  if (pass.hostPinned)
    pass.link->copyPages(copies.data(), copies.size(), bytes);
  else
    pass.link->uploadPages(copies.data(), copies.size(), bytes);
}

// New keys and values of prompts to the pages in host memory that they stay in.
void storeHome(const CudaPass& pass, const AttentionTables& tables, const AttendingRuns& runs) {
  const size_t width = pass.spec.keyWidth();
  for (const AttendingRun* run = runs.begin(Attending::Uploaded); run != runs.end(Attending::Uploaded); run++)
    cuda::storeTokens(pass.link->stream(), pass.layout(), tables.homeTokens + run->firstToken, run->tokens,
                      pass.activations.keys + run->firstToken * width,
                      pass.activations.values + run->firstToken * width, width);
}

// Prompts: many queries at a time.
void attendInRanges(const CudaPass& pass, size_t layer, const AttentionShape& shape, const AttentionTables& tables,
                    const UploadedPages& uploaded, const float* queries, float* outputs) {
  const CacheLayout& layout = pass.layout();
  const size_t width = pass.spec.queryWidth();
  cudaStream_t stream = pass.link->stream();
  std::optional<UploadedRun> before;
  for (const RangeGroup* group = tables.groups; group != tables.groups + tables.groupCount; group++) {
    if (group->uploaded != nullptr) {
      const UploadedRun run(pass, *group->uploaded, shape.window);
      uploadPages(pass, layer, run, before, uploaded);
      before = run;
      storeRun(pass, tables, group->uploaded->firstToken, group->uploaded->tokens);
    }
    if (group->pages != 0)
      cuda::dequantisePages(stream, layout, tables.quantised + group->firstPage, tables.halves + group->firstPage,
                            group->pages);
    cuda::prefillAttention(stream, rangeLayout(layout), shape, tables.rangeTokens, tables.ranges + group->firstRange,
                           group->ranges, group->longest, queries, width, outputs, width);
  }
}

// Room for what tokens that attend by themselves have found; where some attend sparsely, for their keys' scores, too.
class Workspace {
 public:
  // For one token at least, for all at most, and 32 MiB of each otherwise.
  explicit Workspace(const CudaPass& pass) : pass_(pass) {
    const DecoderSpec& spec = pass.spec;
    const auto upTo = [&](size_t ofToken, size_t bytes) {
      return std::min(pass.tokens() * ofToken, std::max(ofToken, (size_t(32) << 20) / bytes));
    };
    parts_ =
        upTo(size_t(spec.heads) * cuda::attentionParts(spec.contextTokens - 1), (spec.headDim + 2) * sizeof(float));
    floats_ = pass.keepKeys < 1 ? upTo(size_t(spec.heads) * spec.contextTokens, sizeof(float)) : 0;
    partials = {pass.scratch.take<cuda::AttentionPartial>(parts_), pass.scratch.take<float>(parts_ * spec.headDim), 0};
    scores_ = pass.scratch.take<float>(floats_);
    cuts = pass.scratch.take<AttentionCut>(floats_ == 0 ? 0 : pass.tokens() * spec.heads);
  }
  size_t scoreFloats() const { return floats_; }

  // A run of such tokens, as many at a time as there is room for: attend(first token, tokens, partials, scores).
  template <typename Attend>
  void inSlices(const AttendingRun& run, bool sparsely, Attend attend) const {
    constexpr size_t kMostTokens = 32768;
    const size_t heads = pass_.spec.heads, end = size_t(run.firstToken) + run.tokens;
    for (size_t first = run.firstToken, some; first < end; first += some) {
      uint32_t keys = 0;
      for (some = 0; first + some < end && some < kMostTokens; some++) {
        const uint32_t most = std::max(keys, keysOnDevice(pass_.batch, first + some, pass_.layout().pageTokens));
        const size_t queries = (some + 1) * heads;
        if (some != 0 && (queries * cuda::attentionParts(most - 1) > parts_ || (sparsely && queries * most > floats_)))
          break;
        keys = most;
      }
      cuda::AttentionPartials slice = partials;
      slice.parts = cuda::attentionParts(keys - 1);
      attend(first, some, slice, cuda::KeyScores{scores_, keys});
    }
  }

  cuda::AttentionPartials partials;
  AttentionCut* cuts;  // [tokens, heads], where some attend sparsely

 private:
  const CudaPass& pass_;
  size_t parts_, floats_;
  float* scores_;
};

// The ways in which tokens attend by themselves, each a function of a run; queries become outputs.
struct TokenAttention {
  const CudaPass& pass;
  const AttentionShape& shape;
  const AttentionTables& tables;
  const Workspace& workspace;
  KeysInCommon& inCommon;
  HostAttention& host;

  void merge(size_t first, size_t some, cuda::AttentionPartials partials, bool withHost) const {
    const DecoderSpec& spec = pass.spec;
    if (withHost) {
      partials.otherWeights = host.partials() + first * spec.heads;
      partials.otherValues = host.values() + first * spec.queryWidth();
    }
    partials.sinks = shape.sinks;
    cuda::combineSplits(pass.link->stream(), partials, some, spec.heads, spec.headDim, queriesOf(first),
                        spec.queryWidth());
  }
  float* queriesOf(size_t token) const { return pass.activations.queries + token * pass.spec.queryWidth(); }

  void densely(const AttendingRun& run, bool withHost) const {
    workspace.inSlices(
        run, false, [&](size_t first, size_t some, const cuda::AttentionPartials& partials, const cuda::KeyScores&) {
          cuda::attendParts(pass.link->stream(), pass.layout(), shape, tables.tokens + first, some, queriesOf(first),
                            pass.spec.queryWidth(), partials, inCommon.of(first, some));
          merge(first, some, partials, withHost);
        });
  }
  void sparsely(const AttendingRun& run, bool withHost) const {
    cudaStream_t stream = pass.link->stream();
    workspace.inSlices(
        run, true,
        [&](size_t first, size_t some, const cuda::AttentionPartials& partials, const cuda::KeyScores& scores) {
          const cuda::AttentionToken* tokens = tables.tokens + first;
          cuda::scoreKeys(stream, pass.layout(), shape, tokens, some, queriesOf(first), pass.spec.queryWidth(),
                          partials.parts, scores, inCommon.of(first, some));
          if (withHost)
            host.attendSparsely(first, some, scores, workspace.cuts);
          else
            cuda::selectKeys(stream, shape, tokens, some, scores, workspace.cuts);
          cuda::attendKept(stream, pass.layout(), shape, tokens, some, scores, workspace.cuts, partials);
          merge(first, some, partials, withHost);
        });
  }
};

void attendTo(const CudaPass& pass, size_t layer, const BatchPart& part) {
  const DecoderSpec& spec = pass.spec;
  const size_t mark = pass.scratch.used(), hostMark = pass.host.used();
  const size_t tokens = pass.tokens(), elements = tokens * spec.queryWidth();
  const bool inRanges =
      pass.compute.precision == Precision::Default && cuda::hasPrefillAttention(rangeLayout(pass.layout()));
  const AttentionShape shape =
      attentionShape(spec, layer, pass.constants.slopes, pass.weights.layer(layer).sinks, pass.keepKeys);

  const bool uploads = inRanges && pass.hostAttends, halves = inRanges && isQuantised(pass.layout().type);
  const uint32_t pageTokens = pass.layout().pageTokens, limit = std::min(spec.contextTokens, kMostUploadedTokens),
                 limitPages = (limit + pageTokens - 1) / pageTokens;
  const AttendingRules rules{pageTokens, inRanges, halves ? limit : spec.contextTokens, uploads ? limit : 0,
                             pass.keepKeys < 1};
  UploadedPages uploaded{nullptr, uploads ? limitPages : 0};
  uploaded.data = pass.scratch.take<uint8_t>(uploaded.count * pass.pages.pageBytes);
  HalvedPages halved{nullptr, halves ? limitPages : 0, halves ? cachePageBytes(rangeLayout(pass.layout())) : 0};
  halved.data = pass.scratch.take<uint8_t>(halved.count * halved.pageBytes);

  AttendingRun* runMemory = pass.host.take<AttendingRun>(tokens);
  const AttendingRuns runs = pass.measuring ? AttendingRuns{} : listAttendingRuns(pass.batch, part, rules, runMemory);
  // The processor brings what is new to pages in the middle of which others are on disk.
  const bool storesHome = uploads && (pass.measuring || (pass.hostPinned && !pass.batch.spilled));
  const AttentionTables tables = uploadTables(pass, layer, runs, uploaded, halved, storesHome);
  float* copied =
      inRanges ? pass.scratch.take<float>(elements) : nullptr;  // queries, which prefillAttention() may not overwrite
  const Workspace workspace(pass);
  KeysInCommon inCommon(pass, shape);
  HostAttention host(pass, runs, rules, layer, part, workspace.scoreFloats(), !storesHome);

  if (!pass.measuring) {
    cudaStream_t stream = pass.link->stream();
    const TokenAttention attention{pass, shape, tables, workspace, inCommon, host};
    const auto forRuns = [&](Attending kind, auto body) {
      for (const AttendingRun* run = runs.begin(kind); run != runs.end(kind); run++) body(*run);
    };
    const bool isUploaded = runs.size(Attending::Uploaded) != 0,
               hosted =
                   runs.size(Attending::Split) + runs.size(Attending::SparselySplit) + runs.size(Attending::OnHost) !=
                       0 ||
                   (isUploaded && !storesHome);
    if ((hosted || isUploaded) && pass.batch.copies) {
      pass.link->finish();  // the device may be bringing something to what is copied
      host.beginPages();
    }
    if (storesHome) storeHome(pass, tables, runs);
    // What it waits for includes all that the stream has been given, so pages in host memory are as they should be.
    if (hosted) host.fetch();
    // From here on the device works, while the processor does its part.
    if (pass.batch.copies) beginPages(pass, layer, part);
    storeKeys(pass, layer, part, tables);
    if (tables.groupCount != 0) {
      cuda::check(
          cudaMemcpyAsync(copied, pass.activations.queries, elements * sizeof(float), cudaMemcpyDeviceToDevice, stream),
          "cudaMemcpyAsync");
      attendInRanges(pass, layer, shape, tables, uploaded, copied, pass.activations.queries);
    }
    forRuns(Attending::ByItself, [&](const AttendingRun& run) { attention.densely(run, false); });
    forRuns(Attending::Sparsely, [&](const AttendingRun& run) { attention.sparsely(run, false); });
    if (hosted) {
      host.attend();
      host.send();
    }
    forRuns(Attending::Split, [&](const AttendingRun& run) { attention.densely(run, true); });
    forRuns(Attending::SparselySplit, [&](const AttendingRun& run) { attention.sparsely(run, true); });
    forRuns(Attending::OnHost,
            [&](const AttendingRun& run) { attention.merge(run.firstToken, run.tokens, workspace.partials, true); });
  }
  pass.scratch.release(mark);
  pass.host.release(hostMark);
}

}  // namespace

void CudaPass::attend(size_t layer) const {
  if (!measuring) takeKeys(batch, activations, layer);
  if (fetched == nullptr) return attendTo(*this, layer, {0, static_cast<uint32_t>(batch.ranges.size())});
  for (size_t g = 0; g < fetched->groups.size(); g++) {
    if (g != 0) fetchNext(g);
    attendTo(*this, layer, {fetched->groups[g].firstRange, fetched->groups[g].endRange});
  }
}

}  // namespace spillway
