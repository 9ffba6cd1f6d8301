#include "codedRows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "../kernels/cpu/floatFormats.h"
#include "../system/Error.h"
#include "float8Rows.h"

namespace spillway {

namespace {

using Scale = CodedFloats::Scale;

// Bits: sign, two of the exponent, one of the mantissa.
constexpr std::array<float, CodedFloats::kCodes> kE2M1Values = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                                                -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

std::vector<float> readFloats(const std::vector<File>& files, const CodedFloats::Place& place, uint64_t first,
                              size_t count, const std::string& label) {
  std::vector<float> floats(count);
  files[place.file].read(place.offset + first * sizeof(float), reinterpret_cast<uint8_t*>(floats.data()),
                         count * sizeof(float), label);
  return floats;
}

// Those of the groups that elements `first` to `end` of the tensor are in.
std::vector<float> readScales(const WeightBinding& binding, const std::vector<File>& files, uint64_t first,
                              uint64_t end, const std::string& label) {
  const CodedFloats& coded = *binding.coded;
  const uint64_t from = first / coded.group;
  const size_t count = static_cast<size_t>((end - 1) / coded.group + 1 - from);
  std::vector<float> scales;
  if (coded.scaleType == Scale::Float32) {
    scales = readFloats(files, coded.scales, from, count, label);
  } else {
    std::vector<uint8_t> bytes(count);
    files[coded.scales.file].read(coded.scales.offset + from, bytes.data(), count, label);
    scales.resize(count);
    if (coded.scaleType == Scale::Float8) {
      for (size_t i = 0; i < count; i++) scales[i] = float8ToFloat(bytes[i]);
    } else {
      const std::vector<float> map = readFloats(files, coded.nestedMap, 0, 256, label);
      const uint64_t above = from / coded.nestedGroup;
      const std::vector<float> nested =
          readFloats(files, coded.nestedScales, above,
                     static_cast<size_t>((from + count - 1) / coded.nestedGroup + 1 - above), label);
      for (size_t i = 0; i < count; i++) {
        const float product = map[bytes[i]] * nested[(from + i) / coded.nestedGroup - above];
        scales[i] = product + coded.nestedOffset;
      }
    }
  }
  if (coded.global) {
    const float all = readFloats(files, *coded.global, 0, 1, label)[0];
    for (float& scale : scales) scale = coded.globalDivides ? scale / all : scale * all;
  }
  for (const float scale : scales) checkScale(scale, files[coded.scales.file], label);
  return scales;
}

}  // namespace

void readCodedRows(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                   uint8_t* rows) {
  const CodedFloats& coded = *binding.coded;
  const std::string label = weightLabel(binding);
  const uint64_t first = run.offset * binding.columns, count = uint64_t(run.rows) * binding.columns;
  const std::vector<float> scales = readScales(binding, files, first, first + count, label);
  std::array<float, CodedFloats::kCodes> codebook = kE2M1Values;
  if (coded.codebook) {
    const std::vector<float> stored = readFloats(files, *coded.codebook, 0, CodedFloats::kCodes, label);
    for (const float code : stored) checkScale(code, files[coded.codebook->file], label);
    std::copy(stored.begin(), stored.end(), codebook.begin());
  }
  // Columns are even, so that rows begin with a byte.
  std::vector<uint8_t> bytes(static_cast<size_t>(count / 2));
  files[coded.values.file].read(coded.values.offset + first / 2, bytes.data(), bytes.size(), label);
  const size_t element = weightRowBytes(binding.type, 1);
  for (uint64_t i = 0; i < count; i++, rows += element) {
    const unsigned place = (i % 2 == 0) == coded.highFirst ? 4 : 0;
    const float value = codebook[bytes[i / 2] >> place & 15u] *
                        scales[static_cast<size_t>((first + i) / coded.group - first / coded.group)];
    putFloat(binding.type, value, rows);
  }
}

}  // namespace spillway
