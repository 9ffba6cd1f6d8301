#include "HostAttention.h"

#include <algorithm>
#include <vector>

#include "../../kernels/cuda/linkHalves.h"
#include "../../model/attentionShape.h"

namespace spillway {

namespace {

// What one thread makes of halves or floats at a time.
constexpr size_t kChunk = 16384;

template <typename Body>
void inChunks(ThreadPool& pool, size_t count, size_t chunk, Body body) {
  pool.parallelFor((count + chunk - 1) / chunk,
                   [&](size_t i, unsigned) { body(i * chunk, std::min(chunk, count - i * chunk)); });
}

// Floats of the device that come down, in 16 bits or as they are.
struct Floats {
  float* here;
  const float* there;
  size_t count;
  bool halves;
};

// Returns when all are here.
void bringDown(const CudaPass& pass, const std::vector<Floats>& all) {
  Link& link = *pass.link;
  std::vector<Floats> pieces;
  for (const Floats& each : all) {
    const size_t most = link.pieceBytes() / (each.halves ? sizeof(uint16_t) : sizeof(float));
    for (size_t at = 0; at < each.count; at += most)
      pieces.push_back({each.here + at, each.there + at, std::min(most, each.count - at), each.halves});
  }
  link.receive(
      pieces.size(),
      [&](size_t i, uint8_t* piece) {
        const Floats& each = pieces[i];
        if (each.halves)
          cuda::sendHalves(link.stream(), each.there, each.count, reinterpret_cast<uint16_t*>(piece));
        else
          cuda::check(
              cudaMemcpyAsync(piece, each.there, each.count * sizeof(float), cudaMemcpyDeviceToHost, link.stream()),
              "cudaMemcpyAsync");
      },
      [&](size_t i, const uint8_t* piece) {
        const Floats& each = pieces[i];
        inChunks(pass.compute.pool, each.count, kChunk, [&](size_t first, size_t count) {
          if (each.halves)
            pass.compute.kernels.rows.fromHalf(reinterpret_cast<const uint16_t*>(piece) + first, each.here + first,
                                               count);
          else
            std::copy_n(reinterpret_cast<const float*>(piece) + first, count, each.here + first);
        });
      });
}

}  // namespace

HostAttention::HostAttention(const CudaPass& pass, const AttendingRuns& runs, const AttendingRules& rules, size_t layer,
                             const BatchPart& part, size_t scoreFloats, bool storesUploaded)
    : pass_(pass),
      runs_(runs),
      rules_(rules),
      layer_(layer),
      part_(part),
      storesUploaded_(storesUploaded),
      halves_(pass.compute.precision == Precision::Default && pass.layout().type != CacheType::F32) {
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
  std::vector<Floats> floats;
  // Pages are the same bytes whoever stores them: codes of 8 and 4 bits are made of floats.
  const bool halves = halves_ && !isQuantised(pass_.layout().type);
  const auto fetchKeys = [&](size_t first, size_t tokens) {
    floats.push_back({keys_ + first * keyWidth, activations.keys + first * keyWidth, tokens * keyWidth, halves});
    floats.push_back({values_ + first * keyWidth, activations.values + first * keyWidth, tokens * keyWidth, halves});
  };
  forRuns({Attending::Split, Attending::SparselySplit, Attending::OnHost}, [&](size_t first, size_t tokens) {
    floats.push_back(
        {queries_ + first * queryWidth, activations.queries + first * queryWidth, tokens * queryWidth, halves_});
    fetchKeys(first, tokens);
  });
  // The device attends for these, but their keys and values are to stay here.
  if (storesUploaded_) forRuns({Attending::Uploaded}, fetchKeys);
  bringDown(pass_, floats);
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
  if (halves_)
    sendHalves(first * heads, tokens * heads);
  else
    pass_.link->upload(valuesThere_ + first * width, queries_ + first * width, tokens * width * sizeof(float));
}

// Of consecutive queries (tokens' heads), whose partials are on their way: outputs as means, see receiveOutputs().
void HostAttention::sendHalves(size_t firstQuery, size_t queries) const {
  Link& link = *pass_.link;
  const RowKernels& kernels = pass_.compute.kernels.rows;
  const size_t headDim = pass_.spec.headDim, most = link.pieceBytes() / (headDim * sizeof(uint16_t)),
               chunk = std::max<size_t>(1, kChunk / headDim), end = firstQuery + queries;
  for (size_t first = firstQuery; first < end; first += most) {
    const size_t some = std::min(most, end - first);
    auto* piece = reinterpret_cast<uint16_t*>(link.nextPiece());
    inChunks(pass_.compute.pool, some, chunk, [&](size_t at, size_t count) {
      for (size_t q = at; q < at + count; q++) {
        const float sum = partials_[2 * (first + q) + 1];
        float* outputs = queries_ + (first + q) * headDim;
        if (sum > 0) kernels.scale(1 / (cuda::kOutputUnit * sum), outputs, headDim);
        kernels.toHalf(outputs, piece + q * headDim, headDim);
      }
    });
    cuda::receiveOutputs(link.stream(), piece, partialsThere_ + first, some, pass_.spec.headDim,
                         valuesThere_ + first * headDim);
    link.passOn();
  }
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
