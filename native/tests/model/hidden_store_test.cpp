// Hidden states between layers in stores: two slots that take turns in one activation buffer give what each gives
// alone.
#include "spillFixture.h"

namespace spillway {
namespace {

using namespace fixture;

class HiddenStores : public testing::Test {
 protected:
  HiddenStores() : model_(smallSpec(), false) {}
  RuntimeOptions options(uint64_t hiddenBytes) const {
    RuntimeOptions options = model_.options();
    options.spill = spillOptions(folder_.path(), 0, 0, 0, hiddenBytes);
    return options;
  }
  static void expectFailure(TinyRuntime& tiny, EventId event, const std::string& words) {
    const Completion completion = tiny.await(event);
    EXPECT_TRUE(completion.failed) << words;
    EXPECT_EQ(completion.code, ErrorCode::InvalidArgument);
    EXPECT_NE(completion.message.find(words), std::string::npos) << completion.message;
  }
  disktest::Folder folder_;
  TinyModel model_;
};

TEST_F(HiddenStores, SlotsThatTakeTurnsGiveTheSameBits) {
  const std::vector<int32_t> texts[] = {randomTokens(61, 67, 1), randomTokens(37, 67, 2)};
  std::vector<std::vector<float>> expected;
  for (const auto& text : texts) expected.push_back(scoreInMemory(model_.options(), text));
  for (const uint32_t resident : {0u, 1u, 22u, 40u, 64u}) {
    TinyRuntime tiny(options(64 << 10));
    Runtime& runtime = tiny.runtime;
    std::vector<uint32_t> batches, stores, sizes;
    EventId last = 0;
    const auto submit = [&](EventId event) { last = event; };
    const auto after = [&] { return last == 0 ? std::vector<EventId>{} : std::vector<EventId>{last}; };
    for (int32_t slot = 0; slot < 2; slot++) {
      const int32_t row = int32_t(runtime.createSequence(sequenceOptions(texts[slot], 96)));
      sizes.push_back(uint32_t(texts[slot].size()));
      batches.push_back(runtime.createBatch({row, 0, int32_t(sizes.back()), int32_t(HeadMode::Score), 0, 4, -1},
                                            {4 * slot, 4 * slot + 1, 4 * slot + 2, 4 * slot + 3}));
      stores.push_back(runtime.createHiddenStore(64, resident));
    }
    std::vector<EventId> heads(2);
    for (uint32_t step = 0; step < 4; step++) {  // embed, two layers, head
      for (size_t slot = 0; slot < 2; slot++) {
        if (step != 0) submit(runtime.submitLoadActivation(stores[slot], tiny.activations, sizes[slot], after()));
        if (step == 0) submit(runtime.submitCompute(ComputePart::Embed, 0, batches[slot], tiny.activations, after()));
        for (ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish}) {
          if (step == 1 || step == 2)
            submit(runtime.submitCompute(part, step - 1, batches[slot], tiny.activations, after()));
        }
        if (step == 3)
          submit(heads[slot] = runtime.submitCompute(ComputePart::Head, 0, batches[slot], tiny.activations, after()));
        else
          submit(runtime.submitStoreActivation(stores[slot], tiny.activations, sizes[slot], after()));
      }
    }
    for (size_t slot = 0; slot < 2; slot++) {
      Completion head = tiny.await(heads[slot]);
      ASSERT_FALSE(head.failed) << head.message;
      const std::vector<float>& scores = static_cast<HeadResult&>(*head.result).scores;
      ASSERT_EQ(scores.size(), expected[slot].size());
      EXPECT_EQ(std::memcmp(scores.data(), expected[slot].data(), scores.size() * sizeof(float)), 0)
          << resident << " resident, slot " << slot;
    }
    // 192 bytes a token, of which the store's share is on disk, in whole blocks.
    uint64_t moved = 0;
    for (const uint64_t bytes : {61 * 192, 37 * 192})
      moved += 3 * (((bytes * (64 - resident) + 63) / 64 + 4095) / 4096 * 4096);
    EXPECT_EQ(runtime.moved().read.load(), moved) << resident;
    EXPECT_EQ(runtime.moved().written.load(), moved) << resident;
  }
}

TEST_F(HiddenStores, RoomIsCountedAndGivenBack) {
  TinyRuntime tiny(options(5 * 4096));
  Runtime& runtime = tiny.runtime;
  const uint32_t a = runtime.createHiddenStore(64, 0);   // 3 blocks
  const uint32_t b = runtime.createHiddenStore(42, 21);  // 2 blocks: 8064 bytes, of which 4032 are resident: one block
  const uint32_t c = runtime.createHiddenStore(21, 0);
  expectRefused([&] { runtime.createHiddenStore(21, 0); },
                "at most 0 bytes of them on disk, where 4096 are needed (spill.hiddenBytes)");
  EXPECT_NO_THROW(runtime.freeHiddenStore(runtime.createHiddenStore(64, 64)));
  runtime.freeHiddenStore(a);
  runtime.freeHiddenStore(c);
  expectRefused([&] { runtime.freeHiddenStore(c); }, "hidden store: found");
  runtime.freeHiddenStore(b);
  for (int i = 0; i < 3; i++) {
    const uint32_t d = runtime.createHiddenStore(64, 0);
    const uint32_t e = runtime.createHiddenStore(42, 0);
    expectRefused([&] { runtime.createHiddenStore(1, 0); }, "at most 0 bytes");
    runtime.freeHiddenStore(i == 1 ? d : e);
    runtime.freeHiddenStore(i == 1 ? e : d);
  }
}

TEST_F(HiddenStores, MisuseIsAnError) {
  TinyRuntime tiny(options(1 << 20));
  Runtime& runtime = tiny.runtime;
  const uint32_t store = runtime.createHiddenStore(40, 10);
  expectRefused([&] { runtime.createHiddenStore(0, 0); }, "tokens: found 0");
  expectRefused([&] { runtime.createHiddenStore(65, 0); }, "tokens: found 65, expected 1 to limits.tokensPerSquare");
  expectRefused([&] { runtime.createHiddenStore(10, 11); }, "residentTokens: found 11");
  expectRefused([&] { runtime.submitStoreActivation(store + 1, tiny.activations, 1, {}); }, "hidden store: found 1");
  expectRefused([&] { runtime.submitLoadActivation(store, 77, 1, {}); }, "activations: found 77");
  expectRefused([&] { runtime.submitStoreActivation(store, tiny.activations, 41, {}); },
                "tokens: found 41, expected 1 to 40");
  expectRefused([&] { runtime.submitStoreActivation(store, tiny.activations, 0, {}); }, "tokens: found 0");
  const uint32_t small = runtime.createActivations(8);
  expectRefused([&] { runtime.submitLoadActivation(store, small, 9, {}); }, "tokens: found 9, expected 1 to 8");
  expectRefused([&] { runtime.submitLoadActivation(store, tiny.activations, 9, {12345}); }, "after: found event 12345");
  expectFailure(tiny, runtime.submitLoadActivation(store, tiny.activations, 1, {}),
                "found 0 tokens stored, expected at least 1");
  const EventId stored = runtime.submitStoreActivation(store, tiny.activations, 20, {});
  expectFailure(tiny, runtime.submitLoadActivation(store, tiny.activations, 21, {stored}),
                "found 20 tokens stored, expected at least 21");
  EXPECT_FALSE(tiny.await(runtime.submitLoadActivation(store, tiny.activations, 20, {stored})).failed);

  TinyRuntime without(model_.options());
  expectRefused([&] { without.runtime.createHiddenStore(4, 4); },
                "createHiddenStore: found a runtime without spill options");
  Runtime unloaded(options(4096), [] {});
  const uint32_t early = unloaded.createHiddenStore(4, 4);
  const uint32_t activations = unloaded.createActivations(4);
  expectRefused([&] { unloaded.submitLoadActivation(early, activations, 4, {}); }, "not loaded");
  // Wholly in memory: there is no file at all then.
  TinyRuntime none(options(0));
  EXPECT_EQ(none.runtime.bytes().spill, 0u);
  const uint32_t resident = none.runtime.createHiddenStore(64, 64);
  const EventId there = none.runtime.submitStoreActivation(resident, none.activations, 64, {});
  EXPECT_FALSE(none.await(none.runtime.submitLoadActivation(resident, none.activations, 64, {there})).failed);
  expectRefused([&] { none.runtime.createHiddenStore(64, 0); }, "spill.hiddenBytes");
}

// A store that is freed while tasks with it wait keeps its room until they are done.
TEST_F(HiddenStores, AFreedStoreLivesAsLongAsItsTasks) {
  TinyRuntime tiny(options(3 * 4096));
  Runtime& runtime = tiny.runtime;
  for (int round = 0; round < 30; round++) {
    const uint32_t store = runtime.createHiddenStore(64, 0);
    EventId last = runtime.submitStoreActivation(store, tiny.activations, 64, {});
    for (int i = 0; i < 10; i++) last = runtime.submitLoadActivation(store, tiny.activations, 64, {last});
    runtime.freeHiddenStore(store);
    EXPECT_FALSE(tiny.await(last).failed);
  }
}

}  // namespace
}  // namespace spillway
