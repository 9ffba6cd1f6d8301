// Rows of 4-bit floats (bitsandbytes' NF4 and FP4, NVFP4) as the floats of 16 or 32 bits that their own libraries make
// of them.
#pragma once
#include <cstdint>
#include <vector>

#include "../system/File.h"
#include "Weights.h"

namespace spillway {

// The run's rows in the binding's type. Throws FileError, naming file and role, for scales that are no finite numbers.
void readCodedRows(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                   uint8_t* rows);

// Calls check(place, bytes) for each of its tensors, all of it.
template <typename Check>
void forCodedTensors(const WeightBinding& binding, Check check) {
  const CodedFloats& coded = *binding.coded;
  const uint64_t elements = uint64_t(coded.tensorRows) * binding.columns;
  const uint64_t scales = (elements - 1) / coded.group + 1;
  check(coded.values, elements / 2);
  check(coded.scales, coded.scaleType == CodedFloats::Scale::Float32 ? 4 * scales : scales);
  if (coded.codebook) check(*coded.codebook, uint64_t(4) * CodedFloats::kCodes);
  if (coded.global) check(*coded.global, uint64_t(4));
  if (coded.scaleType != CodedFloats::Scale::Nested) return;
  check(coded.nestedMap, uint64_t(4) * 256);
  check(coded.nestedScales, 4 * ((scales - 1) / coded.nestedGroup + 1));
}

}  // namespace spillway
