#include "HostAttention.h"

namespace spillway {

HostAttention::HostAttention(const GpuPass& pass, const AttendingRuns& runs, const AttendingRules& rules, size_t layer)
    : pass_(pass), runs_(runs), rules_(rules), layer_(layer) {
  if (pass.hostPages.pages() == 0) return;
  const DecoderSpec& spec = pass.spec;
  const size_t tokens = pass.tokens();
  queries_ = pass.host.take<float>(tokens * spec.queryWidth());
  keys_ = pass.host.take<float>(tokens * spec.keyWidth());
  values_ = pass.host.take<float>(tokens * spec.keyWidth());
  partials_ = pass.host.take<float>(tokens * spec.heads * 2);
  partialsThere_ = pass.scratch.take<cuda::AttentionPartial>(tokens * spec.heads);
  valuesThere_ = pass.scratch.take<float>(tokens * spec.queryWidth());
  if (!pass.measuring()) return;
  const size_t mark = pass.host.used();
  pass.host.take<uint8_t>(attentionScratchBytes(pass.layout(), spec.heads, pass.batch.ranges.size(), pass.compute.pool.threads(), pass.keepKeys < 1 ? spec.contextTokens : 0));
  pass.host.release(mark);
}

// body(first token, tokens) for everything that the processor attends for.
template <typename Body>
void HostAttention::forRuns(Body body) const {
  for (const Attending kind : {Attending::Split, Attending::OnHost}) {
    for (const AttendingRun* run = runs_.begin(kind); run != runs_.end(kind); run++) body(size_t(run->firstToken), size_t(run->tokens));
  }
}

void HostAttention::fetch() {
  const size_t queryWidth = pass_.spec.queryWidth(), keyWidth = pass_.spec.keyWidth();
  const Activations& activations = pass_.activations;
  const auto fetchKeys = [&](size_t first, size_t tokens) {
    pass_.link->download(keys_ + first * keyWidth, activations.keys + first * keyWidth, tokens * keyWidth * sizeof(float));
    pass_.link->download(values_ + first * keyWidth, activations.values + first * keyWidth, tokens * keyWidth * sizeof(float));
  };
  forRuns([&](size_t first, size_t tokens) {
    pass_.link->download(queries_ + first * queryWidth, activations.queries + first * queryWidth, tokens * queryWidth * sizeof(float));
    fetchKeys(first, tokens);
  });
  // The device attends for these, but their keys and values are to stay here.
  for (const AttendingRun* run = runs_.begin(Attending::Lent); run != runs_.end(Attending::Lent); run++) fetchKeys(run->firstToken, run->tokens);
}

void HostAttention::attend() {
  const DecoderSpec& spec = pass_.spec;
  const Batch& batch = pass_.batch;
  const size_t width = spec.queryWidth();
  Activations activations(spec, 0, true);
  activations.queries = queries_;
  activations.keys = keys_;
  activations.values = values_;
  activations.keysSerial = batch.serial;
  activations.keysLayer = layer_;
  const Pass pass{spec, pass_.weights, pass_.hostPages, pass_.compute, batch, activations, pass_.host, false, pass_.keepKeys, nullptr, pass_.staged, pass_.stagedBytes};
  placePages(pass, layer_);
  size_t rows = 0;
  for (const BatchRange& range : batch.ranges) {
    const uint32_t firstKey = firstHostKey(range, pass_.layout().pageTokens), first = firstHostQuery(batch, range, rules_), end = range.firstPosition + range.tokens;
    if (first >= end) continue;
    const size_t token = range.firstToken + (first - range.firstPosition);
    AttentionRow& row = batch.attentionRows[rows++];
    row = {queries_ + token * width, queries_ + token * width, first, end - first, batch.pagePointers.data() + range.firstPage, range.row->promptTokens};
    row.firstKey = firstKey;
    row.partials = partials_ + token * spec.heads * 2;
  }
  if (rows == 0) return;
  const float* slopes = spec.position == PositionKind::Alibi ? spec.alibiSlopes.data() : nullptr;
  const AttentionShape shape{spec.heads, spec.attentionScale, spec.layerSpecs[layer_].window, slopes, spec.alibiRoundToBfloat16, pass_.keepKeys};
  spillway::attend(pass_.compute, pass_.layout(), shape, batch.attentionRows.data(), rows, width, width, pass_.host);
}

void HostAttention::send() {
  const size_t heads = pass_.spec.heads, width = pass_.spec.queryWidth();
  forRuns([&](size_t first, size_t tokens) {
    pass_.link->upload(partialsThere_ + first * heads, partials_ + first * heads * 2, tokens * heads * sizeof(cuda::AttentionPartial));
    pass_.link->upload(valuesThere_ + first * width, queries_ + first * width, tokens * width * sizeof(float));
  });
}

}  // namespace spillway
