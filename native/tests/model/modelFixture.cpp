#include "modelFixture.h"

namespace spillway::fixture {

DecoderSpec smallSpec() {
  DecoderSpec spec;
  spec.family = "tiny";
  spec.layers = 2;
  spec.hiddenSize = 48;
  spec.vocabularySize = 67;
  spec.contextTokens = 96;
  spec.heads = 4;
  spec.kvHeads = 2;
  spec.headDim = 16;
  spec.feedForwardSize = 80;
  spec.normEpsilon = 1e-5f;
  spec.embeddingSize = 48;
  spec.attentionScale = 0.25f;
  spec.rotaryDims = 16;
  spec.rotaryTables.resize(1);
  for (int i = 0; i < 8; i++) spec.rotaryTables[0].frequencies.push_back(std::pow(10000.0f, -float(i) / 8));
  spec.layerSpecs.resize(2);
  return spec;
}

DecoderSpec mixtureSpec(uint32_t experts, uint32_t expertsPerToken) {
  DecoderSpec spec = smallSpec();
  spec.feedForward = FeedForwardKind::Experts;
  spec.experts = experts;
  spec.expertsPerToken = expertsPerToken;
  return spec;
}

DecoderSpec windowedSandwichSpec() {
  DecoderSpec spec = smallSpec();
  spec.residual = Residual::Sandwich;
  spec.qkNorm = QueryKeyNorm::Head;
  spec.layerSpecs[1].window = 6;
  spec.attentionSoftCap = 1.5f;
  spec.logitSoftCap = 3;
  return spec;
}

TinyModel::TinyModel(const DecoderSpec& spec, bool optional, unsigned seed)
    : spec(spec), random_(seed), optional_(optional) {
  char path[] = "/tmp/spillway-model-XXXXXX";
  const int descriptor = mkstemp(path);
  file = path;
  out_ = fdopen(descriptor, "wb");
  std::fwrite("padding", 1, 7, out_);  // so that nothing is aligned
  offset_ = 7;
  addRoles(globalRoles(spec), -1, "");
  for (int layer = 0; layer < int(spec.layers); layer++) {
    const LayerSpec& layerSpec = spec.layerSpecs[size_t(layer)];
    addRoles(layerRoles(spec, layerSpec), layer, "");
    for (uint32_t e = 0; e < spec.experts; e++)
      addRoles(expertRoles(spec, layerSpec), layer, "expert." + std::to_string(e) + ".");
  }
  std::fclose(out_);
}

TinyModel::~TinyModel() { std::remove(file.c_str()); }

RuntimeOptions TinyModel::options() const {
  RuntimeOptions options;
  options.decoder = spec;
  options.bindings = bindings;
  options.files = {file};
  options.precision = Precision::Float32;
  options.threads = 2;
  options.pageTokens = 16;
  options.pages = 64;
  options.limits = {64, 16};
  return options;
}

template <typename Owner>
void TinyModel::addRoles(const std::vector<WeightRole<Owner>>& roles, int layer, const std::string& prefix) {
  for (const WeightRole<Owner>& role : roles) {
    if (role.presence == Presence::Unused || (role.presence == Presence::Optional && !optional_)) continue;
    add(layer, prefix + role.name, role.matrix != nullptr, role.shape);
  }
}

void TinyModel::add(int layer, const std::string& role, bool matrix, WeightShape shape) {
  std::normal_distribution<float> normal(
      role.find("norm") != std::string::npos && role.find("weight") != std::string::npos ? 1.0f : 0.0f,
      matrix ? 1.5f / std::sqrt(float(shape.columns)) : 0.2f);
  reference::Tensor& tensor = weights[{layer, role}];
  tensor = {shape.rows, shape.columns, std::vector<float>(size_t(shape.rows) * shape.columns)};
  for (float& value : tensor.values) value = normal(random_);
  // In two segments, the second half first, where there are rows enough.
  const uint32_t first = shape.rows > 1 ? shape.rows / 2 : shape.rows;
  const size_t rowBytes = shape.columns * sizeof(float);
  WeightBinding binding{role, layer, matrix, WeightType::F32, shape.rows, shape.columns, {}, 0, {}, {}, {}, {}, {}, 0};
  std::fwrite(tensor.values.data() + size_t(first) * shape.columns, rowBytes, shape.rows - first, out_);
  std::fwrite(tensor.values.data(), rowBytes, first, out_);
  binding.segments.push_back({0, offset_ + (shape.rows - first) * rowBytes, first});
  if (first < shape.rows) binding.segments.push_back({0, offset_, shape.rows - first});
  offset_ += shape.rows * rowBytes;
  bindings.push_back(binding);
}

TinyRuntime::TinyRuntime(RuntimeOptions options)
    : runtime(std::move(options), [this] {
        std::lock_guard<std::mutex> lock(mutex_);
        woken_ = true;
        changed_.notify_all();
      }) {
  const Completion loaded = await(runtime.load());
  if (loaded.failed) throw std::runtime_error(loaded.message);
  activations = runtime.createActivations(64);
}

TinyRuntime::~TinyRuntime() = default;

Completion TinyRuntime::await(EventId event) {
  while (done_.count(event) == 0) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return woken_; });
      woken_ = false;
    }
    std::vector<Completion> taken;
    runtime.channel().take(taken);
    for (Completion& completion : taken) done_[completion.event] = std::move(completion);
  }
  return std::move(done_[event]);
}

std::unique_ptr<HeadResult> TinyRuntime::pass(const std::vector<Range>& ranges, bool joined) {
  std::vector<int32_t> rows, pages, copies;
  for (const Range& range : ranges) {
    if (range.copyFrom >= 0) copies.insert(copies.end(), {int32_t(rows.size() / kBatchStride), range.copyFrom});
    for (uint32_t value : {range.row, range.first, range.tokens, uint32_t(range.mode), uint32_t(pages.size()),
                           uint32_t(range.pages.size()), uint32_t(-1)}) {
      rows.push_back(int32_t(value));
    }
    pages.insert(pages.end(), range.pages.begin(), range.pages.end());
  }
  const uint32_t batch = runtime.createBatch(rows, pages, copies);
  EventId last = runtime.submitCompute(ComputePart::Embed, 0, batch, activations, {});
  for (uint32_t layer = 0; layer < layers; layer++) {
    if (joined) last = runtime.submitCompute(ComputePart::Layer, layer, batch, activations, {last});
    for (ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish}) {
      if (!joined) last = runtime.submitCompute(part, layer, batch, activations, {last});
    }
  }
  last = runtime.submitCompute(ComputePart::Head, 0, batch, activations, {last});
  Completion completion = await(last);
  EXPECT_FALSE(completion.failed) << completion.message;
  runtime.freeBatch(batch);
  return std::unique_ptr<HeadResult>(static_cast<HeadResult*>(completion.result.release()));
}

ReferenceText::ReferenceText(const TinyModel& model, std::vector<int32_t> text)
    : decoder_(model.spec, model.weights), tokens_(std::move(text)) {
  for (size_t p = 0; p < tokens_.size(); p++) {
    logits_ = decoder_.step(tokens_[p], p);
    if (p + 1 < tokens_.size()) scores_.push_back(reference::logProbability(logits_, tokens_[p + 1]));
  }
}

void ReferenceText::expectScores(const HeadResult& head, double tolerance) const {
  ASSERT_EQ(head.scores.size(), scores_.size());
  for (size_t i = 0; i < scores_.size(); i++) EXPECT_NEAR(head.scores[i], scores_[i], tolerance) << "position " << i;
}

void ReferenceText::expectContinuation(TinyRuntime& tiny, uint32_t row, size_t length,
                                       const std::vector<int32_t>& pages, double tolerance) {
  for (uint32_t first = 0; tokens_.size() < length; first = uint32_t(tokens_.size()) - 1) {
    const auto head = tiny.pass({{row, first, uint32_t(tokens_.size()) - first, HeadMode::Sample, pages}});
    ASSERT_EQ(head->tokens.size(), 1u);
    const int32_t token = head->tokens[0];
    for (size_t other = 0; other < logits_.size(); other++)
      EXPECT_LE(logits_[other], logits_[size_t(token)] + tolerance);
    logits_ = decoder_.step(token, tokens_.size());
    tokens_.push_back(token);
  }
}

SequenceOptions sequenceOptions(std::vector<int32_t> tokens, uint32_t capacity, uint32_t promptTokens) {
  SequenceOptions options;
  options.promptTokens = promptTokens;
  options.tokens = std::move(tokens);
  options.capacityTokens = capacity;
  return options;
}

std::vector<int32_t> randomTokens(size_t count, uint32_t vocabulary, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = int32_t(random() % vocabulary);
  return tokens;
}

void expectSameBits(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0) << what;
}

void expectRefused(const std::function<void()>& call, const std::string& words, ErrorCode code) {
  try {
    call();
    ADD_FAILURE() << "accepted: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace spillway::fixture
