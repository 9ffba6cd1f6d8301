// The element types of weight tensors, as GGUF files have them, and one of our own.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace spillway {

// Numbers are GGML's type ids (ggml.h). Q4_G64 is in no file: 4 bits, groups of 64 inputs with scale and minimum, what
// compressed weights are stored in (FlexGen, section 4.3). A block of it: half scale, half minimum, 32 bytes of
// nibbles, the low ones being the first 32 values; 4.5 bits a weight.
enum class WeightType : uint8_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  BF16 = 30,
  Q4_G64 = 200
};

bool isWeightType(int number);
const char* weightTypeName(WeightType type);  // "Q4_1", as GGUF tools print it
size_t weightBlockElements(WeightType type);
size_t weightBlockBytes(WeightType type);
// Bytes of one row of `inputs` elements as it stands in a file; inputs is a multiple of the block.
size_t weightRowBytes(WeightType type, size_t inputs);

}  // namespace spillway
