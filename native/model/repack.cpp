#include "repack.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <utility>

#include "../system/Arena.h"
#include "../system/Checksum.h"
#include "../system/DirectWriter.h"
#include "../system/Error.h"
#include "../system/ThreadPool.h"
#include "StoreFormat.h"
#include "WeightStore.h"
#include "WeightUnit.h"

namespace spillway {

namespace {

constexpr uint64_t kWindowBytes = 2 * kChunkBytes;
constexpr uint32_t kMostThreads = 1024;

// One conversion: its buffers and its place in the file.
class Repack {
 public:
  Repack(const RepackOptions& options, const Weights& weights, LoadProgress& progress, const DirectOptions& disk)
      : weights_(weights),
        progress_(progress),
        header_(makeStoreHeader(weights, options.fingerprint)),
        files_(openFiles(options, weights)),
        stamps_(options.stamps),
        pool_(options.threads),
        writer_(options.store, header_.table.fileBytes, DirectWriter::Leftover::Resume, disk),
        headerMemory_(header_.table.headerBytes, "repacking the weights") {
    uint64_t mostUnit = 0;
    for (size_t b = 0; b < weights.blocks().size(); b++) {
      for (const WeightUnit& unit : unitsOf(b)) {
        mostUnit = std::max(mostUnit, unit.bytes());
        bufferBytes_ = std::max<uint64_t>(bufferBytes_, Scratch::aligned(unit.fileBytes()));
      }
    }
    // What has not filled a whole 4096 bytes, the units of one round, and the padding at a block's end.
    for (Window& window : windows_) {
      window.memory = Arena(DirectFile::aligned(std::max(kWindowBytes, mostUnit)) + 2 * DirectFile::kAlignment,
                            "repacking the weights");
    }
    buffers_ = Arena(bufferBytes_ * pool_.threads(), "repacking the weights");
  }

  void run() {
    if (finishedMeanwhile()) return;
    try {
      size_t block = resume();
      for (; block < weights_.blocks().size(); block++) writeBlock(block);
      writer_.commit();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::Cancelled) writer_.keep();  // anything else leaves nothing
      throw;
    }
  }

 private:
  static std::vector<File> openFiles(const RepackOptions& options, const Weights& weights) {
    std::vector<File> files;
    for (const std::string& path : options.files) files.emplace_back(path);
    if (!options.stamps.empty() && options.stamps.size() != files.size()) {
      const std::string found = std::to_string(options.stamps.size()), expected = std::to_string(files.size());
      throw Error(ErrorCode::InvalidArgument, "stamps: found " + found + ", expected one a file, " + expected);
    }
    checkStamps(files, options.stamps);
    weights.checkFiles(files);
    return files;
  }

  static void checkStamps(const std::vector<File>& files, const std::vector<std::string>& stamps) {
    for (size_t f = 0; f < stamps.size(); f++) {
      if (files[f].stamp().text() == stamps[f]) continue;
      throw FileError(files[f].path(), "file", "another one, or a change, since its contents were hashed",
                      "a file that stays as it is");
    }
  }

  std::vector<WeightUnit> unitsOf(size_t b) const {
    return weightUnits(weights_, weights_.blocks()[b].first, weights_.blocks()[b].end);
  }

  // Whoever had the lock before may have made it between the caller's last look and now.
  bool finishedMeanwhile() {
    try {
      if (!inspectStore(writer_.path(), header_.table.fingerprint)) return false;
    } catch (const FileError&) {
      return false;  // damaged, or somebody else's: what the caller wants replaced
    }
    for (const StoreTable::Block& block : header_.table.blocks) progress_.add(block.bytes);
    return true;
  }

  // The number of blocks that are there already. Afterwards the file has a header that says so.
  size_t resume() {
    size_t whole = 0;
    if (writer_.resumed()) {
      std::vector<uint8_t> found(header_.bytes.size());
      writer_.file().read(0, found.size(), headerMemory_.data(), "header");
      std::memcpy(found.data(), headerMemory_.data(), found.size());
      if (std::equal(header_.bytes.begin(), header_.bytes.begin() + static_cast<ptrdiff_t>(header_.tableBytes),
                     found.begin())) {
        std::vector<uint32_t> checksums;
        while (whole < header_.table.blocks.size() && getChecksums(found, header_.table, whole, checksums) &&
               isWhole(whole, checksums)) {
          putChecksums(header_.bytes, header_.table, whole++, checksums);
        }
      }
    }
    writeHeader();
    return whole;
  }

  bool isWhole(size_t b, const std::vector<uint32_t>& checksums) {
    const StoreTable::Block& block = header_.table.blocks[b];
    uint8_t* data = windows_[0].memory.data();
    for (size_t chunk = 0; chunk < checksums.size(); chunk++) {
      progress_.check();
      const uint64_t at = chunk * kChunkBytes;
      const uint64_t bytes = std::min(kChunkBytes, block.bytes - at);
      writer_.file().read(block.offset + at, DirectFile::aligned(bytes), data, weights_.blockName(b));
      if (crc32c(0, data, bytes) != checksums[chunk]) return false;
      // The padding, which no checksum covers.
      if (std::any_of(data + bytes, data + DirectFile::aligned(bytes), [](uint8_t byte) { return byte != 0; }))
        return false;
    }
    progress_.add(block.bytes);
    return true;
  }

  void writeHeader() {
    std::memcpy(headerMemory_.data(), header_.bytes.data(), header_.bytes.size());
    writer_.file().write(0, header_.bytes.size(), headerMemory_.data(), "header");
  }

  void writeBlock(size_t b) {
    const StoreTable::Block& block = header_.table.blocks[b];
    const std::vector<WeightUnit> units = unitsOf(b);
    std::vector<uint32_t> checksums;
    uint32_t running = 0;
    uint64_t written = 0;  // of the block, in the file or on its way: the window starts here
    uint64_t packed = 0;   // of the block, there or in the window
    for (size_t first = 0, end; first < units.size(); first = end) {
      uint8_t* window = windows_[current_].memory.data();
      uint64_t bytes = 0;
      for (end = first; end < units.size() && (end == first || bytes + units[end].bytes() <= kWindowBytes); end++)
        bytes += units[end].bytes();
      packUnits(&units[first], end - first, window, written);
      for (uint64_t left = bytes; left != 0;) {
        const uint64_t part = std::min(left, kChunkBytes - packed % kChunkBytes);
        running = crc32c(running, window + (packed - written), part);
        packed += part;
        left -= part;
        if (packed % kChunkBytes == 0 || packed == block.bytes) checksums.push_back(std::exchange(running, 0));
      }
      uint64_t ready = packed - written;
      if (packed == block.bytes) {
        std::memset(window + ready, 0, DirectFile::aligned(ready) - ready);
        ready = DirectFile::aligned(ready);
      } else {
        ready = ready / DirectFile::kAlignment * DirectFile::kAlignment;
      }
      writeWindow(b, block.offset + written, ready, packed - written);
      written += ready;
    }
    for (Window& window : windows_) window.await();
    checkStamps(files_, stamps_);  // what is not the model's is never called whole
    putChecksums(header_.bytes, header_.table, b, checksums);
    writeHeader();
  }

  // Writes `ready` bytes of the current window while the other one becomes the current one. What is left of the
  // window's `used` bytes begins that one.
  void writeWindow(size_t b, uint64_t offset, uint64_t ready, uint64_t used) {
    Window& window = windows_[current_];
    Window& next = windows_[1 - current_];
    next.await();
    if (used > ready) std::memcpy(next.memory.data(), window.memory.data() + ready, used - ready);
    if (ready != 0) {
      window.write = std::async(std::launch::async, [this, b, offset, ready, data = window.memory.data()] {
        writer_.file().write(offset, ready, data, weights_.blockName(b));
      });
    }
    current_ = 1 - current_;
  }

  void packUnits(const WeightUnit* units, size_t count, uint8_t* window, uint64_t written) {
    pool_.parallelFor(count, [&](size_t index, unsigned worker) {
      progress_.check();
      packUnit(units[index], files_, buffers_.data() + worker * bufferBytes_,
               window + (units[index].offset() - written));
      progress_.add(units[index].bytes());
    });
  }

  struct Window {
    Arena memory;
    std::future<void> write;  // of what is in it; its end is awaited when it is destroyed
    void await() {
      if (write.valid()) write.get();
    }
  };

  const Weights& weights_;
  LoadProgress& progress_;
  StoreHeader header_;
  std::vector<File> files_;
  const std::vector<std::string> stamps_;
  ThreadPool pool_;
  DirectWriter writer_;
  Arena headerMemory_;  // aligned as disks want it
  Arena buffers_;       // one a thread
  uint64_t bufferBytes_ = 0;
  // One is packed while the other is written. Last, so that no write is under way when the rest goes.
  Window windows_[2];
  size_t current_ = 0;
};

RepackOptions checked(RepackOptions&& options) {
  validate(options.decoder);
  if (options.threads >= 1 && options.threads <= kMostThreads) return std::move(options);
  throw Error(ErrorCode::InvalidArgument,
              "threads: found " + std::to_string(options.threads) + ", expected 1 to " + std::to_string(kMostThreads));
}

}  // namespace

void repack(RepackOptions&& given, LoadProgress& progress, std::atomic<uint64_t>& totalBytes,
            const DirectOptions& disk) {
  RepackOptions options = checked(std::move(given));
  const Weights weights(options.decoder, std::move(options.bindings), options.files);
  uint64_t total = 0;
  for (const Weights::Block& block : weights.blocks()) total += block.bytes;
  totalBytes.store(total);
  Repack(options, weights, progress, disk).run();
}

}  // namespace spillway
