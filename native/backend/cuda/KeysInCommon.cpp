#include "KeysInCommon.h"

#include <algorithm>

#include "attendingRuns.h"

namespace spillway {

namespace {

uint32_t wholeUnits(uint64_t keys) { return static_cast<uint32_t>(keys / cuda::kCommonKeys * cuda::kCommonKeys); }

}  // namespace

KeysInCommon::KeysInCommon(const CudaPass& pass, const AttentionShape& shape)
    : pass_(pass),
      window_(shape.window),
      most_(cuda::mostTogether(pass.layout(), shape)),
      tokens_(most_ < 2 ? 0 : pass.tokens()) {
  const size_t bytes = tokens_ * (sizeof(cuda::AttentionBundle) + 2 * sizeof(uint32_t));
  here_ = pass.host.take<uint8_t>(bytes);
  there_ = pass.scratch.take<uint8_t>(bytes);
  keys_ = reinterpret_cast<uint32_t*>(here_);
  members_ = keys_ + tokens_;
  bundles_ = reinterpret_cast<cuda::AttentionBundle*>(members_ + tokens_);
}

cuda::CommonKeys KeysInCommon::of(size_t first, size_t count) {
  bundleCount_ = memberCount_ = mostKeys_ = 0;
  if (tokens_ != 0) list(first, count);
  if (bundleCount_ == 0) return {};
  const size_t used = reinterpret_cast<uint8_t*>(bundles_ + bundleCount_) - here_;
  pass_.link->upload(there_, here_, used);
  const auto* keys = reinterpret_cast<const uint32_t*>(there_);
  const auto* members = keys + tokens_;
  return {reinterpret_cast<const cuda::AttentionBundle*>(members + tokens_), members, keys, bundleCount_,
          cuda::attentionParts(mostKeys_ - 1)};
}

// Rows as they stand beside one another, each token with those before it for as long as these have no more in common
// without it.
void KeysInCommon::list(size_t first, size_t count) {
  const Batch& batch = pass_.batch;
  const uint32_t pageTokens = pass_.layout().pageTokens;
  std::fill_n(keys_, count, 0u);
  size_t firstMember = 0;  // of the bundle at hand
  uint64_t alike = 0;      // of a sequence's first positions, those whose pages the token before has, too
  for (size_t i = 0; i < batch.alike.size(); i++) {
    const BatchRange& range = batch.ranges[batch.alike[i]];
    alike = std::min(alike, uint64_t(batch.inCommon[i]) * pageTokens);
    for (size_t token = std::max<size_t>(first, range.firstToken);
         token < std::min<size_t>(first + count, size_t(range.firstToken) + range.tokens); token++) {
      const uint32_t own = window_ != 0 && batch.tokens[token].position >= window_
                               ? 0
                               : wholeUnits(keysOnDevice(batch, token, pageTokens));
      const uint32_t joint = std::min({own, common_, wholeUnits(alike)});
      const size_t members = memberCount_ - firstMember;
      if (members == 0 || members == most_ || joint == 0 || (members > 1 && joint < common_)) {
        close(firstMember);
        firstMember = memberCount_;
        common_ = own;
      } else {
        common_ = joint;
      }
      members_[memberCount_++] = static_cast<uint32_t>(token - first);
      alike = UINT64_MAX;
    }
  }
  close(firstMember);
}

// One token is no bundle.
void KeysInCommon::close(size_t firstMember) {
  const uint32_t members = memberCount_ - static_cast<uint32_t>(firstMember);
  if (members < 2) {
    memberCount_ = static_cast<uint32_t>(firstMember);
    return;
  }
  bundles_[bundleCount_++] = {static_cast<uint32_t>(firstMember), members, common_};
  for (uint32_t m = 0; m < members; m++) keys_[members_[firstMember + m]] = common_;
  mostKeys_ = std::max(mostKeys_, common_);
}

}  // namespace spillway
