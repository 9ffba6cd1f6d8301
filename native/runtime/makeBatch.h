// Batches of what JavaScript hands over: checked, so that tasks can compute them safely.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "../model/Batch.h"
#include "HandleTable.h"

namespace spillway {

// What a batch is checked against.
struct BatchBounds {
  Limits limits;
  uint32_t pages;  // of the cache, a layer, in memory and on a device
  uint32_t pageTokens;
  uint32_t contextTokens;           // positions that the model has
  uint32_t diskPages = 0;           // of the cache, a layer
  uint32_t bufferPages = 0;         // that a staging buffer has places for
  uint32_t widestWindow = 0;        // of all layers; 0: none
  uint32_t devicePages = 0;         // of `pages`, those on a device: the last ones
  uint64_t mostPages = UINT64_MAX;  // of all sequences, up to the last token of each
  // Where pages come to a device that attends: what one of its buffers has places for, and the windows of all layers,
  // each once (0: none). 0: pages stay where they are.
  uint32_t cacheBufferPages = 0;
  std::vector<uint32_t> windows = {};
  bool sharesAttention = false;  // GpuOptions
  // Of each group of layers the widest window (0: none), where pages may be given back. Empty: one group, and none is.
  std::vector<uint32_t> groupWindows = {};
  uint32_t evictionSinks = 0, evictionWindow = 0;  // of those without one (DecoderSpec)

  uint32_t groups() const { return std::max<size_t>(1, groupWindows.size()); }
  bool pagesElsewhere = false;  // a batch may have none here, where other engines attend to its rows
  bool wholeRows = false;       // of an encoder: all of a sequence's tokens at once, which are then pooled
};

// Seven integers a sequence (src/bindings/Addon.ts, BATCH_STRIDE); after them the tails of the further groups.
constexpr size_t kBatchStride = 7;
// Two integers a copy: index of the range, page that is copied; after them those of the further groups.
constexpr size_t kCopyStride = 2;

// Throws Error(InvalidArgument), naming the sequence and the number at fault, for whatever the tasks could not compute
// safely: unknown handles, the same sequence twice, empty ranges, ranges past the sequence's capacity, pages that do
// not exist or do not reach far enough, a page that is written for one sequence and listed for another, pages on disk
// without a tail, pages of a device after others, more sequences, tokens, staged or fetched pages than the limits.
// `copies` (a prompt that goes on where another sequence's prompt parts from it, in the middle of a page): before the
// range's first position is written, its page becomes a copy of another one, both in memory or both on a device. Of a
// page on disk what is begun is the tail. `comes`, one integer a sequence, where the processor and a device share
// attention: how many of its pages, from the first, the device attends to. Empty: all of them.
// Where layers are in several groups, a sequence's table is one a group, of as many pages, one after the other; pages
// wholly outside of the group's window may be kGivenBack.
// `pages` may be empty where other engines attend to rows (`pagesElsewhere`): then nothing attends to the batch here.
std::shared_ptr<Batch> makeBatch(const std::vector<int32_t>& rows, const std::vector<int32_t>& pages,
                                 const std::vector<int32_t>& copies, const std::vector<int32_t>& comes,
                                 const BatchBounds& bounds, const HandleTable<Sequence>& table);

}  // namespace spillway
