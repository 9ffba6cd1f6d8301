// A store opened for one model: reads what is resident once, and what streams again and again.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../system/DirectFile.h"
#include "../system/FileStamp.h"
#include "../system/ThreadPool.h"
#include "StoreFormat.h"
#include "WeightLoader.h"
#include "Weights.h"

namespace spillway {

struct StoreFacts {
  std::vector<uint64_t> layerBytes;   // of each layer's block
  std::vector<uint64_t> vectorBytes;  // of it, what is resident always
  uint64_t globalBytes = 0;
  uint64_t fileBytes = 0;
};
// Nothing where there is no such file, or it belongs to another model or version. Throws FileError for a damaged one.
std::optional<StoreFacts> inspectStore(const std::string& path, const std::string& fingerprint);

class WeightStore {
 public:
  // Throws FileError, naming field, found and expected, unless the file is a whole store of exactly these weights with
  // this fingerprint. `weights` must outlive the store.
  WeightStore(const std::string& path, const std::string& fingerprint, const Weights& weights,
              const DirectOptions& options = {});

  // Reads all resident parts to where `weights` has reserved memory for them, and checks them. Bytes of the parts count
  // as progress.
  void loadResident(ThreadPool& pool, LoadProgress& progress);
  // The same, piece by piece and in order, to whoever takes them: `bytes` of a block from `offset` in it on, checked.
  using Sink = std::function<void(size_t block, uint64_t offset, const uint8_t* data, uint64_t bytes)>;
  void loadResident(LoadProgress& progress, const Sink& sink);
  // Reads what streams of a layer: weights.layerBlock(layer).streamedBytes() into the buffer, a multiple of 4096.
  // Checked when it is first read, and again when somebody has written to the file since. Gives up between requests
  // once `stopped` is set. After loadResident().
  void readStreamed(size_t layer, uint8_t* buffer, const std::atomic<bool>& stopped);
  // Reads what streams of a layer before its experts; of a layer that was not checked yet, or may have been written to
  // since, everything. Returns false then.
  bool readBeforeExperts(size_t layer, uint8_t* buffer, const std::atomic<bool>& stopped);
  // Reads some experts of such a layer, in order of their numbers, to their place in the buffer that the rest was read
  // to. On any thread.
  void readExperts(size_t layer, const std::vector<uint32_t>& experts, uint8_t* buffer,
                   const std::atomic<bool>& stopped);
  // The same in pieces of `pieceBytes`, a multiple of 4096: each is read to where next() says (a multiple of 4096, too)
  // and then handed to full(), in order, while the disk reads those after it: see DirectFile::Pieces. What does not
  // match its checksum is found out with its last piece. Where somebody writes to the file meanwhile all pieces come a
  // second time.
  struct Pieces {
    uint64_t pieceBytes;
    std::function<uint8_t*(uint64_t offset, bool wait)> next;   // offset: in what streams
    std::function<void(uint64_t offset, uint64_t bytes)> full;  // the same
  };
  void readStreamed(size_t layer, const Pieces& pieces, const std::atomic<bool>& stopped);

 private:
  // Tells whether a layer was checked, and nobody has written to the file since.
  bool known(size_t layer);
  bool readRanges(size_t layer, const std::vector<Weights::StreamedRange>& ranges, uint8_t* buffer);
  void readPieces(size_t layer, const Pieces& pieces, const std::atomic<bool>& stopped, bool verify);
  void readRange(size_t block, uint64_t first, uint64_t end, const DirectFile::Pieces& pieces);
  void verifyChunk(size_t block, size_t chunk, const uint8_t* data, uint64_t bytes) const;
  [[noreturn]] void refuseChunk(size_t block, uint64_t offset, uint32_t found, uint32_t expected) const;
  void loadBlock(size_t block, ThreadPool& pool, LoadProgress& progress, uint8_t* chunkBuffer);
  struct Verification;
  void verifyMore(size_t block, Verification& so_far, const uint8_t* data, uint64_t bytes) const;

  const Weights& weights_;
  DirectFile file_;
  StoreTable table_;
  struct BlockState {
    std::vector<uint32_t> checksums;  // of its chunks
    // The chunk that the cut between resident and streamed parts goes through: the checksum of its streamed rest, known
    // once the whole was checked.
    uint32_t restChecksum = 0;
    FileStamp verified;  // of the file, just before its streamed part was read and found good
  };
  std::vector<BlockState> blocks_;
  std::mutex verifiedMutex_;  // BlockState::verified is looked at where experts are read, too
};

}  // namespace spillway
