#include "WeightStore.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../system/Checksum.h"
#include "../system/Error.h"

namespace spillway {

namespace {

// Of one read: enough to keep the disk busy, few enough that giving up is quick.
constexpr uint64_t kReadBytes = 8 * kChunkBytes;

uint64_t alignedDown(uint64_t bytes) { return bytes / DirectFile::kAlignment * DirectFile::kAlignment; }

}  // namespace

std::optional<StoreFacts> inspectStore(const std::string& path, const std::string& fingerprint) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) return {};
  StoreHeader header;
  if (readStoreHeader(File(path), fingerprint, header) != StoreState::Whole) return {};
  StoreFacts result;
  result.fileBytes = header.table.fileBytes;
  result.globalBytes = header.table.blocks[0].bytes;
  for (size_t b = 1; b < header.table.blocks.size(); b++) {
    result.layerBytes.push_back(header.table.blocks[b].bytes);
    result.vectorBytes.push_back(header.table.blocks[b].vectorBytes);
  }
  return result;
}

WeightStore::WeightStore(const std::string& path, const std::string& fingerprint, const Weights& weights,
                         const DirectOptions& options)
    : weights_(weights), file_(path, DirectFile::Access::Read, options) {
  StoreHeader found;
  switch (readStoreHeader(File(path), fingerprint, found)) {
    case StoreState::OtherVersion:
      throw FileError(path, "version", "another one", std::to_string(kStoreVersion) + "; the model must be repacked");
    case StoreState::OtherFingerprint:
      throw FileError(path, "fingerprint", found.table.fingerprint.substr(0, 256),
                      fingerprint.substr(0, 256) + "; the model must be repacked");
    case StoreState::Whole: break;
  }
  const StoreHeader expected = makeStoreHeader(weights, fingerprint);
  if (found.tableBytes != expected.tableBytes ||
      !std::equal(expected.bytes.begin(), expected.bytes.begin() + static_cast<ptrdiff_t>(expected.tableBytes),
                  found.bytes.begin())) {
    throw FileError(path, "table", "other weights, or other places for them",
                    "those of the model's bindings; the model must be repacked");
  }
  table_ = found.table;
  blocks_.resize(table_.blocks.size());
  for (size_t b = 0; b < blocks_.size(); b++) getChecksums(found.bytes, table_, b, blocks_[b].checksums);
}

void WeightStore::loadResident(ThreadPool& pool, LoadProgress& progress) {
  const Arena chunkBuffer(kChunkBytes, "reading the weights");
  for (size_t b = 0; b < table_.blocks.size(); b++) loadBlock(b, pool, progress, chunkBuffer.data());
}

void WeightStore::loadBlock(size_t b, ThreadPool& pool, LoadProgress& progress, uint8_t* chunkBuffer) {
  const Weights::Block& block = weights_.blocks()[b];
  uint8_t* memory = weights_.memory(block);
  // Whole chunks, and a last one where all is resident, straight to their place.
  const bool all = !block.streams();
  const uint64_t straight = all ? block.bytes : block.residentBytes / kChunkBytes * kChunkBytes;
  for (uint64_t first = 0; first < straight; first += kReadBytes) {
    progress.check();
    const uint64_t end = std::min(straight, first + kReadBytes);
    readRange(b, first, end, memory + first, nullptr);
    pool.parallelFor(static_cast<size_t>((end - first + kChunkBytes - 1) / kChunkBytes), [&](size_t index, unsigned) {
      const uint64_t at = first + index * kChunkBytes;
      verifyChunk(b, static_cast<size_t>(at / kChunkBytes), memory + at, std::min(kChunkBytes, end - at));
    });
    progress.add(end - first);
  }
  if (straight == block.residentBytes) return;

  // The chunk that the cut goes through is read whole to be checked.
  progress.check();
  const uint64_t bytes = std::min(kChunkBytes, block.bytes - straight);
  const uint64_t resident = block.residentBytes - straight;
  readRange(b, straight, straight + bytes, chunkBuffer, nullptr);
  verifyChunk(b, static_cast<size_t>(straight / kChunkBytes), chunkBuffer, bytes);
  std::memcpy(memory + straight, chunkBuffer, resident);
  blocks_[b].restChecksum = crc32c(0, chunkBuffer + resident, bytes - resident);
  progress.add(resident);
}

void WeightStore::loadResident(LoadProgress& progress, const Sink& sink) {
  const Arena chunk(kChunkBytes, "reading the weights");
  for (size_t b = 0; b < table_.blocks.size(); b++) {
    const Weights::Block& block = weights_.blocks()[b];
    for (uint64_t at = 0; at < block.residentBytes; at += kChunkBytes) {
      progress.check();
      const uint64_t bytes = std::min(kChunkBytes, block.bytes - at),
                     resident = std::min(bytes, block.residentBytes - at);
      readRange(b, at, at + bytes, chunk.data(), nullptr);
      verifyChunk(b, static_cast<size_t>(at / kChunkBytes), chunk.data(), bytes);
      sink(b, at, chunk.data(), resident);
      if (resident != bytes) blocks_[b].restChecksum = crc32c(0, chunk.data() + resident, bytes - resident);
      progress.add(resident);
    }
  }
}

// How far the streamed part of a block has been looked at.
struct WeightStore::Verification {
  uint64_t at;            // in the block
  uint32_t checksum = 0;  // of the chunk at hand, so far
};

// data: what follows, from so_far.at on.
void WeightStore::verifyMore(size_t b, Verification& so_far, const uint8_t* data, uint64_t bytes) const {
  const Weights::Block& block = weights_.blocks()[b];
  const uint64_t end = std::min(so_far.at + bytes, block.bytes);
  while (so_far.at < end) {
    const uint64_t chunk = so_far.at / kChunkBytes, chunkEnd = std::min(block.bytes, (chunk + 1) * kChunkBytes),
                   to = std::min(end, chunkEnd);
    so_far.checksum = crc32c(so_far.checksum, data, to - so_far.at);
    data += to - so_far.at;
    so_far.at = to;
    if (to != chunkEnd) continue;
    // Of the chunk that the cut goes through the rest alone streams.
    const bool cut = chunk * kChunkBytes < block.residentBytes;
    const uint32_t expected = cut ? blocks_[b].restChecksum : blocks_[b].checksums[static_cast<size_t>(chunk)];
    if (so_far.checksum != expected)
      refuseChunk(b, cut ? block.residentBytes : chunk * kChunkBytes, so_far.checksum, expected);
    so_far.checksum = 0;
  }
}

void WeightStore::readStreamed(size_t layer, uint8_t* buffer, const std::atomic<bool>& stopped) {
  readStreamed(layer,
               {std::max<uint64_t>(DirectFile::kAlignment, weights_.layerBlock(layer).streamedBytes()),
                [buffer] { return buffer; }, [](uint64_t, uint64_t) {}},
               stopped);
}

void WeightStore::readStreamed(size_t layer, const Pieces& pieces, const std::atomic<bool>& stopped) {
  BlockState& state = blocks_[layer + 1];
  for (;;) {
    const FileStamp before = FileStamp::of(file_.descriptor());
    const bool verified = before.known() && state.verified == before;
    readPieces(layer, pieces, stopped, !verified);
    if (!verified) state.verified = before;
    // Written to while it was read unchecked: once more, with the checksums.
    if (!verified || FileStamp::of(file_.descriptor()) == before) return;
  }
}

void WeightStore::readPieces(size_t layer, const Pieces& pieces, const std::atomic<bool>& stopped, bool verify) {
  const Weights::Block& block = weights_.layerBlock(layer);
  const uint64_t from = block.streamedFrom(), end = from + block.streamedBytes();
  Verification verification{block.residentBytes};
  for (uint64_t at = from; at < end; at += pieces.pieceBytes) {
    const uint64_t bytes = std::min(pieces.pieceBytes, end - at);
    uint8_t* buffer = pieces.next();
    readRange(layer + 1, at, at + bytes, buffer, &stopped);
    const uint64_t skipped = verification.at - at;  // of the first piece: what is resident
    if (verify)
      verifyMore(layer + 1, verification, buffer + skipped, bytes - skipped);
    else
      verification.at = at + bytes;
    pieces.full(at - from, bytes);
  }
}

// first: a multiple of 4096 within the block.
void WeightStore::readRange(size_t block, uint64_t first, uint64_t end, uint8_t* to, const std::atomic<bool>* stopped) {
  const uint64_t offset = table_.blocks[block].offset;
  // A block ends with padding, so that whole multiples can be read where there is room for them: the memory of a block
  // is rounded up likewise.
  const uint64_t wholeEnd =
      std::min<uint64_t>(DirectFile::aligned(end), DirectFile::aligned(table_.blocks[block].bytes));
  for (uint64_t at = first; at < wholeEnd; at += kReadBytes) {
    if (stopped != nullptr && stopped->load()) throw Error(ErrorCode::Cancelled, "cancelled");
    file_.read(offset + at, std::min(kReadBytes, wholeEnd - at), to + (at - first), weights_.blockName(block));
  }
}

void WeightStore::verifyChunk(size_t block, size_t chunk, const uint8_t* data, uint64_t bytes) const {
  const uint32_t found = crc32c(0, data, bytes);
  const uint32_t expected = blocks_[block].checksums[chunk];
  if (found != expected) refuseChunk(block, chunk * kChunkBytes, found, expected);
}

void WeightStore::refuseChunk(size_t block, uint64_t offset, uint32_t found, uint32_t expected) const {
  throw FileError(
      file_.path(),
      weights_.blockName(block) + " at offset " + std::to_string(table_.blocks[block].offset + alignedDown(offset)),
      "checksum " + std::to_string(found), "checksum " + std::to_string(expected) + ", which it was written with");
}

}  // namespace spillway
