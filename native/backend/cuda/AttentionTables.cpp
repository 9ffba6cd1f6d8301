#include "AttentionTables.h"

namespace spillway {

namespace {

uint32_t pagesUpTo(uint32_t position, uint32_t pageTokens) { return position / pageTokens + 1; }

// Entries of page tables that this batch's tokens reach.
size_t reachedPages(const CudaPass& pass) {
  if (pass.measuring) return pass.mostPages;
  size_t entries = 0;
  for (const BatchRange& range : pass.batch.ranges)
    entries += pagesUpTo(range.firstPosition + range.tokens - 1, pass.layout().pageTokens);
  return entries;
}

// Where each part of the upload begins, in bytes.
struct Upload {
  size_t pages, quantised, halves, homes;  // entries: of page tables; of those that become halves; of homes
  size_t tokensAt, rangeTokensAt, homeTokensAt, rangesAt, bytes;

  // A sequence may be in two ranges: of its tokens some on the device, some uploaded to it.
  Upload(const CudaPass& pass, const AttendingRuns& runs, const HalvedPages& halved, bool withHomes)
      : pages(reachedPages(pass)),
        quantised(std::min(2 * pages, 2 * pass.batch.ranges.size() * halved.count)),
        halves(quantised),
        homes(withHomes ? pages : 0) {
    const size_t tokens = pass.tokens(),
                 ranges = pass.measuring ? tokens : runs.size(Attending::InRange) + runs.size(Attending::Uploaded);
    tokensAt = (pages + quantised + halves + homes) * sizeof(uint8_t*);
    rangeTokensAt = tokensAt + tokens * sizeof(cuda::AttentionToken);
    homeTokensAt = rangeTokensAt + (halved.count == 0 ? 0 : tokens * sizeof(cuda::AttentionToken));
    rangesAt = homeTokensAt + (withHomes ? tokens * sizeof(cuda::AttentionToken) : 0);
    bytes = rangesAt + ranges * sizeof(cuda::AttentionRange);
  }
};

// The tables as they are made on the host, for addresses on the device.
class Writer {
 public:
  Writer(const CudaPass& pass, size_t layer, const UploadedPages& uploaded, const HalvedPages& halved,
         const Upload& upload, uint8_t* here, uint8_t* there)
      : pass_(pass),
        layer_(layer),
        uploaded_(uploaded),
        halved_(halved),
        pages_(reinterpret_cast<const uint8_t**>(here)),
        quantised_(pages_ + upload.pages),
        halves_(quantised_ + upload.quantised),
        homes_(halves_ + upload.halves),
        tokens_(reinterpret_cast<cuda::AttentionToken*>(here + upload.tokensAt)),
        rangeTokens_(reinterpret_cast<cuda::AttentionToken*>(here + upload.rangeTokensAt)),
        homeTokens_(reinterpret_cast<cuda::AttentionToken*>(here + upload.homeTokensAt)),
        ranges_(reinterpret_cast<cuda::AttentionRange*>(here + upload.rangesAt)),
        pagesThere_(reinterpret_cast<const uint8_t* const*>(there)),
        halvesThere_(pagesThere_ + upload.pages + upload.quantised),
        homesThere_(halvesThere_ + upload.halves) {}

  void writeTokens() {
    const uint32_t pageTokens = pass_.layout().pageTokens;
    size_t entry = 0;
    for (const BatchRange& range : pass_.batch.ranges) {
      const auto* table = pagesThere_ + entry;
      const uint32_t count = pagesUpTo(range.firstPosition + range.tokens - 1, pageTokens),
                     keys = firstHostKey(range, pageTokens);
      for (uint32_t p = 0; p < count; p++) pages_[entry++] = pageOf(range, p);
      for (uint32_t t = 0; t < range.tokens; t++) {
        const uint32_t position = range.firstPosition + t;
        tokens_[range.firstToken + t] = {table, position, position < keys ? 0 : keys};
      }
    }
  }

  void writeHomes(const AttendingRuns& runs) {
    const uint32_t pageTokens = pass_.layout().pageTokens;
    size_t entry = 0;
    for (const AttendingRun* run = runs.begin(Attending::Uploaded); run != runs.end(Attending::Uploaded); run++) {
      const BatchToken& token = pass_.batch.tokens[run->firstToken];
      const BatchRange& range = pass_.batch.ranges[token.range];
      const auto* table = homesThere_ + entry;
      for (uint32_t p = 0; p <= lastPosition(*run) / pageTokens; p++)
        homes_[entry++] =
            p < token.position / pageTokens
                ? nullptr
                : pass_.hostPages.page(layer_, static_cast<size_t>(pass_.batch.pages[range.firstPage + p]));
      for (uint32_t t = 0; t < run->tokens; t++) homeTokens_[run->firstToken + t] = {table, token.position + t};
    }
  }

  // Groups of ranges, to `groups`. Returns how many.
  size_t writeRanges(const AttendingRuns& runs, RangeGroup* groups) {
    uint32_t range = 0;
    size_t count = 0, used = 0;
    Halved before{};
    for (const Attending kind : {Attending::InRange, Attending::Uploaded}) {
      for (const AttendingRun* run = runs.begin(kind); run != runs.end(kind); run++, range++) {
        ranges_[range] = {run->firstToken, run->tokens};
        const Halved own = halvedOf(*run);
        uint32_t common = inCommon(before, own);
        const bool isUploaded = kind == Attending::Uploaded;
        if (count == 0 || isUploaded || used + own.pages - common > halved_.count) {
          groups[count++] = {range, 0, 0, static_cast<uint32_t>(entry_), 0, isUploaded ? run : nullptr};
          used = common = 0;
        }
        RangeGroup& group = groups[count - 1];
        group.ranges++;
        group.longest = std::max(group.longest, run->tokens);
        halve(*run, own, before, common, used);
        group.pages += own.pages;
        used += own.pages - common;
        before = own;
      }
    }
    return count;
  }

 private:
  uint32_t lastPosition(const AttendingRun& run) const {
    return pass_.batch.tokens[run.firstToken].position + run.tokens - 1;
  }

  // Null for those that are elsewhere.
  const uint8_t* pageOf(const BatchRange& range, uint32_t p) const {
    if (const uint8_t* here = pass_.pageHere(layer_, range.firstPage + p)) return here;
    const bool uploads = pass_.batch.pages[range.firstPage + p] >= 0 && p - range.devicePages < uploaded_.count;
    return uploads ? uploaded_.data + (p - range.devicePages) * pass_.pages.pageBytes : nullptr;
  }

  // A run's pages that become halves: those before the first one that it sees only have their places.
  struct Halved {
    const BatchRange* range;
    uint32_t firstPage, pages;
    size_t entry;  // of its first page
  };
  Halved halvedOf(const AttendingRun& run) const {
    const BatchRange& range = pass_.batch.ranges[pass_.batch.tokens[run.firstToken].range];
    if (halved_.count == 0) return {&range, 0, 0, entry_};
    const uint32_t pageTokens = pass_.layout().pageTokens;
    return {&range, firstSeenKey(pass_, run, pass_.spec.layerSpecs[layer_].window) / pageTokens,
            pagesUpTo(lastPosition(run), pageTokens), entry_};
  }
  // Of a run's pages, from the first, those that the one before it has made halves of, too.
  uint32_t inCommon(const Halved& before, const Halved& own) const {
    const std::vector<int32_t>& pages = pass_.batch.pages;
    const uint32_t most = std::min(before.pages, own.pages);
    uint32_t common = 0;
    while (common < most && pages[before.range->firstPage + common] == pages[own.range->firstPage + common] &&
           (common < own.firstPage || common >= before.firstPage))
      common++;
    return common;
  }
  // The run's pages become halves: those in common with the run before have its places, the others places of their own,
  // from `place` on.
  void halve(const AttendingRun& run, const Halved& own, const Halved& before, uint32_t common, size_t place) {
    const auto* table = halvesThere_ + entry_;
    for (uint32_t p = 0; p < own.pages; p++) {
      quantised_[entry_] = p < common || p < own.firstPage ? nullptr : pageOf(*own.range, p);
      halves_[entry_++] =
          p < common ? halves_[before.entry + p] : halved_.data + (place + p - common) * halved_.pageBytes;
    }
    if (own.pages == 0) return;
    for (uint32_t t = 0; t < run.tokens; t++)
      rangeTokens_[run.firstToken + t] = {table, pass_.batch.tokens[run.firstToken + t].position};
  }

  const CudaPass& pass_;
  const size_t layer_;
  const UploadedPages& uploaded_;
  const HalvedPages& halved_;
  const uint8_t** pages_;
  const uint8_t** quantised_;
  const uint8_t** halves_;
  const uint8_t** homes_;
  cuda::AttentionToken *tokens_, *rangeTokens_, *homeTokens_;
  cuda::AttentionRange* ranges_;
  const uint8_t* const* pagesThere_;
  const uint8_t* const* halvesThere_;
  const uint8_t* const* homesThere_;
  size_t entry_ = 0;  // of those that become halves
};

}  // namespace

uint32_t firstSeenKey(const CudaPass& pass, const AttendingRun& run, uint32_t window) {
  const uint32_t position = pass.batch.tokens[run.firstToken].position;
  return window != 0 && position >= window ? position - window + 1 : 0;
}

AttentionTables uploadTables(const CudaPass& pass, size_t layer, const AttendingRuns& runs,
                             const UploadedPages& uploaded, const HalvedPages& halved, bool homes) {
  const Upload upload(pass, runs, halved, homes);
  uint8_t* there = pass.scratch.take<uint8_t>(upload.bytes);
  RangeGroup* groups = pass.host.take<RangeGroup>(
      pass.measuring ? pass.tokens() : runs.size(Attending::InRange) + runs.size(Attending::Uploaded));
  const size_t hostMark = pass.host.used();
  uint8_t* here = pass.host.take<uint8_t>(upload.bytes);
  size_t groupCount = 0;
  if (!pass.measuring) {
    Writer writer(pass, layer, uploaded, halved, upload, here, there);
    writer.writeTokens();
    groupCount = writer.writeRanges(runs, groups);
    if (homes) writer.writeHomes(runs);
    pass.link->upload(there, here, upload.bytes);
  }
  pass.host.release(hostMark);
  const auto* pages = reinterpret_cast<const uint8_t* const*>(there);
  const auto* tokens = reinterpret_cast<const cuda::AttentionToken*>(there + upload.tokensAt);
  const auto* rangeTokens = reinterpret_cast<const cuda::AttentionToken*>(there + upload.rangeTokensAt);
  const auto* homeTokens = reinterpret_cast<const cuda::AttentionToken*>(there + upload.homeTokensAt);
  return {tokens,
          reinterpret_cast<const cuda::AttentionRange*>(there + upload.rangesAt),
          halved.count == 0 ? tokens : rangeTokens,
          homes ? homeTokens : nullptr,
          pages + upload.pages,
          reinterpret_cast<uint8_t* const*>(there) + upload.pages + upload.quantised,
          groups,
          groupCount};
}

}  // namespace spillway
