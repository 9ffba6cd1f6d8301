// What streams from a store, piece by piece: the disk goes on across the pieces' borders, and they are checked and
// handed over in order.
#include <cstring>
#include <vector>

#include "../../model/WeightStore.h"
#include "storeFixture.h"

namespace spillway {
namespace {

using namespace fixture;

constexpr uint64_t kPiece = kChunkBytes / 4;

// Requests of a layer between their start and their end; they may be made to fail.
class CountingFaults final : public DiskFaults {
 public:
  int64_t before(DiskOperation operation, uint64_t offset, size_t) override {
    if (operation != DiskOperation::Read) return 0;
    if (offset >= failingFrom) return -EIO;
    most = std::max(most, ++inFlight);
    return 0;
  }
  void afterRead(uint64_t, uint8_t*, size_t) override { inFlight--; }

  int inFlight = 0, most = 0;
  uint64_t failingFrom = ~uint64_t(0);
};

class StorePieces : public testing::Test {
 protected:
  StorePieces()
      : store_(severalChunksSpec(), false),
        options_(store_.model.options()),
        weights_(options_.decoder, options_.bindings, options_.files, 0) {
    weights_.reserve();
    disk_.faults = &faults_;
    opened_.emplace(store_.path, TinyStore::kFingerprint, weights_, disk_);
    ThreadPool pool(2);
    opened_->loadResident(pool, progress_);
    const std::optional<StoreFacts> facts = inspectStore(store_.path, TinyStore::kFingerprint);
    layer1_ = facts->fileBytes - DirectFile::aligned(facts->layerBytes[1]);
    bytes_ = weights_.layerBlock(1).streamedBytes();
    layer_ = std::vector<uint8_t>(bytes_);
    faults_.most = 0;
  }
  // Into as many buffers as the requests in flight and one fill.
  void read() {
    const Arena buffers(9 * kPiece, "the test");
    handed_ = asked_ = 0;
    opened_->readStreamed(1,
                          {kPiece,
                           [&](uint64_t offset, bool) -> uint8_t* {
                             EXPECT_EQ(offset, asked_);
                             if (asked_ - handed_ >= 9 * kPiece) return nullptr;
                             asked_ += kPiece;
                             return buffers.data() + offset / kPiece % 9 * kPiece;
                           },
                           [&](uint64_t offset, uint64_t bytes) {
                             EXPECT_EQ(offset, handed_);
                             std::memcpy(layer_.data() + offset, buffers.data() + offset / kPiece % 9 * kPiece, bytes);
                             handed_ += bytes;
                             if (stopAt_ != 0 && handed_ >= stopAt_) stopped_ = true;
                           }},
                          stopped_);
  }
  ErrorCode codeOfRead() {
    try {
      read();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  }

  TinyStore store_;
  RuntimeOptions options_;
  Weights weights_;
  CountingFaults faults_;
  DirectOptions disk_;
  LoadProgress progress_;
  std::optional<WeightStore> opened_;
  uint64_t layer1_ = 0, bytes_ = 0, handed_ = 0, asked_ = 0, stopAt_ = 0;
  std::atomic<bool> stopped_{false};
  std::vector<uint8_t> layer_;
};

TEST_F(StorePieces, AreReadEightRequestsAtATimeAlthoughEachIsOne) {
  for (int round = 0; round < 2; round++) {  // with checksums, and without
    faults_.most = 0;
    read();
    EXPECT_EQ(faults_.most, 8);
    EXPECT_EQ(faults_.inFlight, 0);
    EXPECT_EQ(handed_, bytes_);
    const std::vector<char> file = readAll(store_.path);
    EXPECT_EQ(std::memcmp(layer_.data(), file.data() + layer1_ + weights_.layerBlock(1).streamedFrom(), bytes_), 0);
  }
  // Into one buffer, too.
  faults_.most = 0;
  const Arena whole(bytes_, "the test");
  opened_->readStreamed(1, whole.data(), stopped_);
  EXPECT_EQ(faults_.most, 8);
  EXPECT_EQ(std::memcmp(whole.data(), layer_.data(), bytes_), 0);
}

TEST_F(StorePieces, OfResidentWeightsAreReadSoToo) {
  const Weights all(options_.decoder, options_.bindings, options_.files, ~uint64_t(0));
  WeightStore opened(store_.path, TinyStore::kFingerprint, all, disk_);
  LoadProgress progress;
  uint64_t last = 0, behind = 0;
  opened.loadResident(progress, [&](size_t block, uint64_t offset, const uint8_t*, uint64_t bytes) {
    EXPECT_EQ(offset, block == last ? behind : 0);
    last = block;
    behind = offset + bytes;
  });
  EXPECT_EQ(faults_.most, 8);
  EXPECT_EQ(behind, all.layerBlock(1).bytes);
}

TEST_F(StorePieces, BeforeOneThatCannotBeReadAreHandedOver) {
  faults_.failingFrom = layer1_ + weights_.layerBlock(1).streamedFrom() + 5 * kPiece;
  EXPECT_EQ(codeOfRead(), ErrorCode::File);
  EXPECT_EQ(handed_, 5 * kPiece);
  faults_.failingFrom = ~uint64_t(0);
  read();
  EXPECT_EQ(handed_, bytes_);
}

// The second chunk has wrong bits, and what comes after it cannot be read: the first of both is named.
TEST_F(StorePieces, AreCheckedBeforeThoseBehindThem) {
  flipByte(store_.path, layer1_ + kChunkBytes + 100);
  faults_.failingFrom = layer1_ + 2 * kChunkBytes + kPiece;
  try {
    read();
    FAIL() << "damage that nobody found";
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("checksum"), std::string::npos) << error.what();
  }
  EXPECT_GE(handed_, kChunkBytes - kPiece);
  EXPECT_LT(handed_, 2 * kChunkBytes);
}

TEST_F(StorePieces, ComeNoMoreOnceStopped) {
  ASSERT_GT(bytes_, 9 * kPiece);  // more than is under way when the first piece is handed over
  stopAt_ = kPiece;
  EXPECT_EQ(codeOfRead(), ErrorCode::Cancelled);
  EXPECT_EQ(handed_, kPiece);
  stopped_ = false;
  stopAt_ = 0;
  read();
  EXPECT_EQ(handed_, bytes_);
}

}  // namespace
}  // namespace spillway
