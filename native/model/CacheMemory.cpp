#include "CacheMemory.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "../system/Error.h"
#include "../system/Scratch.h"

namespace spillway {

CacheMemory::CacheMemory(std::vector<CacheLayout> layouts, CacheGroups groups, uint32_t pages, const DecoderSpec* spec,
                         uint32_t states)
    : layouts_(std::move(layouts)), groups_(std::move(groups)), pages_(pages), firstPages_(layouts_.size(), 0) {
  std::vector<size_t> ends(groups_.count(), 0);  // of each group's layers so far, within a page of the pool
  bool alike = true;
  for (size_t layer = 0; layer < layouts_.size(); layer++) {
    const size_t bytes = cachePageBytes(layouts_[layer]);
    pageBytes_ = std::max(pageBytes_, bytes);
    alike = alike && bytes == cachePageBytes(layouts_.front());
    if (!groups_.keepsOwn(layer)) continue;
    size_t& end = ends[groups_.groupOf(layer)];
    firstPages_[layer] = end;
    end += bytes;
  }
  const size_t count = size_t(groups_.width()) * pages;  // at most 2^12 x 2^32
  if (count > std::numeric_limits<size_t>::max() / 2 / pageBytes_) {
    throw Error(ErrorCode::Memory, "the KV cache: " + std::to_string(count) + " pages of " +
                                       std::to_string(pageBytes_) + " bytes are more than can be addressed");
  }
  stride_ = alike ? pageBytes_ : *std::max_element(ends.begin(), ends.end());
  bytes_ = alike ? count * pageBytes_ : stride_ * pages;
  for (size_t layer = 0; layer < layouts_.size(); layer++) {
    if (alike) firstPages_[layer] = size_t(groups_.placeOf(layer)) * pages * pageBytes_;
    if (!alike && spec != nullptr && spec->layerSpecs[layer].keysOf != LayerSpec::kOwnKeys)
      firstPages_[layer] = firstPages_[spec->layerSpecs[layer].keysOf];
  }
  // Rows of a part of a model have their states' numbers even where none of its layers remembers one.
  states_ = states;
  if (spec == nullptr || !spec->remembers()) return;
  for (const LayerSpec& layer : spec->layerSpecs) {
    stateOffsets_.push_back(stateBytes_);
    const size_t floats = spec->stateFloats(layer);
    if (layer.remembers()) stateBytes_ += Scratch::aligned((kStateHeader + floats) * sizeof(float));
  }
  if (states != 0 && stateBytes_ > std::numeric_limits<size_t>::max() / 2 / states)
    throw Error(ErrorCode::Memory, "what layers remember of " + std::to_string(states) + " rows overflows");
}

}  // namespace spillway
