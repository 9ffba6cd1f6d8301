// Arrays of numbers that JavaScript has done with, for numbers to come: else each of these would be garbage to collect.
#pragma once
#include <napi.h>

#include <vector>

namespace spillway {

class SpareArrays {
 public:
  void giveBack(const Napi::Float32Array& array);
  // One of this length, whatever is in it.
  Napi::Float32Array take(Napi::Env env, size_t length);
  void clear() { spare_.clear(); }

 private:
  std::vector<Napi::Reference<Napi::Float32Array>> spare_;  // the one that was given back last is last
};

}  // namespace spillway
