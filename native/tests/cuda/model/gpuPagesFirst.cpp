// Pages of the cache that come to the device go before weights that are on their way there.
#include <chrono>
#include <thread>

#include "../../../backend/cuda/Link.h"
#include "cacheCases.h"

namespace spillway {
namespace gpu_pages_first {

using namespace fixture;

constexpr uint32_t kTokens = 60;  // of four pages

TEST(GpuPagesFirst, LayersThatComeInPiecesBetweenThemHaveTheSameBits) {
  const disktest::Folder folder;
  DecoderSpec spec = smallSpec();
  spec.feedForwardSize = 880;  // a layer is more than four of the smallest pieces
  const TinyStore store(spec);
  const std::vector<int32_t> text = randomTokens(kTokens, 67, 3);
  const auto optionsOf = [&](uint64_t hostBytes) {
    RuntimeOptions options = onGpu(store.options(hostBytes, 2), uint64_t(16) << 20);
    options.pages = 64;
    options.gpu->residentLayerBytes = 20000;
    options.gpu->buffers = 2;
    options.spill = spillOptions(folder.path());
    return options;
  };
  ASSERT_GT(store.blocks(0)[1].bytes, 4 * (size_t(128) << 10));
  const PlacedRow there{{65, 67, 69, 71}}, elsewhere{{65, 8, -3, 5}, 5};
  const std::vector<float> right = score(optionsOf(kAll), text, there, 40, 40);
  ASSERT_EQ(right.size(), kTokens - 1);
  cuda::underEverySeed([&] {
    for (const uint64_t hostBytes : {kAll, uint64_t(300000), uint64_t(0)}) {
      RuntimeOptions options = optionsOf(hostBytes);
      options.gpu->cacheBuffers = 2;
      options.gpu->cacheBufferPages = 16;
      expectSameBits(score(options, text, elsewhere, 40, 23), right, "host " + std::to_string(hostBytes));
    }
  });
}

#if !defined(SPILLWAY_CUDA_RUNTIME)
constexpr size_t kPiece = 4096, kPieces = 6;

// A link for weights and one for pages; of two streams that have work, the emulated device prefers the former's.
class TwoLinks : public testing::Test {
 protected:
  TwoLinks() : device_(0, size_t(4) << 20), pinned_(cuda::MemoryKind::Pinned, 64 * kPiece) {
    emulator::setSeed(0);
    weights_.emplace(device_, done_, StreamIndex::Weights, Uploads::CopyEngine, take(4), kPiece, 4);
    pages_.emplace(device_, done_, StreamIndex::CacheUp, Uploads::Kernel, take(4), kPiece, 4);
    weights_->giveWayTo(first_, true);
    from_ = take(kPieces);
    for (size_t i = 0; i < kPieces * kPiece; i++) from_[i] = static_cast<uint8_t>(i % 251);
    room_ = device_.take(2 * kPieces * kPiece, "the test");
    std::memset(room_.data(), 0, room_.bytes());
  }
  uint8_t* take(size_t pieces) { return pinned_.take(pieces * kPiece, nullptr, "the test").data; }
  uint8_t* weightsThere() const { return room_.data(); }
  uint8_t* pagesThere() const { return room_.data() + kPieces * kPiece; }
  void sendWeights() { weights_->sendPinned(weightsThere(), from_, kPieces * kPiece, stopped_); }
  void sendPages() {
    first_.onLink(pages_->stream(), [this] { pages_->upload(pagesThere(), from_, kPiece); });
  }
  bool pagesAreThere() const { return std::memcmp(pagesThere(), from_, kPiece) == 0; }
  bool weightsAreThere() const { return std::memcmp(weightsThere(), from_, kPieces * kPiece) == 0; }

  // Pages up and down, by links whose pieces have room for none, few and many.
  void checkPages(size_t pageBytes, size_t most) {
    std::vector<uint8_t> home(most * pageBytes);
    for (size_t i = 0; i < home.size(); i++) home[i] = static_cast<uint8_t>(i * i % 253);
    const std::vector<uint8_t> before = home;
    const Device::Piece room = device_.take(most * pageBytes, "the test");
    ThreadPool copiers(3);
    const size_t largest = size_t(1) << 20;
    cuda::MemoryPool pinned(cuda::MemoryKind::Pinned, 2 * largest);
    uint8_t* data = pinned.take(2 * largest, nullptr, "the test").data;
    cuda::underEverySeed([&] {
      for (const size_t pieceBytes : {size_t(1024), size_t(4096), largest}) {
        Link link(device_, done_, StreamIndex::CacheUp, Uploads::Kernel, data, pieceBytes, 2);
        if (pieceBytes == largest) link.copyBy(copiers);
        for (const size_t count : {size_t(0), size_t(1), size_t(7), most}) {
          std::vector<cuda::PageCopy> up, down;
          for (size_t i = 0; i < count; i++) {
            up.push_back({home.data() + i * pageBytes, room.data() + (count - 1 - i) * pageBytes});
            down.push_back({up.back().to, home.data() + i * pageBytes});
          }
          link.uploadPages(up.data(), count, pageBytes);
          std::memset(home.data(), 0, count * pageBytes);  // it may change
          link.downloadPages(down.data(), count, pageBytes);
          ASSERT_TRUE(home == before) << count << " pages by pieces of " << pieceBytes;
        }
      }
    });
  }

  Device device_;
  cuda::MemoryPool pinned_;
  StreamsDone done_;
  PagesFirst first_;
  std::optional<Link> weights_, pages_;
  uint8_t* from_ = nullptr;
  Device::Piece room_;
  std::atomic<bool> stopped_{false};
};

TEST_F(TwoLinks, PagesOnTheLinkGoBeforeThePiecesThatAreLeft) {
  sendPages();
  sendWeights();
  EXPECT_TRUE(pagesAreThere());
  EXPECT_FALSE(weightsAreThere());  // two pieces may be under way
  weights_->finish();
  EXPECT_TRUE(weightsAreThere());
}

// Pages of the disk, and those of memory that is not pinned, cross in pieces, too.
TEST_F(TwoLinks, PagesOfWhichSomeAreStillToBeGivenGoFirst) {
  std::atomic<bool> given{false}, go{false}, sent{false};
  std::thread loader([&] {
    first_.onLink(pages_->stream(), [&] {
      pages_->upload(pagesThere(), from_ + kPiece, kPiece);
      pages_->finish();
      given.store(true);
      while (!go.load()) std::this_thread::yield();
      pages_->upload(pagesThere(), from_, kPiece);
    });
  });
  while (!given.load()) std::this_thread::yield();
  std::thread sender([&] {
    sendWeights();
    sent.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(sent.load());
  go.store(true);
  loader.join();
  sender.join();
  EXPECT_TRUE(pagesAreThere());
}

TEST_F(TwoLinks, PagesThatAreNotPinnedCrossManyAtATimeByThreadsOrByOne) { checkPages(32 * 40, 200); }

// Large ones are in pieces of their own, or in several.
TEST_F(TwoLinks, LargePagesThatAreNotPinnedCrossByThemselves) { checkPages(size_t(300) << 10, 7); }

TEST_F(TwoLinks, NoMoreThanTwoPiecesAreGivenBeforeTheyAreThere) {
  emulator::pause();
  std::atomic<bool> sent{false};
  std::thread sender([&] {
    sendWeights();
    sent.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(sent.load());
  emulator::resume();
  sender.join();
}

TEST_F(TwoLinks, WeightsGoOnWhilePagesWaitForTheirBuffer) {
  cuda::Stream attention;
  cuda::Event attended;
  for (size_t i = 0; i < 1000; i++)
    cuda::check(cudaMemsetAsync(pagesThere(), 1, kPiece, attention.get()), "cudaMemsetAsync");
  attended.record(attention.get());
  attended.holdUp(pages_->stream());
  sendPages();
  sendWeights();
  EXPECT_FALSE(pagesAreThere());
  weights_->finish();
  EXPECT_TRUE(weightsAreThere());
  pages_->finish();
  EXPECT_TRUE(pagesAreThere());
}

TEST_F(TwoLinks, WhileTheDiskIsReadForPagesWeightsHaveOnePieceToGoOnWith) {
  EXPECT_NE(weights_->freePiece(0), nullptr);
  first_.onDisk([&] {
    EXPECT_EQ(weights_->freePiece(0), nullptr);
    EXPECT_NE(weights_->nextPiece(), nullptr);
  });
  EXPECT_NE(weights_->freePiece(0), nullptr);
  EXPECT_THROW(first_.onDisk([] { throw std::runtime_error("the disk"); }), std::runtime_error);
  EXPECT_NE(weights_->freePiece(0), nullptr);
}

TEST_F(TwoLinks, ACancelledLoadSendsNoMore) {
  stopped_.store(true);
  EXPECT_THROW(sendWeights(), Error);
  weights_->finish();
  EXPECT_FALSE(weightsAreThere());
}
#endif

}  // namespace gpu_pages_first
}  // namespace spillway
