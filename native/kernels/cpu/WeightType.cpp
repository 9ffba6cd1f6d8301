#include "WeightType.h"

namespace spillway {
namespace {

struct Entry {
  WeightType type;
  const char* name;
  size_t elements;
  size_t bytes;
};

// Bytes of a block: scales, bit planes and nibbles, as `fileGroups.cpp` takes them apart.
constexpr Entry kTypes[] = {
    {WeightType::F32, "F32", 1, 4},       {WeightType::F16, "F16", 1, 2},         {WeightType::BF16, "BF16", 1, 2},
    {WeightType::Q4_0, "Q4_0", 32, 18},   {WeightType::Q4_1, "Q4_1", 32, 20},     {WeightType::Q5_0, "Q5_0", 32, 22},
    {WeightType::Q5_1, "Q5_1", 32, 24},   {WeightType::Q8_0, "Q8_0", 32, 34},     {WeightType::Q2_K, "Q2_K", 256, 84},
    {WeightType::Q3_K, "Q3_K", 256, 110}, {WeightType::Q4_K, "Q4_K", 256, 144},   {WeightType::Q5_K, "Q5_K", 256, 176},
    {WeightType::Q6_K, "Q6_K", 256, 210}, {WeightType::Q4_G64, "Q4_G64", 64, 36},
};

const Entry* find(int number) {
  for (const Entry& entry : kTypes)
    if (static_cast<int>(entry.type) == number) return &entry;
  return nullptr;
}

}  // namespace

bool isWeightType(int number) { return find(number) != nullptr; }
const char* weightTypeName(WeightType type) { return find(static_cast<int>(type))->name; }
size_t weightBlockElements(WeightType type) { return find(static_cast<int>(type))->elements; }
size_t weightBlockBytes(WeightType type) { return find(static_cast<int>(type))->bytes; }
size_t weightRowBytes(WeightType type, size_t inputs) {
  return inputs / weightBlockElements(type) * weightBlockBytes(type);
}

}  // namespace spillway
