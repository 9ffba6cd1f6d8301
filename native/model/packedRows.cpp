#include "packedRows.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "../kernels/cpu/floatFormats.h"
#include "../system/Error.h"
#include "fileRows.h"
#include "float8Rows.h"

namespace spillway {

namespace {

using Order = PackedIntegers::Order;

constexpr uint32_t kBlock = 32, kWordBytes = 4;

uint32_t groupsOf(const WeightBinding& binding) { return (binding.columns - 1) / binding.packed->group + 1; }

uint32_t perWord(const PackedIntegers& packed) { return 8 * kWordBytes / packed.bits; }

// Where AWQ puts an output among those of a word: the even ones first.
uint32_t placeInWord(const PackedIntegers& packed, uint32_t output) {
  const uint32_t per = perWord(packed), at = output % per;
  if (packed.order != Order::Outputs) return at;
  return at % 2 == 0 ? at / 2 : per / 2 + at / 2;
}

uint32_t field(const uint8_t* word, uint32_t place, uint32_t bits) {
  const uint32_t bit = place * bits;
  return word[bit / 8] >> bit % 8 & ((1u << bits) - 1);
}

// What some outputs of a tensor are made of, read whole before any of them is computed.
class PackedRun {
 public:
  PackedRun(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files)
      : binding_(binding),
        packed_(*binding.packed),
        label_(weightLabel(binding)),
        first_(static_cast<uint32_t>(run.offset)),
        count_(run.rows),
        groups_(groupsOf(binding)) {
    readValues(files);
    readScales(files);
    readZeros(files);
    readGroups(files);
  }

  const std::string& label() const { return label_; }
  float scale(uint32_t row, uint32_t column) const { return scales_[size_t(row) * groups_ + groupOf(column)]; }
  int32_t value(uint32_t row, uint32_t column) const {
    return static_cast<int32_t>(stored(row, column)) - zeros_[size_t(row) * groups_ + groupOf(column)];
  }

 private:
  uint32_t groupOf(uint32_t column) const { return groupIndex_.empty() ? column / packed_.group : groupIndex_[column]; }
  uint32_t stored(uint32_t row, uint32_t column) const {
    const uint32_t bits = packed_.bits, per = perWord(packed_);
    switch (packed_.order) {
      case Order::Rows: {
        const uint32_t bit = column % (8 / bits) * bits;
        const uint8_t byte = values_[(size_t(row) * binding_.columns + column) * bits / 8];
        return packed_.isSigned ? byte ^ 0x80u : byte >> bit & ((1u << bits) - 1);
      }
      case Order::Inputs:
        return field(&values_[(size_t(column / per) * count_ + row) * kWordBytes], column % per, bits);
      case Order::Outputs:
        return field(&values_[(size_t(column) * words_ + (first_ + row) / per - first_ / per) * kWordBytes],
                     placeInWord(packed_, first_ + row), bits);
    }
    return 0;
  }

  // Of [lines, all] elements of `bytes`, those from `from` on in each line.
  static std::vector<uint8_t> readLines(const std::vector<File>& files, const PackedIntegers::Place& place,
                                        uint32_t lines, uint64_t all, uint64_t from, uint64_t count, size_t bytes,
                                        const std::string& label) {
    std::vector<uint8_t> read(lines * count * bytes);
    readEvery(files[place.file], place.offset + from * bytes, count * bytes, lines, all * bytes, label, read.data());
    return read;
  }

  void readValues(const std::vector<File>& files) {
    const uint32_t per = perWord(packed_), columns = binding_.columns;
    words_ = (first_ + count_ - 1) / per - first_ / per + 1;
    switch (packed_.order) {
      case Order::Rows: {
        const size_t rowBytes = size_t(columns) * packed_.bits / 8;
        values_.resize(count_ * rowBytes);
        files[packed_.values.file].read(packed_.values.offset + first_ * rowBytes, values_.data(), values_.size(),
                                        label_);
        return;
      }
      case Order::Inputs:
        values_ =
            readLines(files, packed_.values, columns / per, packed_.tensorRows, first_, count_, kWordBytes, label_);
        return;
      case Order::Outputs:
        values_ = readLines(files, packed_.values, columns, packed_.tensorRows / per, first_ / per, words_, kWordBytes,
                            label_);
        return;
    }
  }

  void readScales(const std::vector<File>& files) {
    const size_t bytes = weightRowBytes(packed_.scaleType, 1);
    scales_.resize(size_t(count_) * groups_);
    const std::vector<uint8_t> read =
        packed_.groupsFirst
            ? readLines(files, packed_.scales, groups_, packed_.tensorRows, first_, count_, bytes, label_)
            : readLines(files, packed_.scales, count_, groups_, uint64_t(first_) * groups_, groups_, bytes, label_);
    for (uint32_t row = 0; row < count_; row++)
      for (uint32_t g = 0; g < groups_; g++) {
        const size_t at = packed_.groupsFirst ? size_t(g) * count_ + row : size_t(row) * groups_ + g;
        const float scale = floatElement(packed_.scaleType, &read[at * bytes]) / packed_.scaleOf;
        checkScale(scale, files[packed_.scales.file], label_);
        scales_[size_t(row) * groups_ + g] = scale;
      }
  }

  void readZeros(const std::vector<File>& files) {
    zeros_.assign(size_t(count_) * groups_, packed_.zero);
    if (!packed_.zeros) return;
    if (packed_.zeroBytes) return readZeroBytes(files[packed_.zeros->file]);
    const uint32_t per = perWord(packed_), all = packed_.tensorRows / per, from = first_ / per;
    const std::vector<uint8_t> read =
        packed_.groupsFirst
            ? readLines(files, *packed_.zeros, groups_, all, from, words_, kWordBytes, label_)
            : readLines(files, *packed_.zeros, words_, groups_, uint64_t(from) * groups_, groups_, kWordBytes, label_);
    for (uint32_t row = 0; row < count_; row++)
      for (uint32_t g = 0; g < groups_; g++) {
        const uint32_t word = (first_ + row) / per - from;
        const size_t at = packed_.groupsFirst ? size_t(g) * words_ + word : size_t(word) * groups_ + g;
        zeros_[size_t(row) * groups_ + g] +=
            static_cast<int32_t>(field(&read[at * kWordBytes], placeInWord(packed_, first_ + row), packed_.bits));
      }
  }

  void readZeroBytes(const File& file) {
    std::vector<int8_t> bytes(zeros_.size());
    file.read(packed_.zeros->offset + uint64_t(first_) * groups_, reinterpret_cast<uint8_t*>(bytes.data()),
              bytes.size(), label_);
    for (size_t i = 0; i < bytes.size(); i++) zeros_[i] += bytes[i];
  }

  void readGroups(const std::vector<File>& files) {
    if (!packed_.groupIndex) return;
    const File& file = files[packed_.groupIndex->file];
    std::vector<uint32_t> groups(binding_.columns);
    file.read(packed_.groupIndex->offset, reinterpret_cast<uint8_t*>(groups.data()), groups.size() * kWordBytes,
              label_);
    for (uint32_t group : groups)
      if (group >= groups_)
        throw FileError(file.path(), label_, "an input of group " + std::to_string(group),
                        "one of " + std::to_string(groups_));
    groupIndex_ = std::move(groups);
  }

  const WeightBinding& binding_;
  const PackedIntegers& packed_;
  std::string label_;
  uint32_t first_, count_, groups_, words_ = 0;  // words_: of outputs, where these share some
  std::vector<uint8_t> values_;
  std::vector<float> scales_;   // [count, groups]
  std::vector<int32_t> zeros_;  // likewise
  std::vector<uint32_t> groupIndex_;
};

// A block's numbers less its type's zero point fit into so many bits; after the scale come a fifth bit of each, then
// its others, those of the second half above those of the first.
void packBlock(WeightType type, const int32_t (&values)[kBlock], uint16_t scale, uint8_t* to) {
  std::memcpy(to, &scale, sizeof(scale));
  to += sizeof(scale);
  if (type == WeightType::Q8_0) {
    for (uint32_t i = 0; i < kBlock; i++) to[i] = static_cast<uint8_t>(static_cast<int8_t>(values[i]));
    return;
  }
  const int32_t zero = type == WeightType::Q4_0 ? 8 : 16;
  if (type == WeightType::Q5_0) {
    uint32_t high = 0;
    for (uint32_t i = 0; i < kBlock; i++) high |= (static_cast<uint32_t>(values[i] + zero) >> 4 & 1u) << i;
    std::memcpy(to, &high, sizeof(high));
    to += sizeof(high);
  }
  for (uint32_t i = 0; i < kBlock / 2; i++)
    to[i] = static_cast<uint8_t>(((values[i] + zero) & 15) | ((values[i + kBlock / 2] + zero) & 15) << 4);
}

}  // namespace

uint64_t packedValueBytes(const WeightBinding& binding) {
  return uint64_t(binding.packed->tensorRows) * binding.columns * binding.packed->bits / 8;
}

uint64_t packedScaleBytes(const WeightBinding& binding) {
  return uint64_t(binding.packed->tensorRows) * groupsOf(binding) * weightRowBytes(binding.packed->scaleType, 1);
}

uint64_t packedZeroBytes(const WeightBinding& binding) {
  if (binding.packed->zeroBytes) return uint64_t(binding.packed->tensorRows) * groupsOf(binding);
  return uint64_t(binding.packed->tensorRows) / perWord(*binding.packed) * groupsOf(binding) * kWordBytes;
}

void readPackedRows(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                    uint8_t* rows) {
  const PackedRun source(binding, run, files);
  const uint32_t columns = binding.columns;
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw FileError(files[binding.packed->values.file].path(), source.label(), found, expected);
  };
  if (binding.type == WeightType::F32) {
    for (uint32_t row = 0; row < run.rows; row++)
      for (uint32_t c = 0; c < columns; c++, rows += sizeof(float)) {
        const float value = source.scale(row, c) * static_cast<float>(source.value(row, c));
        std::memcpy(rows, &value, sizeof(value));
      }
    return;
  }
  const int32_t most = binding.type == WeightType::Q8_0 ? 128 : binding.type == WeightType::Q5_0 ? 16 : 8;
  const size_t blockBytes = weightRowBytes(binding.type, kBlock);
  for (uint32_t row = 0; row < run.rows; row++)
    for (uint32_t first = 0; first < columns; first += kBlock, rows += blockBytes) {
      const float scale = source.scale(row, first);
      const uint16_t half = floatToHalf(scale);
      if (!(halfToFloat(half) == scale))
        refuse("a scale of " + std::to_string(scale), "one that half precision holds exactly");
      int32_t values[kBlock];
      for (uint32_t i = 0; i < kBlock; i++) {
        values[i] = source.value(row, first + i);
        if (values[i] < -most || values[i] >= most)
          refuse("the number " + std::to_string(values[i]) + " beside its zero point",
                 std::to_string(-most) + " to " + std::to_string(most - 1) + ", which " + weightTypeName(binding.type) +
                     " holds");
      }
      packBlock(binding.type, values, half, rows);
    }
}

}  // namespace spillway
