// A store: the weights of one model, packed for the kernels, in one file that layers stream from.
//
//   header   magic, version, the table (which blocks, which weights where), its checksum; then the checksums of every
//   block's chunks blocks   the global weights', then each layer's, as Weights.h describes them, each at a multiple of
//   4096
//
// Numbers are little-endian. A block's checksums have a checksum of their own and are written after the block, so that
// an interrupted conversion can tell which blocks are whole.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../system/File.h"
#include "Weights.h"

namespace spillway {

// Changes with anything about the bytes of a store: this header, the order of weights, the layout of panels
// (kernels/cpu/panelLayout.h). Stores of another version are made anew. tests/modelRepack.cpp fails when panels change
// without it.
constexpr uint32_t kStoreVersion = 2;

// What is verified as a unit, so that any part of a block can be checked when it is first read. The last chunk of a
// block may be shorter.
constexpr uint64_t kChunkBytes = uint64_t(4) << 20;

// Where the blocks of a store are.
struct StoreTable {
  struct Block {
    uint64_t offset;
    uint64_t bytes;        // without the padding that follows
    uint64_t vectorBytes;  // of its start, which is resident always
    uint64_t checksumsAt;  // offset in the header: one uint32 a chunk, then their own checksum
    size_t chunks() const { return static_cast<size_t>((bytes + kChunkBytes - 1) / kChunkBytes); }
  };
  std::string fingerprint;
  uint64_t headerBytes = 0;  // a multiple of 4096
  uint64_t fileBytes = 0;
  std::vector<Block> blocks;
};

// The header that a store of these weights has: the table and room for the checksums, none of which is valid yet.
struct StoreHeader {
  StoreTable table;
  std::vector<uint8_t> bytes;  // table.headerBytes of them
  size_t tableBytes = 0;       // from the start; the rest are checksums
};
StoreHeader makeStoreHeader(const Weights& weights, const std::string& fingerprint);

// The checksums of a block within a header, as they are written; and read: false where they are not valid.
void putChecksums(std::vector<uint8_t>& header, const StoreTable& table, size_t block,
                  const std::vector<uint32_t>& checksums);
bool getChecksums(const std::vector<uint8_t>& header, const StoreTable& table, size_t block,
                  std::vector<uint32_t>& checksums);

enum class StoreState {
  Whole,
  OtherVersion,  // nothing else of it can be told
  OtherFingerprint,
};
// Reads and checks a store's header and length. Throws FileError, naming file and field, for a file that is no store,
// is damaged or is cut short. `header` and `table` are set for a Whole one.
StoreState readStoreHeader(const File& file, const std::string& fingerprint, StoreHeader& header);

}  // namespace spillway
