// Runtime's calls that submit tasks, and what tasks move.
#include <algorithm>
#include <string>
#include <utility>

#include "../system/Error.h"
#include "Runtime.h"
#include "../model/stagedPages.h"

namespace spillway {

namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& found, const std::string& expected) {
  throw Error(ErrorCode::InvalidArgument, field + ": found " + found + ", expected " + expected);
}

}  // namespace

void Runtime::checkLoaded(const char* call) const {
  checkOpen();
  if (!loaded_.load())
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": the weights are not loaded; await load() first");
}

// Embedding and head use global weights alone, and attention none at all.
bool Runtime::needsBuffer(ComputePart part, uint32_t layer) const {
  const bool multiplies = part == ComputePart::Project || part == ComputePart::Finish || part == ComputePart::Output ||
                          part == ComputePart::FeedForward || part == ComputePart::Layer;
  return multiplies && bytes_.streamed[layer] != 0;
}

bool Runtime::needsCacheBuffer(uint32_t layer, const Batch& batch) const {
  if (spec_.layerSpecs[layer].mixer != Mixer::Attention) return false;
  const uint32_t window = spec_.layerSpecs[layer].window;
  const FetchedPages* fetched = batch.fetchedIn(window);
  return (fetched != nullptr && fetched->any()) ||
         stages(batch, model_->cacheGroups().groupOf(layer), window, bounds_.pageTokens);
}

void Runtime::checkSquare(uint32_t layer, const Batch& batch) const {
  if (layer >= spec_.layers) refuse("layer", std::to_string(layer), "an index under " + std::to_string(spec_.layers));
  for (const BatchRange& range : batch.ranges) {
    if (range.sequence->freed)
      refuse("batch", "one whose row " + std::to_string(range.sequence->handle) + " was freed", "living rows");
  }
}

EventId Runtime::submitCompute(ComputePart part, uint32_t layer, uint32_t batchHandle, uint32_t activationsHandle,
                               const std::vector<EventId>& after, int32_t buffer, int32_t cacheBuffer) {
  checkLoaded("submitCompute");
  const std::shared_ptr<Batch>& batch = batches_.get(batchHandle);
  const std::shared_ptr<Activations>& activations = activations_.get(activationsHandle);
  checkSquare(layer, *batch);
  if (part == ComputePart::Embed && !spec_.embeds())
    refuse("part", "embed", "another one: the model's first layer is not among these");
  if (part == ComputePart::Head && !spec_.samples())
    refuse("part", "head", "another one: the model's last layer is not among these");
  if (buffer < kNoBuffer || buffer >= static_cast<int32_t>(buffers_)) {
    refuse("buffer", std::to_string(buffer),
           buffers_ == 0 ? "-1: nothing streams" : "-1, or an index under " + std::to_string(buffers_));
  }
  if (needsBuffer(part, layer) && buffer == kNoBuffer)
    refuse("buffer", "-1", "the buffer that layer " + std::to_string(layer) + " was loaded to: some of it streams");
  if (cacheBuffer < kNoBuffer || cacheBuffer >= static_cast<int32_t>(cacheBuffers_)) {
    refuse("cacheBuffer", std::to_string(cacheBuffer),
           cacheBuffers_ == 0 ? "-1: no pages move" : "-1, or an index under " + std::to_string(cacheBuffers_));
  }
  if (part == ComputePart::Layer && (link_ != nullptr || needsCacheBuffer(layer, *batch)))
    refuse(
        "part", "layer",
        "project, attend and finish: " + std::string(link_ != nullptr ? "a GPU computes" : "pages of the batch move"));
  const bool staged = part == ComputePart::Attend && needsCacheBuffer(layer, *batch);
  if (staged && cacheBuffer == kNoBuffer)
    refuse("cacheBuffer", "-1",
           cacheUp_ == nullptr ? "the staging buffer of the batch's pages on disk"
                               : "the buffer that the batch's pages were brought to");
  if (part == ComputePart::Attend && batch->pages.empty())
    refuse("part", "attend", "another one: the batch's pages are elsewhere");
  if (activations->capacityTokens < batch->tokens.size()) {
    refuse("activations", "a buffer of " + std::to_string(activations->capacityTokens) + " tokens",
           "room for the batch's " + std::to_string(batch->tokens.size()));
  }
  auto use = std::make_shared<BatchUse>(batch);
  const int32_t needed = needsBuffer(part, layer) ? buffer : kNoBuffer;
  const int32_t staging = staged ? cacheBuffer : kNoBuffer;
  TaskQueue& queue = part == ComputePart::Attend && attend_ != nullptr ? *attend_ : compute_;
  return queue.launch(
      [this, part, layer, use = std::move(use), activations, needed,
       staging](Launch& launch) -> std::unique_ptr<TaskResult> {
        auto result =
            model_->compute(part, layer, use->batch(), *activations, needed, staging, progress_.stopped, launch);
        // With the completion, so that nobody is woken once more to copy it.
        std::unique_ptr<HiddenResult> goes = goingToPeers(part, *activations, use->batch().tokens.size());
        return goes == nullptr ? std::move(result) : std::move(goes);
      },
      after);
}

EventId Runtime::submitLoadWeight(uint32_t layer, uint32_t buffer, const std::vector<EventId>& after, bool chosen) {
  checkLoaded("submitLoadWeight");
  if (layer >= spec_.layers) refuse("layer", std::to_string(layer), "an index under " + std::to_string(spec_.layers));
  if (bytes_.streamed[layer] == 0)
    refuse("layer", std::to_string(layer), "one that streams: all of this one is resident");
  if (buffer >= buffers_) refuse("buffer", std::to_string(buffer), "an index under " + std::to_string(buffers_));
  return (link_ != nullptr ? link_ : diskRead_)
      ->launch(
          [this, layer, buffer, chosen](Launch& launch) -> std::unique_ptr<TaskResult> {
            model_->loadWeight(layer, buffer, chosen, progress_.stopped, launch);
            return nullptr;
          },
          after);
}

void Runtime::checkCacheMove(const char* call, uint32_t layer, const Batch& batch, uint32_t buffer) const {
  checkSquare(layer, batch);
  if (cacheBuffers_ == 0)
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) +
                    ": found a runtime whose pages do not move, expected spill.pages or gpu.cacheBuffers above 0");
  if (buffer >= cacheBuffers_)
    refuse("buffer", std::to_string(buffer), "an index under " + std::to_string(cacheBuffers_));
}

EventId Runtime::submitLoadCache(uint32_t layer, uint32_t batchHandle, uint32_t buffer,
                                 const std::vector<EventId>& after) {
  checkLoaded("submitLoadCache");
  const std::shared_ptr<Batch>& batch = batches_.get(batchHandle);
  checkCacheMove("submitLoadCache", layer, *batch, buffer);
  return (cacheUp_ != nullptr ? cacheUp_ : diskRead_)
      ->launch(
          [this, layer, buffer,
           use = std::make_shared<BatchUse>(batch)](Launch& launch) -> std::unique_ptr<TaskResult> {
            return model_->loadCache(layer, use->batch(), buffer, progress_.stopped, launch);
          },
          after);
}

EventId Runtime::submitStoreCache(uint32_t layer, uint32_t batchHandle, uint32_t buffer,
                                  const std::vector<EventId>& after) {
  checkLoaded("submitStoreCache");
  const std::shared_ptr<Batch>& batch = batches_.get(batchHandle);
  checkCacheMove("submitStoreCache", layer, *batch, buffer);
  return (cacheDown_ != nullptr ? cacheDown_ : diskWrite_)
      ->launch(
          [this, layer, buffer,
           use = std::make_shared<BatchUse>(batch)](Launch& launch) -> std::unique_ptr<TaskResult> {
            model_->storeCache(layer, use->batch(), buffer, launch);
            return nullptr;
          },
          after);
}

void Runtime::checkSpills(const char* call) const {
  if (diskWrite_ == nullptr)
    throw Error(ErrorCode::InvalidArgument,
                std::string(call) + ": found a runtime without spill options, expected one with them");
}

uint32_t Runtime::createHiddenStore(uint32_t tokens, uint32_t residentTokens) {
  checkOpen();
  checkSpills("createHiddenStore");
  if (tokens < 1 || tokens > bounds_.limits.tokensPerSquare) {
    refuse("tokens", std::to_string(tokens),
           "1 to limits.tokensPerSquare, " + std::to_string(bounds_.limits.tokensPerSquare));
  }
  if (residentTokens > tokens)
    refuse("residentTokens", std::to_string(residentTokens), "at most the " + std::to_string(tokens) + " tokens");
  return hiddenStores_.add(
      std::make_shared<HiddenStore>(spec_.hiddenWidth(), tokens, residentTokens, model_->hiddenExtents()));
}

void Runtime::freeHiddenStore(uint32_t store) {
  checkOpen();
  hiddenStores_.remove(store);
}

void Runtime::checkHiddenMove(const HiddenStore& store, const Activations& activations, uint32_t tokens) const {
  const uint32_t most = std::min(store.tokens(), activations.capacityTokens);
  if (tokens < 1 || tokens > most)
    refuse("tokens", std::to_string(tokens),
           "1 to " + std::to_string(most) + ", what the store and the activations have room for");
}

EventId Runtime::submitLoadActivation(uint32_t storeHandle, uint32_t activationsHandle, uint32_t tokens,
                                      const std::vector<EventId>& after) {
  checkLoaded("submitLoadActivation");
  const std::shared_ptr<HiddenStore>& store = hiddenStores_.get(storeHandle);
  const std::shared_ptr<Activations>& activations = activations_.get(activationsHandle);
  checkHiddenMove(*store, *activations, tokens);
  return diskRead_->launch(
      [this, store, activations, tokens](Launch& launch) -> std::unique_ptr<TaskResult> {
        model_->loadHidden(*store, *activations, tokens, launch);
        return nullptr;
      },
      after);
}

EventId Runtime::submitStoreActivation(uint32_t storeHandle, uint32_t activationsHandle, uint32_t tokens,
                                       const std::vector<EventId>& after) {
  checkLoaded("submitStoreActivation");
  const std::shared_ptr<HiddenStore>& store = hiddenStores_.get(storeHandle);
  const std::shared_ptr<Activations>& activations = activations_.get(activationsHandle);
  checkHiddenMove(*store, *activations, tokens);
  return diskWrite_->launch(
      [this, store, activations, tokens](Launch& launch) -> std::unique_ptr<TaskResult> {
        model_->storeHidden(*store, *activations, tokens, launch);
        return nullptr;
      },
      after);
}

}  // namespace spillway
