// What a caller may do wrong with pages on disk: refused, or a failed task, and never a wrong result.
#include <functional>

#include "spillFixture.h"

namespace spillway {
namespace {

using namespace fixture;

class SpillRules : public testing::Test {
 protected:
  SpillRules() : model_(smallSpec(), false), spilling_(options()), tiny_(spilling_.tiny), runtime_(tiny_.runtime) {}
  RuntimeOptions options() const {
    RuntimeOptions options = model_.options();
    options.spill = spillOptions(folder_.path(), 8, 2, 5);
    return options;
  }
  void expectFailure(EventId event, const std::string& words, ErrorCode code = ErrorCode::InvalidArgument) {
    const Completion completion = tiny_.await(event);
    EXPECT_TRUE(completion.failed) << words;
    EXPECT_EQ(completion.code, code);
    EXPECT_NE(completion.message.find(words), std::string::npos) << completion.message;
  }
  void expectDone(EventId event) {
    const Completion completion = tiny_.await(event);
    EXPECT_FALSE(completion.failed) << completion.message;
  }
  uint32_t row(uint32_t tokens = 60) {
    return runtime_.createSequence(sequenceOptions(randomTokens(tokens, 67, 1), 90));
  }
  uint32_t batch(uint32_t row, uint32_t first, uint32_t tokens, const std::vector<int32_t>& pages, int32_t tail) {
    return spilling_.batch({{{row, first, tokens, HeadMode::None, pages}, tail}});
  }
  EventId project(uint32_t layer, uint32_t batch) {
    return runtime_.submitCompute(ComputePart::Project, layer, batch, tiny_.activations, {});
  }
  EventId attend(uint32_t layer, uint32_t batch, const std::vector<EventId>& after, int32_t buffer) {
    return runtime_.submitCompute(ComputePart::Attend, layer, batch, tiny_.activations, after, kNoBuffer, buffer);
  }
  disktest::Folder folder_;
  TinyModel model_;
  SpillingRuntime spilling_;
  TinyRuntime& tiny_;
  Runtime& runtime_;
};

TEST_F(SpillRules, PageTablesAreChecked) {
  const uint32_t a = row(), b = row();
  const auto refuse = [&](const std::vector<int32_t>& pages, int32_t tail, const std::string& words) {
    expectRefused([&] { batch(a, 20, 5, pages, tail); }, words);
  };
  refuse({-1, -9}, 3, "pages[1]: found -9, expected a page under 64, or one on disk, from -1 to -8");
  refuse({-1, INT32_MIN}, 3, "rows[0] pages: found -2147483648, expected a page for position 16");
  refuse({0, 64}, 3, "pages[1]: found 64");
  refuse({-1, -2}, -1, "rows[0] tail: found -1, expected a page of the pool");
  refuse({0, -2}, -1, "rows[0] tail: found -1");
  refuse({-1, 2}, -2, "rows[0] tail: found -2");
  refuse({-1, 2}, 64, "rows[0] tail: found 64, expected -1, or a page under 64");
  refuse({3, -2}, 3,
         "rows[0] tail: found 3, expected a page that stands in the row's table once at most, after all pages on disk");
  refuse({-1, 3, -2}, 3, "after all pages on disk");
  refuse({-1, 3, 3}, 3, "once at most");
  refuse({-2, -2}, 3, "rows[0] pages: found -2, expected no page that row 0 of the batch writes to");
  EXPECT_NO_THROW(batch(a, 20, 5, {-1, 3}, 3));
  EXPECT_NO_THROW(batch(a, 20, 5, {0, 3}, 3));
  EXPECT_NO_THROW(batch(a, 20, 5, {0, 3}, -1));

  const auto refuseTwo = [&](const std::vector<int32_t>& first, int32_t firstTail, const std::vector<int32_t>& second,
                             int32_t secondTail, const std::string& words) {
    expectRefused(
        [&] {
          spilling_.batch(
              {{{a, 20, 5, HeadMode::None, first}, firstTail}, {{b, 20, 5, HeadMode::None, second}, secondTail}});
        },
        words);
  };
  refuseTwo({-1, -2}, 3, {-3, -2}, 4, "rows[1] pages: found -2");
  refuseTwo({-1, -2}, 3, {-2, -4}, 4, "rows[1] pages: found -2, expected no page that row 0");
  refuseTwo({-1, -2}, 3, {-3, -4}, 3, "rows[1] tail: found 3");
  refuseTwo({-1, -2}, 3, {-3, 3}, 4, "rows[1] pages: found 3");
  refuseTwo({-1, -2}, 3, {3, 4}, -1, "rows[1] pages: found 3, expected no page that row 0");
  // Pages on disk that are only read may be shared, as in memory.
  EXPECT_NO_THROW(
      spilling_.batch({{{a, 20, 5, HeadMode::None, {-1, -2}}, 3}, {{b, 20, 5, HeadMode::None, {-1, -4}}, 4}}));
}

TEST_F(SpillRules, ASquareMustFitItsBuffer) {
  const uint32_t a = row(90), b = row(90);
  EXPECT_NO_THROW(batch(a, 0, 63, {-1, -2, -3, -4}, 0));
  expectRefused(
      [&] {
        spilling_.batch(
            {{{a, 48, 16, HeadMode::None, {-1, -2, -3, -4}}, 0}, {{b, 32, 1, HeadMode::None, {-5, -6, -7}}, 1}});
      },
      "rows: found 6 pages to stage for a layer, expected at most the 5 of a buffer (spill.bufferPages)");
  // The fourth page stays incomplete: it needs no place.
  EXPECT_NO_THROW(spilling_.batch(
      {{{a, 48, 15, HeadMode::None, {-1, -2, -3, -4}}, 0}, {{b, 32, 1, HeadMode::None, {-5, -6, -7}}, 1}}));
}

TEST_F(SpillRules, ArgumentsAreChecked) {
  const uint32_t r = row();
  const uint32_t b = batch(r, 0, 16, {-1}, 0);
  expectRefused([&] { attend(0, b, {}, -1); }, "cacheBuffer: found -1, expected the staging buffer");
  expectRefused([&] { attend(0, b, {}, 2); }, "cacheBuffer: found 2, expected -1, or an index under 2");
  expectRefused([&] { attend(0, b, {}, -2); }, "cacheBuffer: found -2");
  expectRefused([&] { runtime_.submitCompute(ComputePart::Layer, 0, b, tiny_.activations, {}); },
                "part: found layer, expected project, attend and finish: pages of the batch move");
  const std::function<void(uint32_t, uint32_t, uint32_t, const std::vector<EventId>&)> moves[] = {
      [&](uint32_t layer, uint32_t batch, uint32_t buffer, const std::vector<EventId>& after) {
        runtime_.submitLoadCache(layer, batch, buffer, after);
      },
      [&](uint32_t layer, uint32_t batch, uint32_t buffer, const std::vector<EventId>& after) {
        runtime_.submitStoreCache(layer, batch, buffer, after);
      }};
  for (const auto& move : moves) {
    expectRefused([&] { move(2, b, 0, {}); }, "layer: found 2");
    expectRefused([&] { move(0, b + 1, 0, {}); }, "batch: found");
    expectRefused([&] { move(0, b, 2, {}); }, "buffer: found 2, expected an index under 2");
    expectRefused([&] { move(0, b, 0, {999}); }, "after: found event 999");
  }
  runtime_.freeSequence(r);
  for (const auto& move : moves) expectRefused([&] { move(0, b, 0, {}); }, "was freed");

  TinyRuntime memory(model_.options());
  const int32_t other = int32_t(memory.runtime.createSequence(sequenceOptions({1, 2}, 5)));
  const uint32_t plain = memory.runtime.createBatch({other, 0, 2, 0, 0, 1, -1}, {0});
  expectRefused([&] { memory.runtime.submitLoadCache(0, plain, 0, {}); },
                "submitLoadCache: found a runtime whose pages do not move");
  expectRefused([&] { memory.runtime.submitStoreCache(0, plain, 0, {}); }, "whose pages do not move");
  expectRefused(
      [&] { memory.runtime.submitCompute(ComputePart::Attend, 0, plain, memory.activations, {}, kNoBuffer, 0); },
      "cacheBuffer: found 0, expected -1: no pages move");
}

TEST_F(SpillRules, ABufferMustHoldTheSquare) {
  const uint32_t r = row();
  const std::vector<int32_t> pages = {-1, -2, -3, -4};
  const uint32_t first = batch(r, 0, 20, pages, 0), second = batch(r, 20, 1, pages, 0);
  // Attention first, then storing.
  expectFailure(runtime_.submitStoreCache(0, first, 0, {}),
                "staging buffer 0: found nothing, expected what attention left of layer 0 of this batch");
  expectFailure(attend(0, first, {}, 0), "activations: found keys and values of something else");
  expectFailure(attend(0, first, {project(1, first)}, 0), "expected those that layer 0 of this batch projected last");
  expectDone(attend(0, first, {project(0, first)}, 0));
  expectFailure(attend(0, first, {}, 0), "activations: found keys and values of something else");
  expectFailure(runtime_.submitStoreCache(0, first, 0, {}),
                "staging buffer 0: found nothing");  // what failed half way is worth nothing
  expectDone(attend(0, first, {project(0, first)}, 0));
  expectFailure(runtime_.submitStoreCache(1, first, 0, {}), "pages of another square");
  expectFailure(runtime_.submitStoreCache(0, first, 1, {}), "staging buffer 1: found nothing");
  // Reading comes after writing.
  expectFailure(runtime_.submitLoadCache(0, second, 1, {}),
                "layer 0 cache, disk page 0: found a page that was not written, expected one that was stored");
  expectDone(runtime_.submitStoreCache(0, first, 0, {}));
  expectFailure(
      attend(0, second, {project(0, second)}, 0),
      "staging buffer 0: found pages of another square, expected what load_cache read of layer 0 of this batch");
  expectDone(runtime_.submitLoadCache(0, second, 1, {}));
  expectFailure(attend(0, second, {project(0, second)}, 0), "staging buffer 0: found pages of another square");
  expectFailure(runtime_.submitLoadCache(1, second, 1, {}),
                "layer 1 cache, disk page 0: found a page that was not written");
  expectFailure(attend(0, second, {project(0, second)}, 1),
                "staging buffer 1: found nothing, expected what load_cache read");
  const EventId loaded = runtime_.submitLoadCache(0, second, 1, {});
  expectDone(attend(0, second, {project(0, second), loaded}, 1));
  expectFailure(attend(0, second, {project(0, second)}, 1), "pages that attention has read already");
  // Nothing to store, nothing to load: nothing happens.
  expectDone(runtime_.submitStoreCache(0, second, 1, {}));
  const uint32_t memory = batch(r, 0, 5, {10, 11, 12, 13}, -1);
  expectDone(runtime_.submitLoadCache(0, memory, 0, {}));
  expectDone(runtime_.submitStoreCache(0, memory, 0, {}));
}

TEST_F(SpillRules, ABufferInUseIsNotTouched) {
  using Purpose = StagingBuffers::Purpose;
  StagingBuffers buffers;
  buffers.reserve(2, 4096);
  {
    StagingBuffers::Use load(buffers, 1, {7, 0}, Purpose::Load);
    for (const Purpose purpose : {Purpose::Load, Purpose::AttendLoaded, Purpose::AttendFresh, Purpose::Store}) {
      expectRefused([&] { StagingBuffers::Use use(buffers, 1, {7, 0}, purpose); },
                    "staging buffer 1: found in use, expected to be free");
    }
    EXPECT_EQ(load.data(), StagingBuffers::Use(buffers, 0, {7, 0}, Purpose::Load).data() + 4096);
  }
  expectRefused([&] { StagingBuffers::Use use(buffers, 1, {7, 0}, Purpose::AttendLoaded); }, "found nothing");
  { StagingBuffers::Use(buffers, 1, {7, 0}, Purpose::Load).finish(); }
  expectRefused([&] { StagingBuffers::Use use(buffers, 1, {8, 0}, Purpose::AttendLoaded); }, "pages of another square");
  expectRefused([&] { StagingBuffers::Use use(buffers, 1, {7, 1}, Purpose::AttendLoaded); }, "pages of another square");
  expectRefused([&] { StagingBuffers::Use use(buffers, 1, {7, 0}, Purpose::Store); }, "pages without their new tokens");
  { StagingBuffers::Use(buffers, 1, {7, 0}, Purpose::AttendLoaded).finish(); }
  { StagingBuffers::Use(buffers, 1, {7, 0}, Purpose::Store); }
  { StagingBuffers::Use(buffers, 1, {9, 3}, Purpose::AttendFresh).finish(); }
  expectRefused([&] { StagingBuffers::Use use(buffers, 1, {7, 0}, Purpose::Store); }, "pages of another square");
  { StagingBuffers::Use(buffers, 1, {9, 3}, Purpose::Store); }
}

TEST_F(SpillRules, OptionsAreChecked) {
  const auto refuse = [&](const std::function<void(SpillOptions&)>& change, const std::string& words,
                          ErrorCode code = ErrorCode::InvalidArgument) {
    RuntimeOptions with = options();
    change(*with.spill);
    try {
      Model model(std::move(with));
      ADD_FAILURE() << "accepted: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refuse([](SpillOptions& s) { s.pages = uint32_t(INT32_MAX) + 1; }, "spill.pages: found 2147483648");
  refuse([](SpillOptions& s) { s.buffers = 0; }, "spill.buffers: found 0, expected 1 to 4096");
  refuse([](SpillOptions& s) { s.buffers = 4097; }, "spill.buffers: found 4097");
  refuse([](SpillOptions& s) { s.bufferPages = 0; }, "spill.bufferPages: found 0");
  refuse([](SpillOptions& s) { s.pages = 0; }, "spill.buffers: found 2, expected 0, since spill.pages is 0");
  refuse([](SpillOptions& s) { s.pages = s.buffers = 0; }, "spill.bufferPages: found 5, expected 0");
  refuse([](SpillOptions& s) { s.hiddenBytes = ~uint64_t(0); }, "spill.hiddenBytes");
  refuse([](SpillOptions& s) { s.buffers = 4096, s.bufferPages = INT32_MAX; }, "staging buffers' bytes overflow",
         ErrorCode::Memory);
}

}  // namespace
}  // namespace spillway
