#include "WeightStore.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "../system/Checksum.h"
#include "../system/Error.h"

namespace spillway {

namespace {

// Checked together, by all threads, while the disk goes on reading.
constexpr uint64_t kPieceBytes = 8 * kChunkBytes;
// Chunks that are read or handed on at the same time where they are not read to their place: the disk's requests fill
// two or three.
constexpr uint64_t kChunkBuffers = 4;

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
  const auto check = [&] { progress.check(); };
  const auto verifyAll = [&](uint64_t first, const uint8_t*, size_t read) {
    const uint64_t end = std::min(straight, first + read);
    pool.parallelFor(static_cast<size_t>((end - first + kChunkBytes - 1) / kChunkBytes), [&](size_t index, unsigned) {
      const uint64_t at = first + index * kChunkBytes;
      verifyChunk(b, static_cast<size_t>(at / kChunkBytes), memory + at, std::min(kChunkBytes, end - at));
    });
    progress.add(end - first);
  };
  readRange(b, 0, straight, {kPieceBytes, [memory](uint64_t at, bool) { return memory + at; }, verifyAll, check});
  if (straight == block.residentBytes) return;

  // The chunk that the cut goes through is read whole to be checked.
  const uint64_t bytes = std::min(kChunkBytes, block.bytes - straight);
  const uint64_t resident = block.residentBytes - straight;
  readRange(b, straight, straight + bytes,
            {kChunkBytes, [&](uint64_t, bool) { return chunkBuffer; }, [](uint64_t, uint8_t*, size_t) {}, check});
  verifyChunk(b, static_cast<size_t>(straight / kChunkBytes), chunkBuffer, bytes);
  std::memcpy(memory + straight, chunkBuffer, resident);
  blocks_[b].restChecksum = crc32c(0, chunkBuffer + resident, bytes - resident);
  progress.add(resident);
}

void WeightStore::loadResident(LoadProgress& progress, const Sink& sink) {
  const Arena chunks(kChunkBuffers * kChunkBytes, "reading the weights");
  for (size_t b = 0; b < table_.blocks.size(); b++) {
    const Weights::Block& block = weights_.blocks()[b];
    const uint64_t end = std::min(block.bytes, (block.residentBytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes);
    uint64_t handedOver = 0;
    const auto next = [&](uint64_t at, bool) -> uint8_t* {
      const uint64_t chunk = at / kChunkBytes;
      return chunk - handedOver < kChunkBuffers ? chunks.data() + chunk % kChunkBuffers * kChunkBytes : nullptr;
    };
    const auto full = [&](uint64_t at, const uint8_t* chunk, size_t) {
      const uint64_t bytes = std::min(kChunkBytes, end - at), resident = std::min(bytes, block.residentBytes - at);
      verifyChunk(b, static_cast<size_t>(at / kChunkBytes), chunk, bytes);
      sink(b, at, chunk, resident);
      if (resident != bytes) blocks_[b].restChecksum = crc32c(0, chunk + resident, bytes - resident);
      progress.add(resident);
      handedOver++;
    };
    readRange(b, 0, end, {kChunkBytes, next, full, [&] { progress.check(); }});
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
               {kChunkBytes, [buffer](uint64_t offset, bool) { return buffer + offset; }, [](uint64_t, uint64_t) {}},
               stopped);
}

void WeightStore::readStreamed(size_t layer, const Pieces& pieces, const std::atomic<bool>& stopped) {
  BlockState& state = blocks_[layer + 1];
  for (;;) {
    const FileStamp before = FileStamp::of(file_.descriptor());
    const bool verified = known(layer);
    readPieces(layer, pieces, stopped, !verified);
    if (!verified) {
      std::lock_guard<std::mutex> lock(verifiedMutex_);
      state.verified = before;
    }
    // Written to while it was read unchecked: once more, with the checksums.
    if (!verified || FileStamp::of(file_.descriptor()) == before) return;
  }
}

bool WeightStore::known(size_t layer) {
  const FileStamp now = FileStamp::of(file_.descriptor());
  std::lock_guard<std::mutex> lock(verifiedMutex_);
  return now.known() && blocks_[layer + 1].verified == now;
}

bool WeightStore::readBeforeExperts(size_t layer, uint8_t* buffer, const std::atomic<bool>& stopped) {
  if (known(layer) && readRanges(layer, {{0, weights_.streamedBeforeExperts(layer)}}, buffer)) return true;
  readStreamed(layer, buffer, stopped);
  return false;
}

void WeightStore::readExperts(size_t layer, const std::vector<uint32_t>& experts, uint8_t* buffer,
                              const std::atomic<bool>& stopped) {
  std::vector<Weights::StreamedRange> ranges;
  for (const uint32_t expert : experts) {
    const Weights::StreamedRange range = weights_.streamedExpert(layer, expert);
    // Neighbours may share what the disk reads at a time.
    if (!ranges.empty() && range.first <= ranges.back().end)
      ranges.back().end = std::max(ranges.back().end, range.end);
    else if (range.end != 0)
      ranges.push_back(range);
  }
  if (!readRanges(layer, ranges, buffer)) readStreamed(layer, buffer, stopped);
}

// False where somebody wrote to the file meanwhile.
bool WeightStore::readRanges(size_t layer, const std::vector<Weights::StreamedRange>& ranges, uint8_t* buffer) {
  const uint64_t offset = table_.blocks[layer + 1].offset + weights_.layerBlock(layer).streamedFrom();
  std::vector<DirectFile::ReadRange> reads;
  for (const Weights::StreamedRange& range : ranges)
    if (range.end != range.first)
      reads.push_back({offset + range.first, static_cast<size_t>(range.end - range.first), buffer + range.first});
  if (!reads.empty()) file_.read(reads.data(), reads.size(), weights_.blockName(layer + 1));
  return known(layer);
}

void WeightStore::readPieces(size_t layer, const Pieces& pieces, const std::atomic<bool>& stopped, bool verify) {
  const Weights::Block& block = weights_.layerBlock(layer);
  const uint64_t from = block.streamedFrom();
  Verification verification{block.residentBytes};
  const auto full = [&](uint64_t offset, const uint8_t* data, size_t bytes) {
    if (verify) {
      const uint64_t skipped = verification.at - (from + offset);  // of the first piece: what is resident
      verifyMore(layer + 1, verification, data + skipped, bytes - skipped);
    }
    pieces.full(offset, bytes);
  };
  const auto check = [&] {
    if (stopped.load()) throw Error(ErrorCode::Cancelled, "cancelled");
  };
  readRange(layer + 1, from, from + block.streamedBytes(), {pieces.pieceBytes, pieces.next, full, check});
}

// first: a multiple of 4096 within the block.
void WeightStore::readRange(size_t block, uint64_t first, uint64_t end, const DirectFile::Pieces& pieces) {
  const uint64_t offset = table_.blocks[block].offset;
  // A block ends with padding, so that whole multiples can be read where there is room for them: the memory of a block
  // is rounded up likewise.
  const uint64_t wholeEnd =
      std::min<uint64_t>(DirectFile::aligned(end), DirectFile::aligned(table_.blocks[block].bytes));
  file_.read(offset + first, wholeEnd - first, pieces, weights_.blockName(block));
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
