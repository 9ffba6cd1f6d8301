#include "fileRows.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "codedRows.h"
#include "float8Rows.h"
#include "packedRows.h"

namespace spillway {

namespace {

constexpr size_t kPieceBytes = size_t(1) << 16;  // of what is read beside the rows themselves, if a row is no more
constexpr size_t kSkippedBytes = size_t(1) << 14;
constexpr size_t kBlockElements = 32, kBlockBytes = kBlockElements / 2;

}  // namespace

// The bytes between the pieces are read and left, unless they are most of it, and more than a disk reads at a time
// anyway.
void readEvery(const File& file, uint64_t offset, size_t bytes, uint32_t rows, size_t pitch, const std::string& label,
               uint8_t* to) {
  if (pitch == bytes) return file.read(offset, to, rows * bytes, label);
  const bool apart = 2 * bytes < pitch && pitch - bytes > kSkippedBytes;
  const size_t most = apart ? 1 : std::min<size_t>(rows, std::max<size_t>(1, kPieceBytes / pitch));
  std::vector<uint8_t> piece((most - 1) * pitch + bytes);
  for (size_t first = 0, count; first < rows; first += count) {
    count = std::min(most, rows - first);
    file.read(offset + first * pitch, piece.data(), (count - 1) * pitch + bytes, label);
    for (size_t row = 0; row < count; row++, to += bytes) std::memcpy(to, &piece[row * pitch], bytes);
  }
}

namespace {

// A row of the file is an input's, of which each output takes one element. 8-bit floats become halves here, where their
// scales are at hand.
void readTurned(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                const std::string& label, uint8_t* to) {
  const File& file = files[run.file];
  const size_t element = binding.pitchBytes(), rowBytes = binding.fileRowBytes();
  std::optional<Float8RowScales> scales;
  uint32_t firstOutput = 0;
  if (binding.float8) {
    const uint64_t before = run.offset - binding.float8->tensorOffset;
    firstOutput = static_cast<uint32_t>(before % binding.inputRow);
    scales.emplace(binding);
    scales->read(files, before / binding.inputRow, binding.columns);
  }
  const auto place = [&](size_t row, size_t input, const uint8_t* from) {
    if (!scales) {
      std::memcpy(to + row * rowBytes + input * element, from, element);
      return;
    }
    const auto output = static_cast<uint32_t>(firstOutput + row * run.step);
    const uint16_t half = scales->toHalf(*from, static_cast<uint32_t>(input), output);
    std::memcpy(to + row * rowBytes + input * sizeof(half), &half, sizeof(half));
  };
  const size_t pitch = size_t(binding.inputRow) * element, bytes = ((size_t(run.rows) - 1) * run.step + 1) * element;
  // What lies between is read as well, where it is no more than that.
  const size_t most = 2 * bytes < pitch ? 1 : std::max<size_t>(1, kPieceBytes / pitch);
  std::vector<uint8_t> piece((most - 1) * pitch + bytes);
  for (size_t first = 0, count; first < binding.columns; first += count) {
    count = std::min<size_t>(most, binding.columns - first);
    file.read(run.offset + first * pitch, piece.data(), (count - 1) * pitch + bytes, label);
    for (size_t input = 0; input < count; input++)
      for (size_t row = 0; row < run.rows; row++)
        place(row, first + input, &piece[input * pitch + row * run.step * element]);
  }
}

// Neighbours share a byte there; here the first half of a block's elements are the low halves of its bytes.
void orderBlock(const uint8_t* from, uint8_t* to) {
  const auto element = [from](size_t i) { return from[i / 2] >> (i % 2 * 4) & 15; };
  for (size_t i = 0; i < kBlockBytes; i++) to[i] = static_cast<uint8_t>(element(i) | element(i + kBlockBytes) << 4);
}

void readBlocks(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                const std::string& label, uint8_t* to) {
  const BlockScales& places = *binding.blockScales;
  const size_t perRow = binding.columns / kBlockElements, rowBytes = binding.takenBytes();
  const size_t pitch = binding.pitchBytes() * run.step;
  const size_t most = std::min<size_t>(run.rows, std::max<size_t>(1, kPieceBytes / rowBytes));
  std::vector<uint8_t> blocks(most * rowBytes), scales(most * perRow);
  for (size_t first = 0, count; first < run.rows; first += count) {
    count = std::min(most, run.rows - first);
    const uint64_t offset = run.offset + first * pitch;
    readEvery(files[run.file], offset, rowBytes, static_cast<uint32_t>(count), pitch, label, blocks.data());
    readEvery(files[places.file], places.offset + (offset - places.tensorOffset) / kBlockBytes, perRow,
              static_cast<uint32_t>(count), pitch / kBlockBytes, label, scales.data());
    for (size_t block = 0; block < count * perRow; block++, to += 1 + kBlockBytes) {
      to[0] = scales[block];
      orderBlock(&blocks[block * kBlockBytes], to + 1);
    }
  }
}

}  // namespace

void readFileRows(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                  uint8_t* rows) {
  const std::string label = weightLabel(binding);
  if (binding.packed) return readPackedRows(binding, run, files, rows);
  if (binding.coded) return readCodedRows(binding, run, files, rows);
  if (binding.blockScales) return readBlocks(binding, run, files, label, rows);
  if (binding.inputRow != 0) return readTurned(binding, run, files, label, rows);
  readEvery(files[run.file], run.offset, binding.fileRowBytes(), run.rows, binding.pitchBytes() * run.step, label,
            rows);
}

}  // namespace spillway
