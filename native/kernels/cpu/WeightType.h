// The element types of weight tensors: WeightTypes.def says what there is to know of each.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <type_traits>

namespace spillway {

enum class WeightType : uint8_t {
#define SPILLWAY_WEIGHT_TYPE(name, id, ...) name = id,
#include "WeightTypes.def"
};

constexpr WeightType kWeightTypes[] = {
#define SPILLWAY_WEIGHT_TYPE(name, ...) WeightType::name,
#include "WeightTypes.def"
};
constexpr int kFirstOwnWeightType = 200;  // from here on in no file

// Calls function(integral constant of the type): the way from a type known at run time to code that is made for each.
template <typename Function>
static inline void withWeightType(WeightType type, Function function) {
  switch (type) {
#define SPILLWAY_WEIGHT_TYPE(name, ...) \
  case WeightType::name: return function(std::integral_constant<WeightType, WeightType::name>());
#include "WeightTypes.def"
  }
}

static constexpr size_t weightBlockElements(WeightType type) {
  switch (type) {
#define SPILLWAY_WEIGHT_TYPE(name, id, elements, ...) \
  case WeightType::name: return elements;
#include "WeightTypes.def"
  }
  return 1;
}

static constexpr size_t weightBlockBytes(WeightType type) {
  switch (type) {
#define SPILLWAY_WEIGHT_TYPE(name, id, elements, bytes, ...) \
  case WeightType::name: return bytes;
#include "WeightTypes.def"
  }
  return 0;
}

// Types of which each element stands for itself: F32, F16 and BF16.
static constexpr bool isFloatType(WeightType type) { return weightBlockElements(type) == 1; }

// Bytes of one row of `inputs` elements as it stands in a file; inputs is a multiple of the block.
static constexpr size_t weightRowBytes(WeightType type, size_t inputs) {
  return inputs / weightBlockElements(type) * weightBlockBytes(type);
}

static inline const char* weightTypeName(WeightType type) {
  switch (type) {
#define SPILLWAY_WEIGHT_TYPE(name, ...) \
  case WeightType::name: return #name;
#include "WeightTypes.def"
  }
  return "";
}

static constexpr bool isWeightType(int number) {
  for (const WeightType type : kWeightTypes)
    if (static_cast<int>(type) == number) return true;
  return false;
}

}  // namespace spillway
