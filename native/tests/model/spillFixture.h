// Passes whose rows have pages on disk, hidden states that go through stores, layers that stream: all of it at once
// where a test wants that.
#pragma once
#include <algorithm>
#include <cstring>
#include <optional>

#include "../system/diskFixture.h"
#include "storeFixture.h"

namespace spillway::fixture {

// A range with a tail; pages below 0 are on disk.
struct SpilledRange {
  Range range;
  int32_t tail = -1;
  // Where the processor and a device share attention: the pages that the device attends to, from the first.
  int32_t comes = 0;
};

inline SpillOptions spillOptions(const std::string& folder, uint32_t pages = 64, uint32_t buffers = 2,
                                 uint32_t bufferPages = 64, uint64_t hiddenBytes = 0) {
  return {folder, pages, buffers, bufferPages, hiddenBytes};
}

// Submits passes as an engine would: loads run ahead, stores after, buffers go round.
class SpillingRuntime {
 public:
  explicit SpillingRuntime(const RuntimeOptions& options);
  ~SpillingRuntime();

  uint32_t batch(const std::vector<SpilledRange>& ranges);
  // The head's event; every task's event is appended to `events`.
  EventId submit(uint32_t batch, const std::vector<SpilledRange>& ranges, std::vector<EventId>& events);
  // One pass; its head, or nothing and the first failure in `failure`.
  std::unique_ptr<HeadResult> pass(const std::vector<SpilledRange>& ranges);

  uint32_t layers, pageTokens;
  bool fetches;  // pages that are not on the device come to it
  bool shares;   // but for the last ones
  uint32_t cacheBuffers;
  int32_t firstDevicePage;
  uint32_t weightBuffers;
  TinyRuntime tiny;
  std::optional<Completion> failure;

 private:
  // Whether a layer loads and stores anything, told from the text of the interface and not from the code under test.
  std::pair<bool, bool> moves(const std::vector<SpilledRange>& ranges, uint32_t layer) const;

  std::vector<uint32_t> windows_;
  std::vector<std::vector<EventId>> lastStore_, cacheUses_, weightUses_;
  uint32_t nextWeights_ = 0, nextCache_ = 0;
};

// A row scored from its first token to its last, in company; its place in memory and on disk.
struct SpilledRow {
  std::vector<int32_t> text;
  std::vector<int32_t> pages;
  int32_t tail = -1;
  uint32_t handle = 0;
  uint32_t done = 0;
  std::vector<float> scores;
};

std::vector<float> scoreInMemory(RuntimeOptions options, const std::vector<int32_t>& text,
                                 uint32_t promptTokens = kAllTokens);

// Rows of different lengths; each page at random in memory or on disk, a tail of its own or, where that may be, the
// row's last page.
std::vector<SpilledRow> randomRows(const RuntimeOptions& options, size_t count, std::mt19937& random);

// Scores all rows, each in random chunks, some of them at a time.
void scoreSpilling(SpillingRuntime& runtime, std::vector<SpilledRow>& rows, std::mt19937& random,
                   uint32_t promptTokens = kAllTokens);

}  // namespace spillway::fixture
