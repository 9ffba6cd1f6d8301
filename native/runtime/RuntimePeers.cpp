// Runtime's calls for a part of a model's layers, or a share of them: what comes from its peers, and goes to them.
#include <algorithm>
#include <string>
#include <utility>

#include "../system/Clock.h"
#include "../system/Error.h"
#include "Runtime.h"

namespace spillway {

namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& found, const std::string& expected) {
  throw Error(ErrorCode::InvalidArgument, field + ": found " + found + ", expected " + expected);
}

}  // namespace

EventId Runtime::submitReadHidden(uint32_t handle, uint32_t tokens, const std::vector<EventId>& after) {
  checkLoaded("submitReadHidden");
  const std::shared_ptr<Activations>& activations = activations_.get(handle);
  if (peers_ == nullptr)
    throw Error(ErrorCode::InvalidArgument,
                "submitReadHidden: found a runtime of all layers, expected one of a part of them");
  if (tokens < 1 || tokens > activations->capacityTokens)
    refuse("tokens", std::to_string(tokens), "1 to the buffer's " + std::to_string(activations->capacityTokens));
  return peers_->launch(
      [this, activations, count = size_t(tokens) * spec_.hiddenSize](Launch& launch) -> std::unique_ptr<TaskResult> {
        auto result = std::make_unique<HiddenResult>();
        result->hidden.resize(count);
        model_->readHidden(*activations, result->hidden.data(), count, launch);
        return result;
      },
      after);
}

std::unique_ptr<HiddenResult> Runtime::goingToPeers(ComputePart part, const Activations& activations,
                                                    size_t tokens) const {
  const auto copied = [tokens](const float* from, size_t width) {
    auto result = std::make_unique<HiddenResult>();
    result->hidden.assign(from, from + tokens * width);
    return result;
  };
  if (part == ComputePart::Output || part == ComputePart::FeedForward)
    return copied(activations.branch, spec_.hiddenSize);
  if (part == ComputePart::Embed && spec_.shares > 1) return copied(activations.hidden, spec_.hiddenSize);
  if (!spec_.attendsByRows()) return nullptr;
  if (part == ComputePart::Attend) return copied(activations.rows->queries, size_t(spec_.rowHeads) * spec_.headDim);
  if (part != ComputePart::Project) return nullptr;
  const size_t queries = spec_.queryWidth(), keys = spec_.keyWidth();
  auto result = std::make_unique<HiddenResult>();
  result->hidden.resize(tokens * spec_.projectedWidth());
  float* to = result->hidden.data();
  for (size_t t = 0; t < tokens; t++) {
    to = std::copy_n(activations.queries + t * queries, queries, to);
    to = std::copy_n(activations.keys + t * keys, keys, to);
    to = std::copy_n(activations.values + t * keys, keys, to);
  }
  return result;
}

EventId Runtime::createEvent() {
  checkOpen();
  return *promised_.insert(events_.create()).first;
}

void Runtime::completeEvent(EventId event) { settle(event, false, ErrorCode::Internal, {}); }

void Runtime::failEvent(EventId event, const std::string& message) { settle(event, true, ErrorCode::Peer, message); }

void Runtime::settle(EventId event, bool failed, ErrorCode code, std::string message) {
  checkOpen();
  if (promised_.erase(event) == 0)
    refuse("event", std::to_string(event), "one of createEvent() that has not completed");
  Completion completion;
  completion.event = event;
  completion.startSeconds = completion.endSeconds = monotonicSeconds();
  completion.failed = failed;
  completion.code = code;
  completion.message = std::move(message);
  channel_.post(std::move(completion));
  events_.complete(event, failed);
}

void Runtime::cancelPromised() {
  for (const EventId event : promised_) {
    Completion completion;
    completion.event = event;
    completion.startSeconds = completion.endSeconds = monotonicSeconds();
    completion.failed = true;
    completion.code = ErrorCode::Cancelled;
    completion.message = "cancelled";
    channel_.post(std::move(completion));
    events_.complete(event, true);
  }
  promised_.clear();
}

void Runtime::writeHidden(uint32_t handle, const float* hidden, size_t count, bool branch) {
  checkOpen();
  if (branch && spec_.shares == 1)
    throw Error(ErrorCode::InvalidArgument,
                "writeHidden: found a branch for a runtime of whole layers, expected one of a share of them");
  const std::shared_ptr<Activations>& activations = activations_.get(handle);
  const size_t most = size_t(activations->capacityTokens) * spec_.hiddenSize;
  if (count == 0 || count % spec_.hiddenSize != 0 || count > most) {
    refuse("hidden", std::to_string(count) + " numbers",
           "whole tokens of " + std::to_string(spec_.hiddenSize) + ", at most " + std::to_string(most));
  }
  if (branch)
    std::copy_n(hidden, count, activations->branch);
  else
    model_->writeHidden(*activations, hidden, count);
}

void Runtime::writeRows(uint32_t handle, uint32_t batchHandle, uint32_t layer, const float* from, size_t count) {
  checkOpen();
  const std::shared_ptr<Activations>& activations = activations_.get(handle);
  const std::shared_ptr<Batch>& batch = batches_.get(batchHandle);
  if (activations->rows == nullptr)
    throw Error(ErrorCode::InvalidArgument,
                "writeRows: found a runtime that attends to all rows, expected one with decoder.share.attention");
  checkSquare(layer, *batch);
  const size_t tokens = batch->tokens.size(), queries = size_t(spec_.rowHeads) * spec_.headDim,
               keys = size_t(spec_.rowKvHeads) * spec_.headDim, expected = tokens * (queries + 2 * keys);
  if (count != expected || tokens > activations->capacityTokens)
    refuse("rows", std::to_string(count) + " numbers",
           std::to_string(expected) + ", queries, keys and values of the batch's " + std::to_string(tokens) +
               " tokens, at most " + std::to_string(activations->capacityTokens));
  Activations& rows = *activations->rows;
  for (size_t t = 0; t < tokens; t++) {
    std::copy_n(from, queries, rows.queries + t * queries);
    std::copy_n(from + queries, keys, rows.keys + t * keys);
    std::copy_n(from + queries + keys, keys, rows.values + t * keys);
    from += queries + 2 * keys;
  }
  rows.keysSerial = batch->serial;
  rows.keysLayer = layer;
}

void Runtime::writeAttended(uint32_t handle, const float* attended, size_t count) {
  checkOpen();
  const std::shared_ptr<Activations>& activations = activations_.get(handle);
  if (activations->rows == nullptr)
    throw Error(ErrorCode::InvalidArgument,
                "writeAttended: found a runtime that attends to all rows, expected one with decoder.share.attention");
  const size_t width = spec_.queryWidth(), most = activations->capacityTokens * width;
  if (count == 0 || count % width != 0 || count > most)
    refuse("attended", std::to_string(count) + " numbers",
           "whole tokens of " + std::to_string(width) + ", at most " + std::to_string(most));
  std::copy_n(attended, count, activations->queries);
}

void Runtime::appendTokens(const std::vector<int32_t>& rows, const std::vector<int32_t>& tokens) {
  checkOpen();
  if (rows.size() != tokens.size())
    refuse("tokens", std::to_string(tokens.size()), std::to_string(rows.size()) + ", one for each row");
  const auto vocabulary = static_cast<int32_t>(spec_.vocabularySize);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary)
      refuse("tokens", std::to_string(token), "an id under " + std::to_string(vocabulary));
  }
  std::vector<std::shared_ptr<Sequence>> found;
  for (const int32_t row : rows) {
    if (row < 0) refuse("rows", std::to_string(row), "handles of rows");
    found.push_back(sequences_.get(static_cast<uint32_t>(row)));
  }
  for (size_t i = 0; i < found.size(); i++) found[i]->append(tokens[i]);
}

std::vector<uint8_t> Runtime::readPages(const std::vector<int32_t>& pages) const {
  checkLoaded("readPages");
  std::vector<uint8_t> bytes(model_->bytesOfPages(pages.size()));
  model_->readPages(pages, bytes.data());
  return bytes;
}

void Runtime::writePages(const std::vector<int32_t>& pages, const std::vector<uint8_t>& bytes) {
  checkLoaded("writePages");
  const size_t expected = model_->bytesOfPages(pages.size());
  if (bytes.size() != expected)
    refuse("bytes", std::to_string(bytes.size()),
           std::to_string(expected) + " of " + std::to_string(pages.size()) + " pages");
  model_->writePages(pages, bytes.data());
}

}  // namespace spillway
