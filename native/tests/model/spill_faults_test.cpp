// A disk that fails under the pages and hidden states on it: a coded error, nothing that hangs, nothing left.
#include <iterator>

#include "../tries.h"
#include "spillFixture.h"

namespace spillway {
namespace {

using namespace fixture;
using disktest::ScriptedFaults;

class SpillFaults : public testing::Test {
 protected:
  SpillFaults() : model_(smallSpec(), false) {}
  RuntimeOptions options(DiskFaults* faults) const {
    RuntimeOptions options = model_.options();
    options.spill = spillOptions(folder_.path());
    options.diskFaults = faults;
    return options;
  }
  // A row of 90 tokens, all of it on disk, in chunks of 13: the scores, or what failed first.
  Outcome score(DiskFaults* faults) const {
    SpillingRuntime runtime(options(faults));
    SpilledRow row;
    row.text = text_;
    row.pages = {-6, -4, -5, -1, -3, -2};
    row.tail = 5;
    row.handle = runtime.tiny.runtime.createSequence(sequenceOptions(row.text, 90));
    Outcome outcome;
    for (uint32_t first = 0; first < 90 && !runtime.failure; first += 13) {
      const auto head =
          runtime.pass({{{row.handle, first, std::min(13u, 90 - first), HeadMode::Score, row.pages}, row.tail}});
      if (head != nullptr) outcome.scores.insert(outcome.scores.end(), head->scores.begin(), head->scores.end());
    }
    outcome.failure = std::move(runtime.failure);
    return outcome;
  }
  disktest::Folder folder_;
  TinyModel model_;
  std::vector<int32_t> text_ = randomTokens(90, 67, 3);
};

TEST_F(SpillFaults, EveryReadAndWriteMayFail) {
  const std::vector<float> expected = scoreInMemory(model_.options(), text_);
  struct Kind {
    DiskOperation operation;
    int64_t fault;
    const char* words;
  };
  const Kind kinds[] = {{DiskOperation::Read, -EIO, "Input/output error"},
                        {DiskOperation::Read, DiskFaults::kEnd, "found"},
                        {DiskOperation::Write, -EIO, "Input/output error"},
                        {DiskOperation::Write, -ENOSPC, "No space left on device"}};
  for (size_t k = 0; k < std::size(kinds); k++) {
    const Kind& kind = kinds[k];
    // By day each read and each write with one of its two faults.
    int points = tries(int(k % 2), 0);
    for (bool struck = true; struck; points += tries(2, 1)) {
      std::atomic<bool> did{false};
      ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t, int nth) -> int64_t {
        if (operation != kind.operation || nth != points) return 0;
        did = true;
        return kind.fault;
      });
      Outcome outcome = score(&faults);
      struck = did;
      if (!struck) {
        ASSERT_FALSE(outcome.failure);
        ASSERT_EQ(std::memcmp(outcome.scores.data(), expected.data(), expected.size() * sizeof(float)), 0);
        continue;
      }
      ASSERT_TRUE(outcome.failure) << points;
      EXPECT_EQ(outcome.failure->code, ErrorCode::File);
      ASSERT_NE(outcome.failure->fileError, nullptr);
      EXPECT_EQ(outcome.failure->fileError->field.find("layer "), 0u) << outcome.failure->message;
      EXPECT_NE(outcome.failure->fileError->field.find(" cache at offset "), std::string::npos)
          << outcome.failure->message;
      EXPECT_NE(outcome.failure->message.find(kind.words), std::string::npos) << outcome.failure->message;
      // What was done before is as it should be.
      EXPECT_EQ(std::memcmp(outcome.scores.data(), expected.data(), outcome.scores.size() * sizeof(float)), 0);
    }
    EXPECT_GT(points, 8);
    EXPECT_EQ(folder_.names(), std::vector<std::string>{});
  }
}

TEST_F(SpillFaults, ShortTransfersAndInterruptionsDoNotShow) {
  std::atomic<unsigned> count{0};
  ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t bytes, int) -> int64_t {
    if (operation != DiskOperation::Read && operation != DiskOperation::Write) return 0;
    switch (count.fetch_add(1) % 4) {
      case 0: return -EINTR;
      case 1: return int64_t(1 + bytes / 3);
      case 2: return -EAGAIN;
      default: return 0;
    }
  });
  const Outcome outcome = score(&faults);
  const std::vector<float> expected = scoreInMemory(model_.options(), text_);
  ASSERT_FALSE(outcome.failure) << outcome.failure->message;
  EXPECT_EQ(std::memcmp(outcome.scores.data(), expected.data(), expected.size() * sizeof(float)), 0);
}

TEST_F(SpillFaults, OpeningFailsWithReasons) {
  for (const auto& [operation, error, words] :
       {std::tuple{DiskOperation::Allocate, ENOSPC,
                   "reservation: found No space left on device, expected 524288 bytes of free space"},
        std::tuple{DiskOperation::Open, EACCES,
                   "file: found Permission denied, expected a file that can be created"}}) {
    ScriptedFaults faults([op = operation, code = error](DiskOperation operation, uint64_t, size_t, int) -> int64_t {
      return operation == op ? -code : 0;
    });
    try {
      Runtime runtime(options(&faults), [] {});
      ADD_FAILURE() << words;
    } catch (const FileError& found) {
      EXPECT_NE(std::string(found.what()).find(words), std::string::npos) << found.what();
      EXPECT_EQ(found.file.find(folder_.path()), 0u);
    }
    EXPECT_EQ(folder_.names(), std::vector<std::string>{});
  }
  RuntimeOptions elsewhere = options(nullptr);
  elsewhere.spill->folder = folder_.write("file", {1}) + "/below";
  EXPECT_THROW(Runtime(std::move(elsewhere), [] {}), FileError);
}

// What depends on a failed store fails too, and says so; other rows go on.
TEST_F(SpillFaults, AFailedStoreStopsItsRowAlone) {
  ScriptedFaults faults([](DiskOperation operation, uint64_t, size_t, int nth) -> int64_t {
    return operation == DiskOperation::Write && nth == 0 ? -EIO : 0;
  });
  SpillingRuntime runtime(options(&faults));
  Runtime& native = runtime.tiny.runtime;
  const uint32_t row = native.createSequence(sequenceOptions(text_, 90));
  const std::vector<int32_t> pages = {-1, -2, -3, -4, -5, -6};
  EXPECT_NE(runtime.pass({{{row, 0, 20, HeadMode::Score, pages}, 0}}), nullptr)
      << "the pass itself does not need what it stored";
  ASSERT_TRUE(runtime.failure);
  EXPECT_EQ(runtime.failure->code, ErrorCode::File);
  runtime.failure.reset();
  EXPECT_EQ(runtime.pass({{{row, 20, 20, HeadMode::Score, pages}, 0}}), nullptr);
  ASSERT_TRUE(runtime.failure);
  EXPECT_EQ(runtime.failure->code, ErrorCode::Dependency);
  // Without that dependency the page itself is known to hold nothing.
  const uint32_t batch = runtime.batch({{{row, 20, 1, HeadMode::None, pages}, 0}});
  const Completion loaded = runtime.tiny.await(native.submitLoadCache(0, batch, 0, {}));
  EXPECT_EQ(loaded.code, ErrorCode::InvalidArgument);
  EXPECT_NE(loaded.message.find("found a page that was not written"), std::string::npos) << loaded.message;
  const auto head =
      runtime.tiny.pass({{native.createSequence(sequenceOptions(text_, 90)), 0, 40, HeadMode::Score, {10, 11, 12}}});
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->scores.size(), 40u);
}

TEST_F(SpillFaults, HiddenStoresFailWithTheirName) {
  for (const DiskOperation broken : {DiskOperation::Read, DiskOperation::Write}) {
    std::atomic<bool> failing{true};
    ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t, int) -> int64_t {
      return failing && operation == broken ? -EIO : 0;
    });
    RuntimeOptions with = options(&faults);
    with.spill = spillOptions(folder_.path(), 0, 0, 0, 1 << 16);
    TinyRuntime tiny(with);
    const uint32_t store = tiny.runtime.createHiddenStore(64, 8);
    const Completion stored = tiny.await(tiny.runtime.submitStoreActivation(store, tiny.activations, 64, {}));
    const Completion loaded = tiny.await(tiny.runtime.submitLoadActivation(store, tiny.activations, 64, {}));
    const Completion& failed = broken == DiskOperation::Write ? stored : loaded;
    EXPECT_EQ(stored.failed, broken == DiskOperation::Write);
    EXPECT_TRUE(loaded.failed);
    EXPECT_EQ(failed.code, ErrorCode::File);
    EXPECT_NE(failed.message.find("activations at offset 0"), std::string::npos) << failed.message;
    failing = false;
    const EventId again = tiny.runtime.submitStoreActivation(store, tiny.activations, 64, {});
    EXPECT_FALSE(tiny.await(tiny.runtime.submitLoadActivation(store, tiny.activations, 64, {again})).failed);
  }
}

TEST_F(SpillFaults, ClosingAndCancellingAmidMoves) {
  for (int round = 0; round < 12; round++) {
    SpillingRuntime runtime(options(nullptr));
    const uint32_t row = runtime.tiny.runtime.createSequence(sequenceOptions(text_, 90));
    const std::vector<int32_t> pages = {-1, -2, -3, -4, -5, -6};
    std::vector<EventId> events;
    for (uint32_t first = 0; first < 84; first += 12) {
      const std::vector<SpilledRange> ranges = {{{row, first, 12, HeadMode::Score, pages}, 0}};
      const uint32_t batch = runtime.batch(ranges);
      runtime.submit(batch, ranges, events);
      runtime.tiny.runtime.freeBatch(batch);
      if (round % 3 == 1 && first == 48) runtime.tiny.runtime.cancelAll();
    }
    if (round % 3 == 0) runtime.tiny.runtime.close();
    for (EventId event : events) {
      const Completion completion = runtime.tiny.await(event);
      EXPECT_TRUE(!completion.failed || completion.code == ErrorCode::Cancelled ||
                  completion.code == ErrorCode::Dependency)
          << completion.message;
    }
    runtime.tiny.runtime.close();
    runtime.tiny.runtime.join();
    EXPECT_TRUE(runtime.tiny.runtime.closed());
    EXPECT_EQ(folder_.names(), std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace spillway
