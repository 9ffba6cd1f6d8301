#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "diskFixture.h"

namespace spillway {
namespace {

using namespace disktest;

class DiskFaultsEveryWay : public EveryWay {};
INSTANTIATE_TEST_SUITE_P(Ways, DiskFaultsEveryWay, everyWay(), nameOfWay);

TEST_P(DiskFaultsEveryWay, InterruptionsAndShortTransfersDoNotShow) {
  for (unsigned seed = 0; seed < 8; seed++) {
    std::atomic<uint64_t> state{seed};
    ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t bytes, int) -> int64_t {
      if (operation != DiskOperation::Read && operation != DiskOperation::Write) return 0;
      uint64_t value = state.fetch_add(0x9e3779b97f4a7c15) + 0x9e3779b97f4a7c15;
      value = (value ^ value >> 31) * 0xbf58476d1ce4e5b9;
      value ^= value >> 29;
      switch (value % 8) {
        case 0: return -EINTR;
        case 1: return -EAGAIN;
        case 2: return static_cast<int64_t>(1 + (value >> 8) % bytes);                              // a crooked part
        case 3: return static_cast<int64_t>(std::max<size_t>(bytes / 2 / 4096 * 4096, size_t{1}));  // a straight one
        default: return 0;
      }
    });
    const std::vector<uint8_t> reference = randomBytes(300000, seed);
    DirectFile file(folder_.write("data", reference), DirectFile::Access::Read, options(&faults));
    const bool direct = file.direct();
    const AlignedBytes memory = alignedBytes(reference.size());
    file.read(0, reference.size(), memory.get());
    ASSERT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0) << "seed " << seed;
    ASSERT_EQ(file.direct(), direct);  // no attempt began crookedly
    const std::string spill = "spill" + std::to_string(seed);
    const size_t pages = reference.size() / 4096 * 4096;
    DirectFile written(folder_ / spill, DirectFile::Access::Create, options(&faults));
    written.write(0, pages, memory.get());
    ASSERT_EQ(contentsOf(folder_ / spill),
              std::vector<uint8_t>(reference.begin(), reference.begin() + static_cast<std::ptrdiff_t>(pages)))
        << "seed " << seed;
  }
}

TEST_P(DiskFaultsEveryWay, ADiskErrorNamesItselfAndTheFileGoesOn) {
  std::atomic<bool> broken{true};
  ScriptedFaults faults([&](DiskOperation operation, uint64_t offset, size_t, int) -> int64_t {
    return broken && operation == DiskOperation::Read && offset == 65536 ? -EIO : 0;
  });
  const std::vector<uint8_t> reference = randomBytes(300000, 1);
  const std::string path = folder_.write("data", reference);
  DirectFile file(path, DirectFile::Access::Read, options(&faults));
  const AlignedBytes memory = alignedBytes(reference.size());
  const Thrown thrown = thrownBy([&] { file.read(32768, 200000, memory.get(), "layer 7"); });
  EXPECT_EQ(thrown.file, path);
  EXPECT_EQ(thrown.field, "layer 7 at offset 32768");
  EXPECT_EQ(thrown.found, "Input/output error at offset 65536");
  EXPECT_EQ(thrown.expected, "200000 bytes");
  broken = false;
  file.read(0, reference.size(), memory.get());
  EXPECT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0);
}

// The point of the whole: memory is the caller's again when the call has thrown.
TEST_P(DiskFaultsEveryWay, NothingIsInFlightAfterAnError) {
  constexpr size_t kBytes = 32 << 20;
  constexpr uint64_t kRequest = 1 << 20;
  const std::string path = folder_.write("data", std::vector<uint8_t>(kBytes, 0x11));
  ScriptedFaults faults([](DiskOperation operation, uint64_t offset, size_t, int) -> int64_t {
    return operation == DiskOperation::Read && offset == 15 * kRequest ? -EIO : 0;
  });
  DirectOptions chosen = options(&faults);
  chosen.depth = 16;
  chosen.requestBytes = kRequest;
  DirectFile file(path, DirectFile::Access::Read, chosen);
  const AlignedBytes memory = alignedBytes(kBytes);
  for (int round = 0; round < 3; round++) {
    thrownBy([&] { file.read(0, kBytes, memory.get()); });
    std::memset(memory.get(), 0x22, kBytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    // Each byte is the one before it; to look at them one by one takes seconds under a sanitizer.
    ASSERT_EQ(memory.get()[0], 0x22);
    ASSERT_EQ(std::memcmp(memory.get(), memory.get() + 1, kBytes - 1), 0);
  }
}

TEST_P(DiskFaultsEveryWay, AnEndThatTheDiskMadeUp) {
  ScriptedFaults faults([](DiskOperation operation, uint64_t offset, size_t, int) -> int64_t {
    return operation == DiskOperation::Read && offset == 32768 ? DiskFaults::kEnd : 0;
  });
  DirectFile file(folder_.write("data", randomBytes(300000, 1)), DirectFile::Access::Read, options(&faults));
  const AlignedBytes memory = alignedBytes(300000);
  EXPECT_EQ(thrownBy([&] { file.read(4096 * 4, 200000, memory.get()); }).found, "16384 bytes");
}

TEST_P(DiskFaultsEveryWay, EndlessRefusalsEndInAnError) {
  for (const DiskOperation refused : {DiskOperation::Read, DiskOperation::Write}) {
    ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t, int) -> int64_t {
      return operation != refused ? 0 : refused == DiskOperation::Read ? -EAGAIN : DiskFaults::kEnd;
    });
    DirectFile file(folder_.write("data", randomBytes(65536, 1)), DirectFile::Access::ReadWrite, options(&faults));
    const AlignedBytes memory = alignedBytes(65536);
    if (refused == DiskOperation::Read) {
      EXPECT_EQ(thrownBy([&] { file.read(0, 4096, memory.get()); }).found,
                "Resource temporarily unavailable at offset 0");
    } else {
      EXPECT_EQ(thrownBy([&] { file.write(0, 65536, memory.get()); }).found.substr(0, 18), "Input/output error");
    }
  }
}

TEST_P(DiskFaultsEveryWay, AFileSystemThatTakesBackDirectReadsIsReadThroughTheCache) {
  DirectFile* opened = nullptr;
  bool always = false;
  ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t, int) -> int64_t {
    return operation == DiskOperation::Read && (always || opened->direct()) ? -EINVAL : 0;
  });
  const std::vector<uint8_t> reference = randomBytes(300000, 1);
  DirectFile file(folder_.write("data", reference), DirectFile::Access::Read, options(&faults));
  opened = &file;
  const AlignedBytes memory = alignedBytes(reference.size());
  file.read(0, reference.size(), memory.get());
  EXPECT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0);
  EXPECT_FALSE(file.direct());
  always = true;  // then it is an error like any other
  EXPECT_EQ(thrownBy([&] { file.read(0, 4096, memory.get()); }).found, "Invalid argument at offset 0");
}

TEST_P(DiskFaultsEveryWay, AFullDisk) {
  DiskOperation full = DiskOperation::Write;
  ScriptedFaults faults([&](DiskOperation operation, uint64_t offset, size_t, int) -> int64_t {
    return operation == full && (full != DiskOperation::Write || offset >= 65536) ? -ENOSPC : 0;
  });
  DirectFile file(folder_ / "spill", DirectFile::Access::Create, options(&faults));
  const AlignedBytes memory = alignedBytes(300000);
  std::memset(memory.get(), 1, 300000);
  const Thrown thrown = thrownBy([&] { file.write(0, 73 * 4096, memory.get(), "KV pages"); });
  EXPECT_EQ(thrown.field, "KV pages at offset 0");
  EXPECT_EQ(thrown.found, "No space left on device at offset 65536");
  EXPECT_EQ(thrown.expected, "299008 bytes written");
  full = DiskOperation::Allocate;
  EXPECT_EQ(thrownBy([&] { file.allocate(1 << 20); }).found, "No space left on device");
  full = DiskOperation::Sync;
  EXPECT_EQ(thrownBy([&] { file.sync(); }).field, "sync");
  full = DiskOperation::Open;
  thrownBy([&] { DirectFile(folder_ / "other", DirectFile::Access::Create, options(&faults)); });
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"spill"});
}

TEST_P(DiskFaultsEveryWay, AReservationThatNoDiskCouldHold) {
  DirectFile file(folder_ / "spill", DirectFile::Access::Create, options());
  EXPECT_THROW(file.allocate(uint64_t{1} << 60), FileError);
  EXPECT_THROW(file.allocate(~uint64_t{0}), FileError);
  EXPECT_EQ(file.size(), 0u);
}

// A disk of a megabyte that is really full.
TEST_P(DiskFaultsEveryWay, ASmallFileSystem) {
  const Folder mountPoint;
  if (geteuid() != 0 || mount("tmpfs", mountPoint.path().c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "needs the right to mount";
  struct Unmount {
    const std::string& path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } unmount{mountPoint.path()};
  const AlignedBytes memory = alignedBytes(2 << 20);
  std::memset(memory.get(), 1, 2 << 20);
  {
    DirectFile file(mountPoint / "spill", DirectFile::Access::Create, options());
    EXPECT_EQ(thrownBy([&] { file.allocate(2 << 20); }).found, "No space left on device");
    EXPECT_EQ(thrownBy([&] { file.write(0, 2 << 20, memory.get()); }).found.substr(0, 23), "No space left on device");
    std::remove(file.path().c_str());
  }
  DirectFile file(mountPoint / "spill", DirectFile::Access::Create, options());
  file.allocate(1 << 19);
  file.write(0, 1 << 19, memory.get());
}

TEST(DiskBackend, FallsBackToThreadsWhereTheRingIsForbidden) {
  const Folder folder;
  const std::vector<uint8_t> reference = randomBytes(100000, 1);
  const std::string path = folder.write("data", reference);
  for (const DiskOperation forbidden : {DiskOperation::RingSetup, DiskOperation::RingEnter}) {
    ScriptedFaults faults(
        [&](DiskOperation operation, uint64_t, size_t, int) -> int64_t { return operation == forbidden ? -EPERM : 0; });
    DirectOptions options;
    options.faults = &faults;
    DirectFile file(path, DirectFile::Access::Read, options);
    EXPECT_EQ(file.backend(), IoBackend::Threads);
    const AlignedBytes memory = alignedBytes(reference.size());
    file.read(0, reference.size(), memory.get());
    EXPECT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0);
    options.backend = IoBackend::Ring;
    try {
      DirectFile(path, DirectFile::Access::Read, options);
      FAIL() << "a ring that is forbidden";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::File);
      EXPECT_NE(std::string(error.what()).find("Operation not permitted"), std::string::npos) << error.what();
    }
  }
}

TEST(DiskBackend, TheEnvironmentChooses) {
  const Folder folder;
  const std::string path = folder.write("data", {1});
  const auto backendUnder = [&](const char* name) {
    setenv("SPILLWAY_DISK_BACKEND", name, 1);
    struct Unset {
      ~Unset() { unsetenv("SPILLWAY_DISK_BACKEND"); }
    } unset;
    return DirectFile(path).backend();
  };
  EXPECT_EQ(backendUnder("threads"), IoBackend::Threads);
  EXPECT_EQ(backendUnder("auto"), ringWorks() && DirectFile(path).direct() ? IoBackend::Ring : IoBackend::Threads);
  if (ringWorks()) {
    EXPECT_EQ(backendUnder("ring"), IoBackend::Ring);
  }
  EXPECT_THROW(backendUnder("floppy"), Error);
}

class RingFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (!ringWorks()) GTEST_SKIP() << "the system has no io_uring or forbids it";
  }
  DirectOptions options(DiskFaults* faults) {
    DirectOptions options;
    options.backend = IoBackend::Ring;
    options.requestBytes = 4096;
    options.depth = 8;
    options.faults = faults;
    return options;
  }
  Folder folder_;
};

TEST_F(RingFaults, ABusyKernelIsAskedAgain) {
  ScriptedFaults faults([](DiskOperation operation, uint64_t, size_t, int nth) -> int64_t {
    return operation != DiskOperation::RingEnter ? 0
           : nth % 4 == 0                        ? -EAGAIN
           : nth % 4 == 1                        ? -EINTR
           : nth % 4 == 2                        ? -EBUSY
                                                 : 0;
  });
  const std::vector<uint8_t> reference = randomBytes(60000, 1);
  DirectFile file(folder_.write("data", reference), DirectFile::Access::Read, options(&faults));
  const AlignedBytes memory = alignedBytes(reference.size());
  file.read(0, reference.size(), memory.get());
  EXPECT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0);
  EXPECT_GT(faults.count(DiskOperation::RingEnter), 8);
}

TEST_F(RingFaults, TheKernelIsCalledForManySmallRequestsAtOnce) {
  ScriptedFaults faults([](DiskOperation, uint64_t, size_t, int) -> int64_t { return 0; });
  const std::vector<uint8_t> reference = randomBytes(600 * 4096, 1);
  DirectOptions deep = options(&faults);
  deep.depth = 64;
  DirectFile file(folder_.write("data", reference), DirectFile::Access::Read, deep);
  const AlignedBytes memory = alignedBytes(reference.size());
  file.read(0, reference.size(), memory.get());
  EXPECT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0);
  EXPECT_EQ(faults.count(DiskOperation::Read), 600);
  EXPECT_LT(faults.count(DiskOperation::RingEnter), 150);
}

TEST_F(RingFaults, AKernelThatTakesNoMoreFailsTheCallAndNothingElse) {
  std::atomic<bool> broken{false};
  std::atomic<int> enters{0};
  ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t, int) -> int64_t {
    return operation == DiskOperation::RingEnter && broken && enters++ >= 2 ? -EBADF : 0;
  });
  const std::vector<uint8_t> reference = randomBytes(200000, 1);
  DirectFile file(folder_.write("data", reference), DirectFile::Access::Read, options(&faults));
  const AlignedBytes memory = alignedBytes(reference.size());
  broken = true;
  EXPECT_EQ(thrownBy([&] { file.read(0, reference.size(), memory.get()); }).found.substr(0, 19), "Bad file descriptor");
  broken = false;
  file.read(0, reference.size(), memory.get());
  EXPECT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0);
}

}  // namespace
}  // namespace spillway
