// Tiny random models in a raw float32 file, and a runtime that computes with them.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../runtime/Runtime.h"
#include "../../model/WeightRoles.h"
#include "modelReference.h"

namespace spillway::fixture {

// A small spec of the LLaMA kind; cases change it.
DecoderSpec smallSpec();
DecoderSpec mixtureSpec(uint32_t experts, uint32_t expertsPerToken);
// Norms around each block and of queries and keys; the second layer sees six tokens; soft caps.
DecoderSpec windowedSandwichSpec();

class TinyModel {
 public:
  explicit TinyModel(const DecoderSpec& spec, bool optional = true, unsigned seed = 1);
  ~TinyModel();
  TinyModel(const TinyModel&) = delete;

  RuntimeOptions options() const;

  DecoderSpec spec;
  std::string file;
  std::vector<WeightBinding> bindings;
  std::map<std::pair<int, std::string>, reference::Tensor> weights;

 private:
  template <typename Owner>
  void addRoles(const std::vector<WeightRole<Owner>>& roles, int layer, const std::string& prefix);
  void add(int layer, const std::string& role, bool matrix, WeightShape shape);

  std::mt19937 random_;
  bool optional_;
  FILE* out_;
  uint64_t offset_ = 0;
};

// One range of a pass.
struct Range {
  uint32_t row;
  uint32_t first;
  uint32_t tokens;
  HeadMode mode;
  std::vector<int32_t> pages;
  int32_t copyFrom = -1;  // page whose tokens that of the first position begins with
};

class TinyRuntime {
 public:
  explicit TinyRuntime(RuntimeOptions options);
  ~TinyRuntime();

  Completion await(EventId event);
  // All parts of all layers for one batch; the head's completion. Fails the test if the head failed.
  std::unique_ptr<HeadResult> pass(const std::vector<Range>& ranges, bool joined = false);

  Runtime runtime;
  uint32_t activations = 0;
  uint32_t layers = 2;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::map<EventId, Completion> done_;
};

SequenceOptions sequenceOptions(std::vector<int32_t> tokens, uint32_t capacity, uint32_t promptTokens = kAllTokens);
std::vector<int32_t> randomTokens(size_t count, uint32_t vocabulary, unsigned seed);
// What the reference makes of a text of a model, token by token, and of what comes after it.
class ReferenceText {
 public:
  ReferenceText(const TinyModel& model, std::vector<int32_t> text);
  // All of the text, in one pass, has these log-probabilities. tolerance: of one of them.
  void expectScores(const HeadResult& head, double tolerance) const;
  // The row, which has the text, goes on greedily, one token a pass, until it has so many tokens. tolerance: of how far
  // a chosen token's logit may be from the best one. Once.
  void expectContinuation(TinyRuntime& tiny, uint32_t row, size_t length, const std::vector<int32_t>& pages,
                          double tolerance);

 private:
  reference::Decoder decoder_;
  std::vector<int32_t> tokens_;
  std::vector<double> scores_;
  reference::Vector logits_;  // after the last token
};

void expectSameBits(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what);

// The call throws an error whose message holds the words.
void expectRefused(const std::function<void()>& call, const std::string& words,
                   ErrorCode code = ErrorCode::InvalidArgument);

}  // namespace spillway::fixture
