// The sequences and token ranges that advance together in one pass: shared by the tasks of all layers.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "../kernels/cpu/Attention.h"
#include "FetchedPages.h"
#include "Sequence.h"

namespace spillway {

enum class HeadMode : uint8_t {
  None,    // a chunk in mid-prompt
  Sample,  // from the logits of the range's last token, where that is the sequence's last known one; appended to the
           // sequence. After it may be those that a grammar forces: then nothing is sampled
  Score,   // log-probability of the sequence's own next token after each token of the range that has one
};

// Where tokens stand of a page that is not a sequence's for good, in one group of layers (CacheGroups.h).
struct GroupPages {
  int32_t tail = -1;      // page of the pool that takes the tokens of a page on disk until it is complete; -1: none
  int32_t copyFrom = -1;  // page whose tokens that of firstPosition begins with; -1: none
  int32_t copyTo = -1;    // that page: of the sequence's table, or the tail
};

// In the first group of layers, what GroupPages says.
struct BatchRange : GroupPages {
  std::shared_ptr<Sequence> sequence;
  uint32_t firstPosition;
  uint32_t tokens;
  HeadMode mode;
  uint32_t firstToken;   // of the range within the batch's activations
  uint32_t firstPage;    // index into `pages`: of the first group's table
  uint32_t pageCount;    // of each group's table; one stands after the other
  bool spilled;          // some of the sequence's pages are on disk
  uint32_t devicePages;  // that a device attends to, the first ones of the sequence's table: those that are there for
                         // good, and those that come to it

  uint32_t table(uint32_t group) const { return firstPage + group * pageCount; }
};

// Whether a token is sampled after the range: it ends with the sequence's last known one.
inline bool samples(const BatchRange& range) {
  return range.mode == HeadMode::Sample && size_t(range.firstPosition) + range.tokens == range.sequence->tokens.size();
}

// In place of a page that was given back: no token of the range sees it, nor of a later one.
constexpr int32_t kGivenBack = INT32_MIN;

// Page tables name pages of the pool from 0 up, and pages on disk from -1 down.
inline bool isOnDisk(int32_t page) { return page < 0 && page != kGivenBack; }
inline uint32_t diskPage(int32_t page) { return static_cast<uint32_t>(-1 - page); }

struct BatchToken {
  uint32_t range;
  uint32_t position;
};

struct Batch {
  uint64_t serial = 0;  // no two batches of a process share it
  std::vector<BatchRange> ranges;
  std::vector<int32_t> pages;         // the tables of each range, group by group
  uint32_t groups = 1;                // of layers (CacheGroups.h)
  std::vector<GroupPages> further;    // of each range, those of the groups after the first
  bool spilled = false;               // some of the pages are on disk
  bool copies = false;                // some ranges begin in a page that another sequence has begun
  std::vector<BatchToken> tokens;     // of all ranges, in order
  std::vector<uint32_t> alike;        // all ranges, those beside one another whose first pages are the same
  std::vector<uint32_t> inCommon;     // of each of `alike`: how many of its first pages the one before has, too (in the
                                      // first group)
  std::vector<FetchedPages> fetched;  // for each window that layers have, where pages come to a device that attends

  // Filled in anew for each layer by the task that attends, so that it allocates nothing.
  mutable std::vector<const uint8_t*> pagePointers;
  mutable std::vector<AttentionRow> attentionRows;

  std::atomic<uint32_t> tasks{0};  // under way

  const GroupPages& of(size_t range, uint32_t group) const {
    return group == 0 ? ranges[range] : further[range * (groups - 1) + group - 1];
  }

  // Null where pages are attended to where they live.
  const FetchedPages* fetchedIn(uint32_t window) const {
    for (const FetchedPages& each : fetched) {
      if (each.window == window) return &each;
    }
    return nullptr;
  }
};

// While one of these exists, the batch's sequences cannot be freed.
class BatchUse {
 public:
  explicit BatchUse(std::shared_ptr<Batch> batch) : batch_(std::move(batch)) {
    if (batch_->tasks.fetch_add(1) == 0) {
      for (const BatchRange& range : batch_->ranges) range.sequence->busyBatches.fetch_add(1);
    }
  }
  ~BatchUse() {
    if (batch_->tasks.fetch_sub(1) == 1) {
      for (const BatchRange& range : batch_->ranges) range.sequence->busyBatches.fetch_sub(1);
    }
  }
  BatchUse(const BatchUse&) = delete;
  BatchUse& operator=(const BatchUse&) = delete;
  const Batch& batch() const { return *batch_; }

 private:
  std::shared_ptr<Batch> batch_;
};

struct Limits {
  uint32_t tokensPerSquare = 0;
  uint32_t rowsPerSquare = 0;
};

}  // namespace spillway
