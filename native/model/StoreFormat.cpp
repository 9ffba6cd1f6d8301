#include "StoreFormat.h"

#include <algorithm>
#include <cstring>

#include "../system/Checksum.h"
#include "../system/DirectFile.h"
#include "../system/Error.h"
#include "codedRows.h"

namespace spillway {

namespace {

constexpr char kMagic[8] = {'S', 'P', 'I', 'L', 'L', 'W', 'A', 'Y'};
constexpr uint64_t kAlignment = Weights::kAlignment;
// magic, version, bytes of the table with its checksum, bytes of the header, bytes of the file, bytes of a chunk,
// blocks, length of the fingerprint
constexpr size_t kFixedBytes = 8 + 4 + 4 + 8 + 8 + 4 + 4 + 4;
constexpr size_t kBlockBytes = 8 + 8 + 8 + 8;
constexpr size_t kLeastBlocks = 2;  // what is not of a layer, and a layer
constexpr size_t kMostBlocks = 1u << 16;
constexpr size_t kMostFingerprint = 1u << 16;
constexpr uint64_t kMostHeader = uint64_t(256) << 20;  // a million weights and a million chunks need a quarter of it

class Writer {
 public:
  template <typename T>
  void put(T value) {
    putBytes(&value, sizeof(value));
  }
  void putBytes(const void* data, size_t count) {
    const auto* first = static_cast<const uint8_t*>(data);
    bytes.insert(bytes.end(), first, first + count);
  }
  std::vector<uint8_t> bytes;
};

// Reads what a checksum has vouched for; still, nothing is read past the end.
class Reader {
 public:
  Reader(const std::string& file, const std::vector<uint8_t>& bytes, size_t end)
      : file_(file), bytes_(bytes), end_(end) {}
  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  std::string getText(size_t length) {
    const uint8_t* text = take(length);
    return std::string(text, text + length);
  }

 private:
  const uint8_t* take(size_t count) {
    if (count > end_ - at_)
      throw FileError(file_, "header", "an end at byte " + std::to_string(end_),
                      std::to_string(count) + " bytes more at " + std::to_string(at_));
    const uint8_t* place = bytes_.data() + at_;
    at_ += count;
    return place;
  }
  const std::string& file_;
  const std::vector<uint8_t>& bytes_;
  size_t end_;
  size_t at_ = 0;
};

// Where a weight came from in the model's files, and what was done to it: another binding makes another store.
uint32_t sourceChecksum(const WeightBinding& binding) {
  Writer writer;
  writer.put(static_cast<uint32_t>(binding.type));
  writer.put(binding.add);
  if (binding.compressed) writer.put(static_cast<uint32_t>(*binding.compressed));
  for (const WeightSegment& segment : binding.segments) {
    writer.put(segment.file);
    writer.put(segment.offset);
    writer.put(segment.rows);
    if (segment.step != 1) writer.put(segment.step);
  }
  // Both, so that neither is taken for a step.
  if (binding.inputRow != 0) writer.put(uint64_t{binding.inputRow});
  if (binding.blockScales) {
    writer.put(binding.blockScales->file);
    writer.put(binding.blockScales->offset);
    writer.put(binding.blockScales->tensorOffset);
  }
  if (binding.packed) {
    const PackedIntegers& packed = *binding.packed;
    writer.put(static_cast<uint32_t>(packed.order));
    for (uint32_t each :
         {packed.bits, packed.group, packed.tensorRows, static_cast<uint32_t>(packed.zero),
          static_cast<uint32_t>(packed.scaleType), uint32_t{packed.isSigned}, uint32_t{packed.groupsFirst}})
      writer.put(each);
    for (const PackedIntegers::Place& place :
         {packed.values, packed.scales, packed.zeros.value_or(PackedIntegers::Place{}),
          packed.groupIndex.value_or(PackedIntegers::Place{})}) {
      writer.put(place.file);
      writer.put(place.offset);
    }
    if (packed.scaleOf != 1) writer.put(packed.scaleOf);
  }
  if (binding.coded) {
    const CodedFloats& coded = *binding.coded;
    for (uint32_t each : {static_cast<uint32_t>(coded.scaleType), coded.tensorRows, coded.group, coded.nestedGroup,
                          uint32_t{coded.highFirst}, uint32_t{coded.globalDivides}})
      writer.put(each);
    writer.put(coded.nestedOffset);
    forCodedTensors(binding, [&](const CodedFloats::Place& place, uint64_t) {
      writer.put(place.file);
      writer.put(place.offset);
    });
  }
  if (binding.float8) {
    const Float8Scales& scales = *binding.float8;
    writer.put(scales.file);
    writer.put(scales.offset);
    writer.put(static_cast<uint32_t>(scales.type));
    writer.put(scales.blockRows);
    writer.put(scales.blockColumns);
    writer.put(scales.tensorOffset);
  }
  return crc32c(0, writer.bytes.data(), writer.bytes.size());
}

void putWeight(Writer& writer, const Weights::Placed& weight) {
  const WeightBinding& binding = *weight.binding;
  writer.put(static_cast<uint8_t>(binding.matrix));
  writer.put(static_cast<uint8_t>(binding.matrix ? binding.storedType() : WeightType::F32));
  writer.put(static_cast<uint16_t>(binding.role.size()));  // roles are known by now, and short
  writer.putBytes(binding.role.data(), binding.role.size());
  writer.put(binding.rows);
  writer.put(binding.columns);
  writer.put(weight.offset);
  writer.put(sourceChecksum(binding));
}

// A block's number goes into the checksum of its checksums, so that zeros, or another block's, are not valid.
uint32_t checksumOf(const std::vector<uint32_t>& checksums, size_t block) {
  const uint64_t number = block + 1;
  return crc32c(crc32c(0, &number, sizeof(number)), checksums.data(), checksums.size() * sizeof(uint32_t));
}

[[noreturn]] void damaged(const File& file, const std::string& field, const std::string& found,
                          const std::string& expected) {
  throw FileError(file.path(), field, found, expected);
}

}  // namespace

StoreHeader makeStoreHeader(const Weights& weights, const std::string& fingerprint) {
  StoreHeader header;
  StoreTable& table = header.table;
  table.fingerprint = fingerprint;

  Writer entries;
  for (const Weights::Placed& weight : weights.placed()) putWeight(entries, weight);
  header.tableBytes = kFixedBytes + fingerprint.size() + weights.blocks().size() * kBlockBytes + entries.bytes.size() +
                      sizeof(uint32_t);
  uint64_t checksumsAt = header.tableBytes;
  for (const Weights::Block& block : weights.blocks()) {
    table.blocks.push_back({0, block.bytes, block.vectorBytes, checksumsAt});
    checksumsAt += (table.blocks.back().chunks() + 1) * sizeof(uint32_t);
  }
  table.headerBytes = DirectFile::aligned(checksumsAt);
  table.fileBytes = table.headerBytes;
  for (StoreTable::Block& block : table.blocks) {
    block.offset = table.fileBytes;
    table.fileBytes += DirectFile::aligned(block.bytes);
  }

  Writer writer;
  writer.putBytes(kMagic, sizeof(kMagic));
  writer.put(kStoreVersion);
  writer.put(static_cast<uint32_t>(header.tableBytes));
  writer.put(table.headerBytes);
  writer.put(table.fileBytes);
  writer.put(static_cast<uint32_t>(kChunkBytes));
  writer.put(static_cast<uint32_t>(table.blocks.size()));
  writer.put(static_cast<uint32_t>(fingerprint.size()));
  writer.putBytes(fingerprint.data(), fingerprint.size());
  for (const StoreTable::Block& block : table.blocks) {
    writer.put(block.offset);
    writer.put(block.bytes);
    writer.put(block.vectorBytes);
    writer.put(block.checksumsAt);
  }
  writer.putBytes(entries.bytes.data(), entries.bytes.size());
  writer.put(crc32c(0, writer.bytes.data(), writer.bytes.size()));
  header.bytes = std::move(writer.bytes);
  header.bytes.resize(table.headerBytes);
  return header;
}

void putChecksums(std::vector<uint8_t>& header, const StoreTable& table, size_t block,
                  const std::vector<uint32_t>& checksums) {
  uint8_t* place = header.data() + table.blocks[block].checksumsAt;
  const uint32_t own = checksumOf(checksums, block);
  // A block of layers that are elsewhere has no chunks.
  if (!checksums.empty()) std::memcpy(place, checksums.data(), checksums.size() * sizeof(uint32_t));
  std::memcpy(place + checksums.size() * sizeof(uint32_t), &own, sizeof(own));
}

bool getChecksums(const std::vector<uint8_t>& header, const StoreTable& table, size_t block,
                  std::vector<uint32_t>& checksums) {
  const uint8_t* place = header.data() + table.blocks[block].checksumsAt;
  checksums.resize(table.blocks[block].chunks());
  if (!checksums.empty()) std::memcpy(checksums.data(), place, checksums.size() * sizeof(uint32_t));
  uint32_t own;
  std::memcpy(&own, place + checksums.size() * sizeof(uint32_t), sizeof(own));
  return own == checksumOf(checksums, block);
}

StoreState readStoreHeader(const File& file, const std::string& fingerprint, StoreHeader& header) {
  if (file.bytes() < kFixedBytes)
    damaged(file, "header", std::to_string(file.bytes()) + " bytes", "a store of packed weights");
  std::vector<uint8_t>& bytes = header.bytes;
  bytes.resize(kFixedBytes);
  file.read(0, bytes.data(), kFixedBytes, "header");
  Reader fixed(file.path(), bytes, bytes.size());
  if (fixed.getText(sizeof(kMagic)) != std::string(kMagic, sizeof(kMagic)))
    damaged(file, "magic", "other bytes", "SPILLWAY, a store of packed weights");
  if (fixed.get<uint32_t>() != kStoreVersion) return StoreState::OtherVersion;
  header.tableBytes = fixed.get<uint32_t>();
  StoreTable& table = header.table;
  table.headerBytes = fixed.get<uint64_t>();
  table.fileBytes = fixed.get<uint64_t>();

  // A wrong length costs little memory, and the checksum is looked at before anything is believed.
  if (table.headerBytes > std::min(file.bytes(), kMostHeader) || table.headerBytes % kAlignment != 0 ||
      header.tableBytes < kFixedBytes + sizeof(uint32_t) || header.tableBytes > table.headerBytes) {
    damaged(file, "header",
            "a length of " + std::to_string(table.headerBytes) + " bytes in a file of " + std::to_string(file.bytes()),
            "one within the file");
  }
  bytes.resize(table.headerBytes);
  file.read(0, bytes.data(), bytes.size(), "header");
  const size_t contents = header.tableBytes - sizeof(uint32_t);
  uint32_t expected;
  std::memcpy(&expected, bytes.data() + contents, sizeof(expected));
  const uint32_t found = crc32c(0, bytes.data(), contents);
  if (found != expected)
    damaged(file, "header", "checksum " + std::to_string(found),
            "checksum " + std::to_string(expected) + ", which it was written with");

  Reader reader(file.path(), bytes, contents);
  reader.getText(kFixedBytes - 3 * sizeof(uint32_t));
  const uint32_t chunkBytes = reader.get<uint32_t>();
  const uint32_t blocks = reader.get<uint32_t>();
  const uint32_t fingerprintBytes = reader.get<uint32_t>();
  if (chunkBytes != kChunkBytes)
    damaged(file, "header", "chunks of " + std::to_string(chunkBytes) + " bytes",
            "chunks of " + std::to_string(kChunkBytes));
  if (blocks < kLeastBlocks || blocks > kMostBlocks)
    damaged(file, "header", std::to_string(blocks) + " blocks",
            std::to_string(kLeastBlocks) + " to " + std::to_string(kMostBlocks));
  if (fingerprintBytes > kMostFingerprint)
    damaged(file, "header", "a fingerprint of " + std::to_string(fingerprintBytes) + " bytes",
            "at most " + std::to_string(kMostFingerprint));
  table.fingerprint = reader.getText(fingerprintBytes);
  if (table.fingerprint != fingerprint) return StoreState::OtherFingerprint;
  if (file.bytes() != table.fileBytes)
    damaged(file, "size", std::to_string(file.bytes()) + " bytes", std::to_string(table.fileBytes));

  table.blocks.clear();
  for (uint32_t b = 0; b < blocks; b++) {
    const uint64_t offset = reader.get<uint64_t>(), length = reader.get<uint64_t>(),
                   vectorBytes = reader.get<uint64_t>(), checksumsAt = reader.get<uint64_t>();
    const StoreTable::Block block{offset, length, vectorBytes, checksumsAt};
    const std::string field = b == 0 ? "globals" : "layer " + std::to_string(b - 1);
    if (offset % kAlignment != 0 || offset > file.bytes() || length > file.bytes() - offset || vectorBytes > length ||
        checksumsAt > table.headerBytes || (block.chunks() + 1) * sizeof(uint32_t) > table.headerBytes - checksumsAt) {
      damaged(file, field, std::to_string(length) + " bytes at offset " + std::to_string(offset),
              "a range within the file's " + std::to_string(file.bytes()) + " bytes");
    }
    table.blocks.push_back(block);
    std::vector<uint32_t> checksums;
    if (!getChecksums(bytes, table, b, checksums))
      damaged(file, field, "damaged checksums", "those it was written with");
  }
  return StoreState::Whole;
}

}  // namespace spillway
