// Attention that a device leaves to the processor: to pages in host memory and on disk. Queries, and new keys and
// values of these pages, come down the link; outputs and what they are merged by go up. Queries and outputs cross in 16
// bits, unless products or the cache are of 32; keys and values as their pages have them, those of 8 and 4 bits in 32.
// In between the device has time for its own part.
#pragma once
#include <initializer_list>

#include "../../kernels/cuda/SparseAttention.h"
#include "../cpu/CpuPass.h"
#include "CudaPass.h"
#include "attendingRuns.h"

namespace spillway {

class HostAttention {
 public:
  // Takes what it needs of both scratches; nothing where the processor attends to no page. part: of the batch, for
  // whose ranges it attends. scoreFloats: the most that attendSparsely() takes at once; 0: never. storesUploaded:
  // whether it brings keys and values of Attending::Uploaded to their pages, which the device does not then.
  HostAttention(const CudaPass& pass, const AttendingRuns& runs, const AttendingRules& rules, size_t layer,
                const BatchPart& part, size_t scoreFloats, bool storesUploaded);

  // Those that begin as copies, before anybody reads or goes on with them; nothing may be on its way to any of them.
  void beginPages() const;
  void fetch();   // returns when everything has come down
  void attend();  // on the processor, after storing the new keys and values there
  void send();    // to the device
  // Of consecutive tokens that attend sparsely to keys on both sides, after attend(): with the scores of those on the
  // device, [tokens, heads, stride]; cuts: [tokens, heads]. Both in device memory. Everything is on its way there when
  // it returns.
  void attendSparsely(size_t first, size_t tokens, const cuda::KeyScores& scores, AttentionCut* cuts);

  // Of all tokens of the batch; set for those that the processor attended for.
  const cuda::AttentionPartial* partials() const { return partialsThere_; }
  const float* values() const { return valuesThere_; }

 private:
  template <typename Body>
  void forRuns(std::initializer_list<Attending> kinds, Body body) const;
  CpuPass passHere(Activations& activations) const;
  // Whether it attends to what a token's page holds.
  bool isHere(const BatchToken& token) const;
  AttentionRow rowOf(size_t token, uint32_t count) const;
  void attendRows(size_t rows) const;
  void sendTokens(size_t first, size_t tokens) const;
  void sendHalves(size_t firstQuery, size_t queries) const;

  const CudaPass& pass_;
  const AttendingRuns& runs_;
  const AttendingRules& rules_;
  size_t layer_;
  const BatchPart part_;
  bool storesUploaded_;
  const bool halves_;
  float *queries_ = nullptr, *keys_ = nullptr, *values_ = nullptr;  // [tokens, ...]; queries become outputs
  float* partials_ = nullptr;                                       // [tokens, heads, 2]
  float* scores_ = nullptr;                                         // of keys on the device
  AttentionCut* cuts_ = nullptr;                                    // [tokens, heads]
  cuda::AttentionPartial* partialsThere_ = nullptr;
  float* valuesThere_ = nullptr;
};

}  // namespace spillway
