// Reads in pieces: the requests in flight go on across the pieces' borders, and whatever ends such a read, nothing is
// in flight after it.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "diskFixture.h"

namespace spillway {
namespace {

using namespace disktest;

constexpr size_t kRequest = 16384;

// Counts requests between their start and their end, and fails the one at an offset.
class CountingFaults final : public DiskFaults {
 public:
  int64_t before(DiskOperation operation, uint64_t offset, size_t) override {
    if (operation != DiskOperation::Read) return 0;
    if (offset == failing) return -EIO;
    most = std::max(most, ++inFlight);
    started++;
    return 0;
  }
  void afterRead(uint64_t, uint8_t*, size_t) override { inFlight--; }

  int inFlight = 0, most = 0, started = 0;
  uint64_t failing = ~uint64_t{0};
};

class Pieces : public EveryWay {
 protected:
  static constexpr size_t kPiece = 4 * kRequest, kPieces = 12;

  std::unique_ptr<DirectFile> openFile(size_t bytes, unsigned depth) {
    reference_ = randomBytes(bytes, 1);
    DirectOptions chosen = options(&faults_);
    chosen.depth = depth;
    return std::make_unique<DirectFile>(folder_.write("data", reference_), DirectFile::Access::Read, chosen);
  }
  // A place for each piece.
  DirectFile::Pieces apart(const AlignedBytes& memory) {
    return {kPiece, [&memory](uint64_t at, bool) { return memory.get() + at; },
            [this](uint64_t at, const uint8_t* data, size_t bytes) {
              EXPECT_EQ(at, handed_);
              EXPECT_EQ(std::memcmp(data, reference_.data() + at, bytes), 0) << at;
              handed_ += bytes;
            },
            [] {}};
  }
  void expectStillness(const AlignedBytes& memory, size_t bytes) {
    std::memset(memory.get(), 0x22, bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_TRUE(std::all_of(memory.get(), memory.get() + bytes, [](uint8_t byte) { return byte == 0x22; }));
  }

  CountingFaults faults_;
  std::vector<uint8_t> reference_;
  uint64_t handed_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Ways, Pieces, everyWay(), nameOfWay);

TEST_P(Pieces, AnySizesAndBuffersGiveWhatAPlainReadDoes) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 60; round++) {
    const std::vector<uint8_t> reference = randomBytes(random() % 400000, static_cast<unsigned>(round));
    DirectOptions chosen = options();
    chosen.requestBytes = DirectFile::kAlignment * (1 + random() % 8);
    chosen.depth = 1 + random() % 12;
    DirectFile file(folder_.write("data", reference), DirectFile::Access::Read, chosen);
    const uint64_t offset = random() % (reference.size() / DirectFile::kAlignment + 1) * DirectFile::kAlignment;
    const size_t bytes = random() % (reference.size() - offset + 1);  // the last piece has a tail
    const size_t piece = DirectFile::kAlignment * (1 + random() % 30), buffers = 1 + random() % 6;
    const AlignedBytes memory = alignedBytes(buffers * piece);
    std::vector<uint8_t> found;
    uint64_t asked = 0, refused = 0;
    const auto next = [&](uint64_t at, bool wait) -> uint8_t* {
      EXPECT_EQ(at, asked * piece);
      const uint64_t filling = asked - (found.size() + piece - 1) / piece;
      EXPECT_EQ(wait, filling == 0);
      if (filling == buffers || (!wait && random() % 3 == 0)) return refused++, nullptr;
      return memory.get() + asked++ % buffers * piece;
    };
    const auto full = [&](uint64_t at, const uint8_t* data, size_t some) {
      ASSERT_EQ(at, found.size());
      ASSERT_EQ(some, std::min<uint64_t>(piece, bytes - at));
      found.insert(found.end(), data, data + some);
    };
    file.read(offset, bytes, {piece, next, full, [] {}});
    ASSERT_EQ(found.size(), bytes);
    ASSERT_EQ(std::memcmp(found.data(), reference.data() + offset, bytes), 0) << "round " << round;
  }
}

TEST_P(Pieces, RequestsGoOnAcrossTheirBorders) {
  constexpr unsigned kDepth = 8;
  const auto file = openFile(kPieces * kPiece, kDepth);
  const AlignedBytes memory = alignedBytes(kPieces * kPiece);
  DirectFile::Pieces pieces = apart(memory);
  const auto check = pieces.full;
  constexpr int kRequests = kPieces * kPiece / kRequest;
  pieces.full = [&](uint64_t at, uint8_t* data, size_t bytes) {
    // While somebody has this piece in hand the disk has as much to do as it may have.
    if (faults_.started < kRequests) {
      EXPECT_EQ(faults_.inFlight, static_cast<int>(kDepth)) << at;
    }
    check(at, data, bytes);
  };
  file->read(0, kPieces * kPiece, pieces);
  EXPECT_EQ(handed_, kPieces * kPiece);
  EXPECT_EQ(faults_.most, static_cast<int>(kDepth));
  EXPECT_GT(faults_.most, static_cast<int>(kPiece / kRequest));
  EXPECT_EQ(faults_.inFlight, 0);
  EXPECT_EQ(faults_.started, kRequests);
}

TEST_P(Pieces, ThoseBeforeOneThatFailsAreHandedOver) {
  const auto file = openFile(kPieces * kPiece, 16);
  const AlignedBytes memory = alignedBytes(kPieces * kPiece);
  for (const uint64_t piece : {0, 5, 11}) {
    handed_ = 0;
    faults_.failing = piece * kPiece + 2 * kRequest;
    const Thrown thrown = thrownBy([&] { file->read(0, kPieces * kPiece, apart(memory), "layer 3"); });
    EXPECT_EQ(handed_, piece * kPiece);
    EXPECT_EQ(thrown.field, "layer 3 at offset " + std::to_string(piece * kPiece));
    EXPECT_EQ(thrown.found, "Input/output error at offset " + std::to_string(faults_.failing));
    EXPECT_EQ(thrown.expected, std::to_string(kPiece) + " bytes");
    expectStillness(memory, kPieces * kPiece);
  }
}

// Whatever comes first: requests of several pieces are in flight when one of the later ones fails, and then one of the
// first.
TEST_P(Pieces, TheFirstPieceThatFailsIsNamed) {
  ScriptedFaults faults([](DiskOperation operation, uint64_t offset, size_t, int nth) -> int64_t {
    if (operation != DiskOperation::Read) return 0;
    if (offset == 2 * kPiece) return -EIO;                       // found out about at once
    if (offset == kPiece) return nth < 30 ? -EAGAIN : -ENODATA;  // at last
    return 0;
  });
  DirectOptions chosen = options(&faults);
  chosen.depth = 16;
  DirectFile file(folder_.write("data", randomBytes(4 * kPiece, 1)), DirectFile::Access::Read, chosen);
  const AlignedBytes memory = alignedBytes(4 * kPiece);
  uint64_t handed = 0;
  const Thrown thrown = thrownBy([&] {
    file.read(0, 4 * kPiece,
              {kPiece, [&](uint64_t at, bool) { return memory.get() + at; },
               [&](uint64_t, uint8_t*, size_t bytes) { handed += bytes; }, [] {}});
  });
  EXPECT_EQ(thrown.field, "at offset " + std::to_string(kPiece));
  EXPECT_EQ(handed, kPiece);
}

TEST_P(Pieces, AnEarlyEndIsAnErrorWithBothNumbers) {
  const auto file = openFile(3 * kPiece + 5000, 8);
  const AlignedBytes memory = alignedBytes(6 * kPiece);
  const Thrown thrown = thrownBy([&] { file->read(0, 6 * kPiece, apart(memory)); });
  EXPECT_EQ(thrown.field, "at offset " + std::to_string(3 * kPiece));
  EXPECT_EQ(thrown.found, "5000 bytes");
  EXPECT_EQ(thrown.expected, std::to_string(kPiece) + " bytes");
  EXPECT_EQ(handed_, 3 * kPiece);
}

TEST_P(Pieces, NothingIsInFlightWhenSomebodyGivesUp) {
  const auto file = openFile(kPieces * kPiece, 8);
  const AlignedBytes memory = alignedBytes(kPieces * kPiece);
  const auto give = [&](int which) {
    int calls = 0;
    const auto count = [&calls, which](int own) {
      if (own == which && ++calls == 4) throw std::runtime_error("enough");
    };
    handed_ = 0;
    DirectFile::Pieces pieces = apart(memory);
    pieces.next = [&, next = pieces.next](uint64_t at, bool wait) { return count(0), next(at, wait); };
    pieces.full = [&, full = pieces.full](uint64_t at, uint8_t* data, size_t bytes) {
      count(1), full(at, data, bytes);
    };
    pieces.check = [&] { count(2); };
    file->read(0, kPieces * kPiece, pieces);
  };
  for (const int which : {0, 1, 2}) {
    EXPECT_THROW(give(which), std::runtime_error) << which;
    expectStillness(memory, kPieces * kPiece);
  }
  give(3);
  EXPECT_EQ(handed_, kPieces * kPiece) << "the file goes on";
}

// Between requests: those that were started come to their end, and no other is.
TEST_P(Pieces, StopsBetweenRequests) {
  const auto file = openFile(kPieces * kPiece, 8);
  const AlignedBytes memory = alignedBytes(kPieces * kPiece);
  DirectFile::Pieces pieces = apart(memory);
  // What is under way when the second piece is handed over is not all.
  pieces.next = [&](uint64_t at, bool) { return at - handed_ < 4 * kPiece ? memory.get() + at : nullptr; };
  bool stopped = false;
  int startedWhenStopped = 0;
  pieces.full = [&, full = pieces.full](uint64_t at, uint8_t* data, size_t bytes) {
    full(at, data, bytes);
    if (stopped || handed_ < 2 * kPiece) return;
    stopped = true;
    startedWhenStopped = faults_.started;
  };
  pieces.check = [&] {
    if (stopped) throw Error(ErrorCode::Cancelled, "cancelled");
  };
  EXPECT_THROW(file->read(0, kPieces * kPiece, pieces), Error);
  EXPECT_GE(handed_, 2 * kPiece);
  EXPECT_EQ(faults_.started, startedWhenStopped);
}

TEST_P(Pieces, RefusesCrookedArguments) {
  const auto file = openFile(kPieces * kPiece, 8);
  const AlignedBytes memory = alignedBytes(kPiece);
  const auto code = [&](size_t piece, uint8_t* to) {
    try {
      file->read(0, kPieces * kPiece,
                 {piece, [to](uint64_t, bool) { return to; }, [](uint64_t, uint8_t*, size_t) {}, [] {}});
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code(0, memory.get()), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(1000, memory.get()), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(kPiece, memory.get() + 8), ErrorCode::InvalidArgument);
  EXPECT_EQ(code(kPiece, nullptr), ErrorCode::InvalidArgument);
}

}  // namespace
}  // namespace spillway
