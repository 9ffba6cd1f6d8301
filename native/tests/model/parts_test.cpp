// Runtimes of a part of a model's layers, handing hidden states on to each other.
#include <algorithm>

#include "storeFixture.h"

namespace spillway {
namespace {

using namespace fixture;

DecoderSpec threeLayers() {
  DecoderSpec spec = smallSpec();
  spec.layers = 3;
  spec.layerSpecs.resize(3);
  return spec;
}

// Options for `count` of the model's layers from `first` on.
RuntimeOptions part(const TinyModel& model, uint32_t first, uint32_t count) {
  RuntimeOptions options = model.options();
  options.decoder.modelLayers = model.spec.layers;
  options.decoder.firstLayer = first;
  options.decoder.layers = count;
  options.decoder.layerSpecs = {model.spec.layerSpecs.begin() + first, model.spec.layerSpecs.begin() + first + count};
  const bool samples = first + count == model.spec.layers;
  const bool tied = std::none_of(model.bindings.begin(), model.bindings.end(),
                                 [](const WeightBinding& b) { return b.role == "head.weight"; });
  options.bindings.clear();
  for (const WeightBinding& binding : model.bindings) {
    const bool embedding = binding.role == "token_embedding";
    const bool global = embedding ? first == 0 || (samples && tied) : samples;
    const bool own = binding.layer >= int32_t(first) && binding.layer < int32_t(first + count);
    if (binding.layer < 0 ? global : own) options.bindings.push_back(binding);
  }
  return options;
}

// One runtime of the ring, and the row that all of them hold.
struct Part {
  Part(RuntimeOptions options, const std::vector<int32_t>& tokens) : spec(options.decoder), tiny(std::move(options)) {
    SequenceOptions made = sequenceOptions(tokens, 40);
    made.logprobs = 0;
    row = tiny.runtime.createSequence(std::move(made));
  }

  // Hidden states in (none for the first layer), hidden states out; the head's result of the last one.
  Completion pass(uint32_t first, uint32_t tokens, const std::vector<float>& in) {
    Runtime& runtime = tiny.runtime;
    const uint32_t batch = runtime.createBatch(
        {int32_t(row), int32_t(first), int32_t(tokens), int32_t(HeadMode::Sample), 0, 3, -1}, {0, 1, 2});
    // Everything is submitted before there is anything to compute with.
    const EventId arrival = runtime.createEvent();
    EventId last = arrival;
    if (spec.embeds()) last = runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {last});
    for (uint32_t layer = 0; layer < spec.layers; layer++) {
      for (ComputePart each : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish})
        last = runtime.submitCompute(each, layer, batch, tiny.activations, {last});
    }
    last = spec.samples() ? runtime.submitCompute(ComputePart::Head, 0, batch, tiny.activations, {last})
                          : runtime.submitReadHidden(tiny.activations, tokens, {last});
    if (!in.empty()) runtime.writeHidden(tiny.activations, in.data(), in.size());
    runtime.completeEvent(arrival);
    EXPECT_FALSE(tiny.await(arrival).failed);
    Completion completion = tiny.await(last);
    EXPECT_FALSE(completion.failed) << completion.message;
    runtime.freeBatch(batch);
    return completion;
  }

  DecoderSpec spec;
  TinyRuntime tiny;
  uint32_t row = 0;
};

// The tokens and log-probabilities of a prompt of seven and five further tokens, by runtimes in a row.
std::vector<std::pair<int32_t, float>> generate(std::vector<std::unique_ptr<Part>>& parts) {
  std::vector<std::pair<int32_t, float>> sampled;
  for (uint32_t first = 0, tokens = 7; sampled.size() < 6; first += tokens, tokens = 1) {
    std::vector<float> hidden;
    for (const auto& each : parts) {
      Completion completion = each->pass(first, tokens, hidden);
      if (const auto* read = dynamic_cast<const HiddenResult*>(completion.result.get())) hidden = read->hidden;
      if (const auto* head = dynamic_cast<const HeadResult*>(completion.result.get()))
        sampled.emplace_back(head->tokens.at(0), head->logprobs.at(0));
    }
    if (parts.size() > 1) parts[0]->tiny.runtime.appendTokens({int32_t(parts[0]->row)}, {sampled.back().first});
  }
  return sampled;
}

TEST(Parts, TogetherTheyFindWhatTheWholeModelFindsBitForBit) {
  for (const bool tied : {false, true}) {
    const TinyModel model(threeLayers(), !tied);
    const std::vector<int32_t> tokens = randomTokens(7, 67, 5);
    std::vector<std::unique_ptr<Part>> whole;
    whole.push_back(std::make_unique<Part>(model.options(), tokens));
    const auto expected = generate(whole);
    for (const std::vector<uint32_t>& counts : {std::vector<uint32_t>{1, 2}, {2, 1}, {1, 1, 1}}) {
      std::vector<std::unique_ptr<Part>> parts;
      uint32_t first = 0;
      for (const uint32_t count : counts) {
        parts.push_back(std::make_unique<Part>(part(model, first, count), tokens));
        first += count;
      }
      EXPECT_EQ(generate(parts), expected);
      size_t weights = 0;
      for (const auto& each : parts) {
        weights += each->tiny.runtime.bytes().weights;
        EXPECT_EQ(each->tiny.runtime.bytes().streamed.size(), each->spec.layers);
        EXPECT_EQ(each->tiny.runtime.bytes().cache, whole[0]->tiny.runtime.bytes().cache / 3 * each->spec.layers);
      }
      if (!tied) {
        EXPECT_LT(weights, whole[0]->tiny.runtime.bytes().weights + 4 * Weights::kAlignment);
      }
    }
  }
}

TEST(Parts, ThatStreamHaveAStoreOfTheirOwnLayersAlone) {
  const TinyModel model(threeLayers());
  const std::vector<int32_t> tokens = randomTokens(7, 67, 6);
  std::vector<std::unique_ptr<Part>> whole;
  whole.push_back(std::make_unique<Part>(model.options(), tokens));
  const auto expected = generate(whole);
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<std::string> paths;
  for (uint32_t layer = 0; layer < 3; layer++) {
    RuntimeOptions options = part(model, layer, 1);
    paths.push_back(model.file + ".part" + std::to_string(layer));
    LoadProgress progress;
    std::atomic<uint64_t> total{0};
    repack({options.decoder, options.bindings, options.files, paths.back(), "part", 2}, progress, total);
    const std::optional<StoreFacts> facts = inspectStore(paths.back(), "part");
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->layerBytes.size(), 1u);
    EXPECT_EQ(facts->globalBytes == 0, layer == 1);  // neither embedding nor head
    options.files = {"/nonexistent/model"};
    options.weights = StoredWeights{paths.back(), "part", ~uint64_t(0) >> 12, 1};
    parts.push_back(std::make_unique<Part>(std::move(options), tokens));
  }
  EXPECT_EQ(generate(parts), expected);

  // Another part's store is refused, and what is damaged is named by its number in the model.
  RuntimeOptions wrong = part(model, 2, 1);
  wrong.weights = StoredWeights{paths[1], "part", 0, 1};
  expectRefused([&] { Runtime runtime(std::move(wrong), [] {}); }, "table", ErrorCode::File);
  std::vector<char> bytes = readAll(paths[1]);
  bytes[bytes.size() - 5000] ^= 1;
  writeAll(paths[1], bytes);
  RuntimeOptions damaged = part(model, 1, 1);
  damaged.weights = StoredWeights{paths[1], "part", ~uint64_t(0) >> 12, 1};
  try {
    TinyRuntime runtime(std::move(damaged));
    ADD_FAILURE() << "accepted damaged weights";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("layer 1 at offset"), std::string::npos) << error.what();
  }
  for (const std::string& path : paths) std::remove(path.c_str());
}

TEST(Parts, WhatTheyDoNotHaveIsRefused) {
  const TinyModel model(threeLayers());
  Part front(part(model, 0, 1), {1, 2, 3}), back(part(model, 1, 2), {1, 2, 3});
  const auto batchOf = [](Part& each) {
    return each.tiny.runtime.createBatch({int32_t(each.row), 0, 3, 0, 0, 1, -1}, {0});
  };
  expectRefused(
      [&] { front.tiny.runtime.submitCompute(ComputePart::Head, 0, batchOf(front), front.tiny.activations, {}); },
      "the model's last layer is not among these");
  expectRefused(
      [&] { back.tiny.runtime.submitCompute(ComputePart::Embed, 0, batchOf(back), back.tiny.activations, {}); },
      "the model's first layer is not among these");
  expectRefused(
      [&] { front.tiny.runtime.submitCompute(ComputePart::Project, 1, batchOf(front), front.tiny.activations, {}); },
      "layer: found 1");

  const std::vector<float> hidden(48 * 65);
  for (const size_t count : {size_t(0), size_t(47), size_t(48 * 65)}) {
    expectRefused([&] { back.tiny.runtime.writeHidden(back.tiny.activations, hidden.data(), count); },
                  "hidden: found " + std::to_string(count));
  }
  expectRefused([&] { back.tiny.runtime.submitReadHidden(back.tiny.activations, 65, {}); }, "tokens: found 65");
  expectRefused([&] { front.tiny.runtime.appendTokens({int32_t(front.row)}, {67}); }, "under 67");
  expectRefused([&] { front.tiny.runtime.appendTokens({int32_t(front.row)}, {}); }, "one for each row");
  expectRefused([&] { front.tiny.runtime.appendTokens({9}, {1}); }, "row: found 9");
  TinyRuntime whole(model.options());
  const uint32_t activations = whole.activations;
  expectRefused([&] { whole.runtime.submitReadHidden(activations, 1, {}); }, "a runtime of all layers");

  // Bindings of layers, or of ends, that the part does not have.
  RuntimeOptions options = part(model, 1, 1);
  options.bindings = model.bindings;
  expectRefused([&] { Model refused(std::move(options)); }, "token_embedding", ErrorCode::File);
  options = part(model, 1, 2);
  options.decoder.firstLayer = 0;
  options.decoder.layers = 1;
  options.decoder.layerSpecs.resize(1);
  expectRefused([&] { Model refused(std::move(options)); }, "final_norm.weight: found a binding", ErrorCode::File);
  options = part(model, 0, 1);
  for (const WeightBinding& binding : model.bindings) {
    if (binding.layer == 2) options.bindings.push_back(binding);
  }
  expectRefused([&] { Model refused(std::move(options)); }, "in layers 0 to 0", ErrorCode::File);
  options = part(model, 1, 2);
  options.bindings.erase(std::remove_if(options.bindings.begin(), options.bindings.end(),
                                        [](const WeightBinding& b) { return b.role == "head.weight"; }),
                         options.bindings.end());
  expectRefused([&] { Model refused(std::move(options)); }, "head.weight: found no such tensor", ErrorCode::File);
  options = part(model, 2, 1);
  options.decoder.firstLayer = 3;
  expectRefused([&] { Model refused(std::move(options)); }, "part.firstLayer: found 3");
}

TEST(Parts, EventsOfPeersCompleteOnceOrFailAndNothingWaitsForThemAfterTheEnd) {
  const TinyModel model(threeLayers());
  Part back(part(model, 1, 2), {1, 2, 3});
  Runtime& runtime = back.tiny.runtime;
  const uint32_t batch = runtime.createBatch({int32_t(back.row), 0, 3, 0, 0, 1, -1}, {0});
  const auto waiting = [&](EventId event) {
    return runtime.submitCompute(ComputePart::Project, 0, batch, back.tiny.activations, {event});
  };

  const EventId well = runtime.createEvent();
  const EventId after = waiting(well);
  runtime.completeEvent(well);
  EXPECT_FALSE(back.tiny.await(after).failed);
  expectRefused([&] { runtime.completeEvent(well); }, "that has not completed");
  expectRefused([&] { runtime.failEvent(after, "x"); }, "that has not completed");

  const EventId lost = runtime.createEvent();
  const EventId dependent = waiting(lost);
  runtime.failEvent(lost, "the peer has gone");
  const Completion failure = back.tiny.await(lost);
  EXPECT_EQ(failure.code, ErrorCode::Peer);
  EXPECT_EQ(failure.message, "the peer has gone");
  EXPECT_EQ(back.tiny.await(dependent).code, ErrorCode::Dependency);

  const EventId cancelled = runtime.createEvent();
  const EventId cancelledToo = waiting(cancelled);
  runtime.cancelAll();
  EXPECT_EQ(back.tiny.await(cancelled).code, ErrorCode::Cancelled);
  EXPECT_TRUE(back.tiny.await(cancelledToo).failed);

  const EventId never = runtime.createEvent();
  const EventId neverToo = waiting(never);
  runtime.close();
  EXPECT_EQ(back.tiny.await(never).code, ErrorCode::Cancelled);
  EXPECT_TRUE(back.tiny.await(neverToo).failed);
  runtime.join();
  expectRefused([&] { runtime.createEvent(); }, "closed");
  expectRefused([&] { runtime.completeEvent(never); }, "closed");
}

TEST(Parts, OfAShareOfEachLayerAreForSharesAlone) {
  const TinyModel model(threeLayers());
  Part back(part(model, 1, 2), {1, 2, 3});
  Runtime& runtime = back.tiny.runtime;
  const uint32_t batch = runtime.createBatch({int32_t(back.row), 0, 3, 0, 0, 1, -1}, {0});
  for (const ComputePart each : {ComputePart::Output, ComputePart::FeedForward, ComputePart::Add}) {
    const Completion failed = back.tiny.await(runtime.submitCompute(each, 0, batch, back.tiny.activations, {}));
    EXPECT_EQ(failed.code, ErrorCode::InvalidArgument);
    EXPECT_NE(failed.message.find("found one of a share of a layer"), std::string::npos) << failed.message;
  }
  const std::vector<float> hidden(model.spec.hiddenSize);
  expectRefused([&] { runtime.writeHidden(back.tiny.activations, hidden.data(), hidden.size(), true); },
                "found a branch for a runtime of whole layers");
  DecoderSpec spec = threeLayers();
  spec.shares = 2;
  spec.share = 2;
  expectRefused([&] { validate(spec); }, "share.index: found 2, expected an index under 2");
  spec.share = 1;
  EXPECT_FALSE(spec.embeds());
  EXPECT_FALSE(spec.samples());
  spec.modelLayers = 9;
  expectRefused([&] { validate(spec); }, "share: found one beside part");
}

TEST(Parts, ThatAttendToSomeRowsHaveTheCacheOfAllHeads) {
  DecoderSpec spec = threeLayers();
  EXPECT_FALSE(spec.attendsByRows());
  spec.rowHeads = spec.heads;
  spec.rowKvHeads = spec.kvHeads;
  expectRefused([&] { validate(spec); }, "share.attention: found one of a whole layer");
  spec.shares = 2;
  EXPECT_EQ(spec.cachedHeads(spec.layerSpecs[0]), spec.rowKvHeads);
  const DecoderSpec attending = spec.attending();
  EXPECT_EQ(attending.heads, spec.rowHeads);
  EXPECT_FALSE(attending.attendsByRows());
  EXPECT_EQ(attending.hiddenWidth(), 0u);
  spec.rowHeads = spec.heads - 1;
  expectRefused([&] { validate(spec); }, "share.attention.");
  const TinyModel model(threeLayers());
  TinyRuntime whole(model.options());
  const float number = 1;
  expectRefused([&] { whole.runtime.writeRows(whole.activations, 0, 0, &number, 1); }, "batch");
  expectRefused([&] { whole.runtime.writeAttended(whole.activations, &number, 1); },
                "found a runtime that attends to all rows");
}

// Pages that one runtime has computed are another one's as they are.
TEST(Pages, GoToAnotherRuntime) {
  const TinyModel model(threeLayers());
  TinyRuntime from(model.options()), to(model.options());
  const std::vector<int32_t> pages = {0, 2};
  std::vector<uint8_t> bytes = from.runtime.readPages(pages);
  ASSERT_GT(bytes.size(), 0u);
  for (size_t i = 0; i < bytes.size(); i++) bytes[i] = uint8_t(i * 7 + i / 256);
  to.runtime.writePages(pages, bytes);
  EXPECT_EQ(to.runtime.readPages(pages), bytes);
  // Each layer's pages follow each other in the order that was asked for.
  const size_t page = bytes.size() / 3 / 2;
  const std::vector<uint8_t> turned = to.runtime.readPages({2, 0});
  for (size_t layer = 0; layer < 3; layer++)
    for (size_t side = 0; side < 2; side++)
      EXPECT_TRUE(std::equal(turned.begin() + (2 * layer + side) * page, turned.begin() + (2 * layer + side + 1) * page,
                             bytes.begin() + (2 * layer + 1 - side) * page));
  bytes.pop_back();
  expectRefused([&] { to.runtime.writePages(pages, bytes); }, "bytes: found");
  expectRefused([&] { to.runtime.readPages({-1}); }, "pages: found page -1");
  expectRefused([&] { to.runtime.readPages({1 << 20}); }, "pages: found page 1048576");
}

}  // namespace
}  // namespace spillway
