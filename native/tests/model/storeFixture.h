// Stores of tiny models, and passes over layers that stream from them.
#pragma once
#include <optional>

#include "../../model/repack.h"
#include "modelFixture.h"

namespace spillway::fixture {

// Its layers are of several chunks.
DecoderSpec severalChunksSpec();

class TinyStore {
 public:
  static constexpr const char* kFingerprint = "tiny model";

  explicit TinyStore(const DecoderSpec& spec, bool optional = true);
  ~TinyStore();

  RepackOptions repackOptions() const;
  // Bytes that were done. `stopAfter`: gives up once so many are.
  uint64_t make(uint64_t stopAfter = ~uint64_t(0));
  std::string partial() const { return path + ".partial"; }

  RuntimeOptions options(uint64_t residentLayerBytes, uint32_t buffers = 1) const;
  // Of the table that a runtime with these options would have.
  std::vector<Weights::Block> blocks(uint64_t residentLayerBytes) const;

  TinyModel model;
  std::string path;
};

std::vector<char> readAll(const std::string& path);
void writeAll(const std::string& path, const std::vector<char>& bytes);
void flipByte(const std::string& path, uint64_t offset);

// A row of `text` scored in one pass; what streams goes through the buffers in turn. The first failure is returned
// instead.
struct Outcome {
  std::vector<float> scores;
  std::optional<Completion> failure;
};
Outcome scoreStreaming(RuntimeOptions options, const std::vector<int32_t>& text, unsigned passes = 1);

}  // namespace spillway::fixture
