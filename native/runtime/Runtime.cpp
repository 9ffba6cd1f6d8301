#include "Runtime.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "../system/Error.h"

namespace spillway {

namespace {

constexpr uint32_t kMostHandles = 1u << 20;
constexpr uint32_t kMostActivations = 1u << 12;
constexpr size_t kAhead =
    4;  // tasks of a queue that a device has been given: enough that it need not wait for the host between two of them

[[noreturn]] void refuse(const std::string& field, const std::string& found, const std::string& expected) {
  throw Error(ErrorCode::InvalidArgument, field + ": found " + found + ", expected " + expected);
}

void checkSampling(const SamplingParameters& sampling) {
  const auto check = [](const char* field, float value, bool fine, const char* expected) {
    if (!fine || !std::isfinite(value)) refuse(field, std::to_string(value), expected);
  };
  check("temperature", sampling.temperature, sampling.temperature >= 0, "a finite number of at least 0");
  check("topP", sampling.topP, sampling.topP > 0 && sampling.topP <= 1, "a number in (0, 1]");
  check("minP", sampling.minP, sampling.minP >= 0 && sampling.minP <= 1, "a number in [0, 1]");
  check("repetitionPenalty", sampling.repetitionPenalty, sampling.repetitionPenalty > 0, "a finite number above 0");
}

void checkAdjustments(const LogitAdjustments& adjustments) {
  const auto check = [](const char* field, float value) {
    if (!std::isfinite(value)) refuse(field, std::to_string(value), "a finite number");
  };
  check("presencePenalty", adjustments.presencePenalty);
  check("frequencyPenalty", adjustments.frequencyPenalty);
  for (const float bias : adjustments.biases) check("biases", bias);
  if (adjustments.biases.size() != adjustments.biasedTokens.size())
    refuse("biases", std::to_string(adjustments.biases.size()),
           "one for each of " + std::to_string(adjustments.biasedTokens.size()) + " tokens");
  for (const std::vector<int32_t>& word : adjustments.badWords)
    if (word.empty()) refuse("badWords", "a word without tokens", "at least one token each");
}

}  // namespace

Runtime::Runtime(RuntimeOptions&& options, std::function<void()> wake)
    : model_(std::make_unique<Model>(std::move(options))),
      sequences_("row", kMostHandles),
      batches_("batch", kMostHandles),
      activations_("activations", kMostActivations),
      hiddenStores_("hidden store", kMostHandles),
      channel_(std::move(wake)),
      compute_(model_->options().gpu ? "spillway-gpu" : "spillway-cpu", events_, channel_, ahead(),
               // Sums of shares take a while to come round: other batches are computed meanwhile.
               attendsApart(model_->options()) || model_->spec().shares > 1 ? TaskQueue::Order::Ready
                                                                            : TaskQueue::Order::Submitted) {
  model_->reserve(&traffic_);
  instructionSet_ = model_->options().instructionSet;
  gpuProducts_ = model_->gpuProducts();
  if (model_->options().gpu && gpuProducts_ != "own") longPromptTokens_ = model_->options().gpu->longPromptTokens;
  bytes_ = model_->bytes();
  spec_ = model_->spec();
  buffers_ = bytes_.weightBuffers == 0 ? 0 : model_->options().weights->buffers;
  bounds_ = {model_->options().limits, model_->options().pages, model_->options().pageTokens, spec_.contextTokens};
  bounds_.wholeRows = !spec_.causal;
  bounds_.pagesElsewhere = spec_.attendsByRows();
  if (const std::optional<GpuOptions>& gpu = model_->options().gpu) {
    buffers_ = bytes_.gpu->weightBuffers == 0 ? 0 : gpu->buffers;
    bounds_.pages += gpu->pages;
    bounds_.devicePages = gpu->pages;
    bounds_.mostPages = mostPageEntries(model_->options());
    link_ = std::make_unique<TaskQueue>("spillway-link", events_, channel_, ahead());
    if (attendsApart(model_->options()))
      attend_ = std::make_unique<TaskQueue>("spillway-attend", events_, channel_, ahead());
    cacheBuffers_ = gpu->cacheBuffers;
    bounds_.cacheBufferPages = gpu->cacheBufferPages;
    bounds_.sharesAttention = gpu->sharesAttention;
    if (cacheBuffers_ != 0) {
      cacheUp_ = std::make_unique<TaskQueue>("spillway-cache", events_, channel_, ahead());
      cacheDown_ = std::make_unique<TaskQueue>("spillway-store", events_, channel_, ahead());
    }
  }
  if (const std::optional<SpillOptions>& spill = model_->options().spill) {
    diskWrite_ = std::make_unique<TaskQueue>("spillway-write", events_, channel_);
    if (spill->pages != 0) cacheBuffers_ = spill->buffers;
    bounds_.diskPages = spill->pages;
    bounds_.bufferPages = spill->bufferPages;
  }
  for (const LayerSpec& layer : spec_.layerSpecs) {
    if (std::count(bounds_.windows.begin(), bounds_.windows.end(), layer.window) == 0)
      bounds_.windows.push_back(layer.window);
  }
  bounds_.evictionSinks = spec_.evictionSinks;
  bounds_.evictionWindow = spec_.evictionWindow;
  const CacheGroups& groups = model_->cacheGroups();
  if (!model_->options().gpu) {
    bounds_.groupWindows.resize(groups.count(), 1);
    for (uint32_t layer = 0; layer < spec_.layers; layer++) {
      if (groups.groupOf(layer) == CacheGroups::kNone) continue;
      uint32_t& widest = bounds_.groupWindows[groups.groupOf(layer)];
      const uint32_t window = spec_.layerSpecs[layer].window;
      widest = widest == 0 || window == 0 ? 0 : std::max(widest, window);
    }
  }
  for (const LayerSpec& layer : spec_.layerSpecs) {
    if (layer.window == 0) bounds_.widestWindow = 0;
    if (layer.window == 0) break;
    bounds_.widestWindow = std::max(bounds_.widestWindow, layer.window);
  }
  if ((buffers_ != 0 && link_ == nullptr) || diskWrite_ != nullptr)
    diskRead_ = std::make_unique<TaskQueue>("spillway-disk", events_, channel_, ahead());
  if (spec_.hasPeers()) peers_ = std::make_unique<TaskQueue>("spillway-peers", events_, channel_);
  progress_.changed = [this] { channel_.notify(); };
}

size_t Runtime::ahead() const { return model_->options().gpu ? kAhead : 0; }

Runtime::~Runtime() {
  close();
  join();
}

void Runtime::checkOpen() const {
  if (closing_) throw Error(ErrorCode::InvalidArgument, "the runtime is closed");
}

EventId Runtime::load() {
  checkOpen();
  if (loading_) throw Error(ErrorCode::InvalidArgument, "load: found a second call, expected one");
  loading_ = true;
  return compute_.submit(
      [this]() -> std::unique_ptr<TaskResult> {
        model_->load(progress_);
        if (bytes_.gpu) bytes_.gpu->unpinned = model_->bytes().gpu->unpinned;
        loaded_.store(true);
        return nullptr;
      },
      {});
}

uint32_t Runtime::createSequence(SequenceOptions&& options) {
  checkOpen();
  const int32_t vocabulary = static_cast<int32_t>(spec_.vocabularySize);
  if (options.tokens.empty()) refuse("tokens", "none", "at least one");
  // The last sampled token is never computed, so it needs no position.
  if (options.capacityTokens > spec_.contextTokens + 1) {
    refuse("capacityTokens", std::to_string(options.capacityTokens),
           "at most one more than the model's context of " + std::to_string(spec_.contextTokens));
  }
  if (options.tokens.size() > options.capacityTokens) {
    refuse("capacityTokens", std::to_string(options.capacityTokens),
           "at least the " + std::to_string(options.tokens.size()) + " tokens given");
  }
  const auto checkIds = [vocabulary](const char* name, const std::vector<int32_t>& ids) {
    const auto wrong =
        std::find_if(ids.begin(), ids.end(), [vocabulary](int32_t id) { return id < 0 || id >= vocabulary; });
    if (wrong == ids.end()) return;
    refuse(std::string(name) + "[" + std::to_string(wrong - ids.begin()) + "]", std::to_string(*wrong),
           "an id under " + std::to_string(vocabulary));
  };
  checkIds("tokens", options.tokens);
  if (!spec_.causal && options.pooling == Pooling::None)
    refuse("pooling", "none", "some: the model is an encoder, which has no head to sample with");
  if (options.secondText != kAllTokens && spec_.tokenTypes != 0 && spec_.tokenTypes < 2)
    refuse("secondText", std::to_string(options.secondText), "none: the model's tokens are of one type");
  checkIds("candidates", options.candidates);
  if (options.candidates.size() > spec_.vocabularySize)
    refuse("candidates", std::to_string(options.candidates.size()),
           "at most the vocabulary's " + std::to_string(vocabulary));
  if (options.logprobs < -1 || options.logprobs > vocabulary) {
    refuse("logprobs", std::to_string(options.logprobs), "-1 to the vocabulary's " + std::to_string(vocabulary));
  }
  if (options.grammar != nullptr && options.grammar->tokens() > spec_.vocabularySize) {
    refuse("grammar", "one of " + std::to_string(options.grammar->tokens()) + " tokens",
           "at most the vocabulary's " + std::to_string(spec_.vocabularySize));
  }
  checkSampling(options.sampling);
  if (options.adjustments != nullptr) {
    checkAdjustments(*options.adjustments);
    checkIds("biasedTokens", options.adjustments->biasedTokens);
    checkIds("endTokens", options.adjustments->endTokens);
    for (const std::vector<int32_t>& word : options.adjustments->badWords) checkIds("badWords", word);
  }
  if (model_->states() != 0 || options.state != -1) {
    if (options.state < 0 || static_cast<uint32_t>(options.state) >= model_->states())
      refuse("state", std::to_string(options.state),
             model_->states() == 0 ? "none: no layer remembers one"
                                   : "a number under " + std::to_string(model_->states()));
    statesTaken_.resize(model_->states(), false);
    if (statesTaken_[static_cast<size_t>(options.state)])
      refuse("state", std::to_string(options.state), "one that no other row has");
    statesTaken_[static_cast<size_t>(options.state)] = true;
  }
  auto sequence = std::make_shared<Sequence>(std::move(options));
  const uint32_t handle = sequences_.add(sequence);
  sequence->handle = handle;
  return handle;
}

void Runtime::freeSequence(uint32_t handle) {
  checkOpen();
  const std::shared_ptr<Sequence> sequence = sequences_.get(handle);
  if (sequence->busyBatches.load() != 0) refuse("row", std::to_string(handle), "one that no running task works on");
  sequence->freed = true;
  if (sequence->state >= 0) statesTaken_[static_cast<size_t>(sequence->state)] = false;
  sequences_.remove(handle);
}

uint32_t Runtime::createActivations(uint32_t tokens) {
  checkOpen();
  if (tokens < 1 || tokens > bounds_.limits.tokensPerSquare) {
    refuse("tokens", std::to_string(tokens),
           "1 to limits.tokensPerSquare, " + std::to_string(bounds_.limits.tokensPerSquare));
  }
  return activations_.add(model_->createActivations(tokens));
}

void Runtime::freeActivations(uint32_t activations) {
  checkOpen();
  activations_.remove(activations);
}

uint32_t Runtime::createBatch(const std::vector<int32_t>& rows, const std::vector<int32_t>& pages,
                              const std::vector<int32_t>& copies, const std::vector<int32_t>& comes) {
  checkOpen();
  return batches_.add(makeBatch(rows, pages, copies, comes, bounds_, sequences_));
}

void Runtime::freeBatch(uint32_t batch) {
  checkOpen();
  batches_.remove(batch);
}

// Of the queues that there are, all but that which computes.
template <typename Body>
void Runtime::forOthers(Body body) {
  for (const auto* queue : {&attend_, &diskRead_, &diskWrite_, &link_, &cacheUp_, &cacheDown_, &peers_}) {
    if (*queue != nullptr) body(**queue);
  }
}

void Runtime::cancelAll() {
  checkOpen();
  compute_.cancelAll();
  forOthers([](TaskQueue& queue) { queue.cancelAll(); });
  cancelPromised();
}

void Runtime::close() {
  if (closing_) return;
  closing_ = true;
  progress_.stopped.store(true);
  sequences_.clear();
  batches_.clear();
  activations_.clear();
  hiddenStores_.clear();
  forOthers([](TaskQueue& queue) { queue.stop(); });
  cancelPromised();
  compute_.stop([this] {
    forOthers([](TaskQueue& queue) { queue.join(); });
    model_.reset();
    closed_.store(true);
    channel_.notify();
  });
}

void Runtime::join() { compute_.join(); }

}  // namespace spillway
