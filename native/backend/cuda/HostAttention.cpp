#include "HostAttention.h"

#include <algorithm>

#include "../../model/attentionShape.h"

namespace spillway {

HostAttention::HostAttention(const CudaPass& pass, const AttendingRuns& runs, const AttendingRules& rules, size_t layer,
                             const BatchPart& part, size_t scoreFloats, bool storesUploaded)
    : pass_(pass), runs_(runs), rules_(rules), layer_(layer), part_(part), storesUploaded_(storesUploaded) {
  if (!pass.hostAttends) return;
  const DecoderSpec& spec = pass.spec;
  const size_t tokens = pass.tokens();
  queries_ = pass.host.take<float>(tokens * spec.queryWidth());
  keys_ = pass.host.take<float>(tokens * spec.keyWidth());
  values_ = pass.host.take<float>(tokens * spec.keyWidth());
  partials_ = pass.host.take<float>(tokens * spec.heads * 2);
  scores_ = pass.host.take<float>(scoreFloats);
  cuts_ = pass.host.take<AttentionCut>(scoreFloats == 0 ? 0 : tokens * spec.heads);
  partialsThere_ = pass.scratch.take<cuda::AttentionPartial>(tokens * spec.heads);
  valuesThere_ = pass.scratch.take<float>(tokens * spec.queryWidth());
  if (!pass.measuring) return;
  const size_t mark = pass.host.used();
  pass.host.take<uint8_t>(attentionScratchBytes(pass.layout(), spec.heads, pass.batch.ranges.size(),
                                                pass.compute.pool.threads(),
                                                pass.keepKeys < 1 ? spec.contextTokens : 0));
  pass.host.release(mark);
}

// body(first token, tokens) for all that attend in one of these ways.
template <typename Body>
void HostAttention::forRuns(std::initializer_list<Attending> kinds, Body body) const {
  for (const Attending kind : kinds) {
    for (const AttendingRun* run = runs_.begin(kind); run != runs_.end(kind); run++)
      body(size_t(run->firstToken), size_t(run->tokens));
  }
}

void HostAttention::fetch() {
  const size_t queryWidth = pass_.spec.queryWidth(), keyWidth = pass_.spec.keyWidth();
  const Activations& activations = pass_.activations;
  const auto fetchKeys = [&](size_t first, size_t tokens) {
    pass_.link->download(keys_ + first * keyWidth, activations.keys + first * keyWidth,
                         tokens * keyWidth * sizeof(float));
    pass_.link->download(values_ + first * keyWidth, activations.values + first * keyWidth,
                         tokens * keyWidth * sizeof(float));
  };
  forRuns({Attending::Split, Attending::SparselySplit, Attending::OnHost}, [&](size_t first, size_t tokens) {
    pass_.link->download(queries_ + first * queryWidth, activations.queries + first * queryWidth,
                         tokens * queryWidth * sizeof(float));
    fetchKeys(first, tokens);
  });
  // The device attends for these, but their keys and values are to stay here.
  if (storesUploaded_) forRuns({Attending::Uploaded}, fetchKeys);
}

// `count` tokens of one range, from `token` on.
AttentionRow HostAttention::rowOf(size_t token, uint32_t count) const {
  const Batch& batch = pass_.batch;
  const BatchRange& range = batch.ranges[batch.tokens[token].range];
  float* queries = queries_ + token * pass_.spec.queryWidth();
  AttentionRow row{queries,
                   queries,
                   batch.tokens[token].position,
                   count,
                   batch.pagePointers.data() + range.firstPage,
                   range.sequence->promptTokens};
  row.firstKey = firstHostKey(range, pass_.layout().pageTokens);
  row.partials = partials_ + token * pass_.spec.heads * 2;
  return row;
}

void HostAttention::attendRows(size_t rows) const {
  const DecoderSpec& spec = pass_.spec;
  // Sinks join the sums where partial results are merged, on the device.
  const AttentionShape shape = attentionShape(spec, layer_, nullptr, pass_.keepKeys);
  spillway::attend(pass_.compute, pass_.layout(), shape, pass_.batch.attentionRows.data(), rows, spec.queryWidth(),
                   spec.queryWidth(), pass_.host);
}

// The same pass as the processor knows it.
CpuPass HostAttention::passHere(Activations& activations) const {
  CpuPass pass(pass_.spec, pass_.weights, pass_.hostPages, pass_.compute, pass_.batch, activations, pass_.host, false,
               pass_.keepKeys);
  pass.staged = pass_.staged;
  pass.stagedBytes = pass_.stagedBytes;
  return pass;
}

bool HostAttention::isHere(const BatchToken& token) const {
  return token.range >= part_.firstRange && token.range < part_.endRange &&
         token.position >= firstHostKey(pass_.batch.ranges[token.range], pass_.layout().pageTokens);
}

void HostAttention::beginPages() const {
  Activations none(pass_.spec, 0, true);
  copyPages(passHere(none), layer_, [this](const BatchToken& token) { return isHere(token); });
}

void HostAttention::attend() {
  const Batch& batch = pass_.batch;
  Activations activations(pass_.spec, 0, true);
  activations.queries = queries_;
  activations.keys = keys_;
  activations.values = values_;
  activations.keysSerial = batch.serial;
  activations.keysLayer = layer_;
  placePages(passHere(activations), layer_, [this](const BatchToken& token) {
    return isHere(token) &&
           (storesUploaded_ || token.position >= firstHostQuery(pass_.batch, pass_.batch.ranges[token.range], rules_));
  });
  size_t rows = 0;
  for (uint32_t r = part_.firstRange; r < part_.endRange; r++) {
    const BatchRange& range = batch.ranges[r];
    const uint32_t first = firstHostQuery(batch, range, rules_);
    uint32_t end = range.firstPosition + range.tokens;
    if (rules_.sparse && range.devicePages != 0)
      end = std::min(end, range.sequence->promptTokens);  // the others need to know of keys on the device
    if (first < end) batch.attentionRows[rows++] = rowOf(range.firstToken + (first - range.firstPosition), end - first);
  }
  if (rows != 0) attendRows(rows);
}

void HostAttention::sendTokens(size_t first, size_t tokens) const {
  const size_t heads = pass_.spec.heads, width = pass_.spec.queryWidth();
  pass_.link->upload(partialsThere_ + first * heads, partials_ + first * heads * 2,
                     tokens * heads * sizeof(cuda::AttentionPartial));
  pass_.link->upload(valuesThere_ + first * width, queries_ + first * width, tokens * width * sizeof(float));
}

void HostAttention::send() {
  forRuns({Attending::Split, Attending::OnHost}, [&](size_t first, size_t tokens) { sendTokens(first, tokens); });
}

void HostAttention::attendSparsely(size_t first, size_t tokens, const cuda::KeyScores& scores, AttentionCut* cuts) {
  const Batch& batch = pass_.batch;
  const size_t heads = pass_.spec.heads, end = first + tokens;
  pass_.link->download(scores_, scores.scores, tokens * heads * scores.stride * sizeof(float));
  size_t rows = 0;
  for (size_t token = first, next; token < end; token = next) {
    for (next = token + 1; next < end && batch.tokens[next].range == batch.tokens[token].range;) next++;
    AttentionRow& row = batch.attentionRows[rows++];
    row = rowOf(token, static_cast<uint32_t>(next - token));
    row.otherScores = scores_ + (token - first) * heads * scores.stride;
    row.otherStride = scores.stride;
    row.cuts = cuts_ + (token - first) * heads;
  }
  attendRows(rows);
  sendTokens(first, tokens);
  pass_.link->upload(cuts, cuts_, tokens * heads * sizeof(AttentionCut));
}

}  // namespace spillway
