// Which tokens of a batch are looked at together while they attend: those of sequences whose first pages are the same,
// and those of one sequence.
#pragma once
#include "CudaPass.h"

namespace spillway {

class KeysInCommon {
 public:
  // Takes what it needs of both scratches.
  KeysInCommon(const CudaPass& pass, const AttentionShape& shape);

  // Of these tokens, 32768 at most, which attend by themselves; has gone into the stream when it returns, for what is
  // launched before the next call.
  cuda::CommonKeys of(size_t first, size_t count);

 private:
  void list(size_t first, size_t count);
  void close(size_t firstMember);

  const CudaPass& pass_;
  const uint32_t window_, most_;
  // On the host, and after one another on the device: bundles, members, and of each token the keys that it has in
  // common with others.
  size_t tokens_;
  uint8_t *here_, *there_;
  cuda::AttentionBundle* bundles_;
  uint32_t *members_, *keys_;
  uint32_t bundleCount_ = 0, memberCount_ = 0, mostKeys_ = 0, common_ = 0;
};

}  // namespace spillway
