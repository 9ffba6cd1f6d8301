#include "storeFixture.h"

#include <fstream>

namespace spillway::fixture {

DecoderSpec severalChunksSpec() {
  DecoderSpec spec = smallSpec();
  spec.hiddenSize = spec.embeddingSize = 512;
  spec.feedForwardSize = 1600;
  return spec;
}

TinyStore::TinyStore(const DecoderSpec& spec, bool optional) : model(spec, optional), path(model.file + ".spillway") {
  make();
}

TinyStore::~TinyStore() {
  std::remove(path.c_str());
  std::remove(partial().c_str());
}

RepackOptions TinyStore::repackOptions() const {
  const RuntimeOptions options = model.options();
  return {options.decoder, options.bindings, options.files, path, kFingerprint, 2, {}};
}

uint64_t TinyStore::make(uint64_t stopAfter) {
  LoadProgress progress;
  std::atomic<uint64_t> total{0};
  progress.changed = [&] {
    if (progress.bytes.load() >= stopAfter) progress.stopped.store(true);
  };
  repack(repackOptions(), progress, total);
  EXPECT_EQ(progress.bytes.load(), total.load());
  return progress.bytes.load();
}

RuntimeOptions TinyStore::options(uint64_t residentLayerBytes, uint32_t buffers) const {
  RuntimeOptions options = model.options();
  options.files = {"/nonexistent/model"};  // a store needs them no more
  options.weights = StoredWeights{path, kFingerprint, residentLayerBytes, buffers};
  return options;
}

std::vector<Weights::Block> TinyStore::blocks(uint64_t residentLayerBytes) const {
  const RuntimeOptions options = model.options();
  return Weights(options.decoder, options.bindings, options.files, residentLayerBytes).blocks();
}

std::vector<char> readAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void writeAll(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
void flipByte(const std::string& path, uint64_t offset) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(static_cast<std::streamoff>(offset));
  const char byte = static_cast<char>(file.get() ^ 0x40);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(byte);
}

Outcome scoreStreaming(RuntimeOptions options, const std::vector<int32_t>& text, unsigned passes) {
  const uint32_t layers = options.decoder.layers;
  TinyRuntime tiny(std::move(options));
  Runtime& runtime = tiny.runtime;
  const RuntimeBytes& bytes = runtime.bytes();
  const uint32_t buffers = (bytes.gpu ? bytes.gpu->weightBuffers : bytes.weightBuffers) == 0 ? 0 : 2;
  Outcome outcome;
  uint32_t next = 0;
  for (unsigned p = 0; p < passes; p++) {
    const int32_t row = int32_t(runtime.createSequence(sequenceOptions(text, uint32_t(text.size()))));
    const uint32_t batch =
        runtime.createBatch({row, 0, int32_t(text.size()), int32_t(HeadMode::Score), 0, 4, -1}, {0, 1, 2, 3});
    std::vector<EventId> events = {runtime.submitCompute(ComputePart::Embed, 0, batch, tiny.activations, {})};
    std::vector<EventId> lastUse(buffers, 0);
    for (uint32_t layer = 0; layer < layers; layer++) {
      int32_t buffer = kNoBuffer;
      if (runtime.bytes().streamed[layer] != 0) {
        buffer = int32_t(next++ % buffers);
        const EventId before = lastUse[size_t(buffer)];
        events.push_back(runtime.submitLoadWeight(layer, uint32_t(buffer),
                                                  before == 0 ? std::vector<EventId>{} : std::vector<EventId>{before}));
      }
      for (ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish}) {
        events.push_back(runtime.submitCompute(part, layer, batch, tiny.activations, {events.back()}, buffer));
      }
      if (buffer != kNoBuffer) lastUse[size_t(buffer)] = events.back();
    }
    events.push_back(runtime.submitCompute(ComputePart::Head, 0, batch, tiny.activations, {events.back()}));
    for (EventId event : events) {
      Completion completion = tiny.await(event);
      if (completion.failed && !outcome.failure)
        outcome.failure = std::move(completion);
      else if (event == events.back() && !completion.failed)
        outcome.scores = static_cast<HeadResult&>(*completion.result).scores;
    }
    if (outcome.failure) break;
  }
  return outcome;
}

}  // namespace spillway::fixture
