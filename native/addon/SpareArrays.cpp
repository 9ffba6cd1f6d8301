#include "SpareArrays.h"

#include <utility>

namespace spillway {

namespace {

// A share of the layers has two batches under way, and of each a few lengths.
constexpr size_t kMost = 16;

}  // namespace

void SpareArrays::giveBack(const Napi::Float32Array& array) {
  if (array.ElementLength() == 0) return;
  if (spare_.size() == kMost) spare_.erase(spare_.begin());
  spare_.push_back(Napi::Persistent(array));
}

Napi::Float32Array SpareArrays::take(Napi::Env env, size_t length) {
  for (size_t at = spare_.size(); at-- > 0;) {
    const Napi::Float32Array array = spare_[at].Value();
    // Somebody may have taken its memory away meanwhile: it has no length then.
    if (array.ElementLength() != length) continue;
    spare_.erase(spare_.begin() + static_cast<std::ptrdiff_t>(at));
    return array;
  }
  return Napi::Float32Array::New(env, length);
}

}  // namespace spillway
