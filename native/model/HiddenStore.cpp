#include "HiddenStore.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "../system/Error.h"

namespace spillway {

namespace {

constexpr const char* kName = "activations";

}  // namespace

// A task at work on the store, alone.
class HiddenStore::Use {
 public:
  explicit Use(HiddenStore& store) : store_(store) {
    std::lock_guard<std::mutex> lock(store.mutex_);
    if (store.busy_)
      throw Error(ErrorCode::InvalidArgument,
                  "hidden store: found in use, expected to be free: the tasks that use it must have ended");
    store.busy_ = true;
  }
  ~Use() {
    std::lock_guard<std::mutex> lock(store_.mutex_);
    store_.busy_ = false;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  HiddenStore& store_;
};

uint64_t HiddenStore::fileBytes(uint32_t hiddenSize, uint32_t tokens, uint32_t residentTokens) {
  return DirectFile::aligned(size_t(tokens - residentTokens) * hiddenSize * sizeof(float));
}

HiddenStore::HiddenStore(uint32_t hiddenSize, uint32_t tokens, uint32_t residentTokens,
                         std::shared_ptr<ExtentPool> extents)
    : hiddenSize_(hiddenSize),
      tokens_(tokens),
      residentTokens_(residentTokens),
      extentBytes_(fileBytes(hiddenSize, tokens, residentTokens)),
      extents_(std::move(extents)),
      resident_(DirectFile::aligned(bytesOf(residentTokens)), "activations") {
  if (extentBytes_ == 0) return;
  const std::optional<uint64_t> extent = extents_->take(extentBytes_);
  if (!extent) {
    throw Error(ErrorCode::InvalidArgument, "tokens: found " + std::to_string(tokens) + ", " +
                                                std::to_string(residentTokens) +
                                                " of them resident, expected at most " +
                                                std::to_string(extents_->largest()) + " bytes of them on disk, where " +
                                                std::to_string(extentBytes_) + " are needed (spill.hiddenBytes)");
  }
  extent_ = *extent;
}

HiddenStore::~HiddenStore() { extents_->giveBack(extent_, extentBytes_); }

size_t HiddenStore::inMemoryOf(uint32_t tokens) const {
  const uint64_t bytes = bytesOf(tokens), onDisk = (bytes * (tokens_ - residentTokens_) + tokens_ - 1) / tokens_;
  return DirectFile::aligned(bytes) - DirectFile::aligned(onDisk);
}

void HiddenStore::store(DirectFile* file, const uint8_t* hidden, uint32_t tokens) {
  const Use use(*this);
  held_ = 0;
  const size_t bytes = bytesOf(tokens), inMemory = inMemoryOf(tokens);
  if (inMemory != 0) std::memcpy(resident_.data(), hidden, std::min(bytes, inMemory));
  // Whole blocks are written: an activation buffer has room for them.
  if (bytes > inMemory) file->write(extent_, DirectFile::aligned(bytes - inMemory), hidden + inMemory, kName);
  held_ = tokens;
}

void HiddenStore::load(DirectFile* file, uint8_t* hidden, uint32_t tokens) {
  const Use use(*this);
  if (tokens > held_) {
    throw Error(ErrorCode::InvalidArgument, "hidden store: found " + std::to_string(held_) +
                                                " tokens stored, expected at least " + std::to_string(tokens));
  }
  const size_t bytes = bytesOf(tokens), inMemory = inMemoryOf(held_);
  if (inMemory != 0) std::memcpy(hidden, resident_.data(), std::min(bytes, inMemory));
  if (bytes > inMemory) file->read(extent_, DirectFile::aligned(bytes - inMemory), hidden + inMemory, kName);
}

}  // namespace spillway
