#include "CacheMemory.h"

#include <limits>
#include <string>
#include <utility>

#include "../system/Error.h"
#include "../system/Scratch.h"

namespace spillway {

CacheMemory::CacheMemory(const CacheLayout& layout, CacheGroups groups, uint32_t pages, const DecoderSpec* spec,
                         uint32_t states)
    : layout_(layout), groups_(std::move(groups)), pages_(pages), pageBytes_(cachePageBytes(layout)) {
  const size_t count = size_t(groups_.width()) * pages;  // at most 2^12 x 2^32
  if (count > std::numeric_limits<size_t>::max() / 2 / pageBytes_) {
    throw Error(ErrorCode::Memory, "the KV cache: " + std::to_string(count) + " pages of " +
                                       std::to_string(pageBytes_) + " bytes are more than can be addressed");
  }
  bytes_ = count * pageBytes_;
  if (spec == nullptr || !spec->remembers()) return;
  states_ = states;
  for (const LayerSpec& layer : spec->layerSpecs) {
    stateOffsets_.push_back(stateBytes_);
    const size_t floats = spec->stateFloats(layer.mixer);
    if (layer.mixer != Mixer::Attention) stateBytes_ += Scratch::aligned((kStateHeader + floats) * sizeof(float));
  }
  if (states != 0 && stateBytes_ > std::numeric_limits<size_t>::max() / 2 / states)
    throw Error(ErrorCode::Memory, "what layers remember of " + std::to_string(states) + " rows overflows");
}

}  // namespace spillway
