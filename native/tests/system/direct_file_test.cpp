#include "../../system/DirectFile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "diskFixture.h"

namespace spillway {
namespace {

using namespace disktest;

constexpr uint8_t kUntouched = 0xa5;

class DirectFileEveryWay : public EveryWay {};
INSTANTIATE_TEST_SUITE_P(Ways, DirectFileEveryWay, everyWay(), nameOfWay);

TEST_P(DirectFileEveryWay, SaysWhatItIs) {
  const DirectFile file(folder_.write("data", randomBytes(5000, 1)), DirectFile::Access::Read, options());
  EXPECT_EQ(file.size(), 5000u);
  EXPECT_EQ(file.path(), folder_ / "data");
  EXPECT_EQ(file.backend(), GetParam().backend);
  EXPECT_TRUE(GetParam().direct || !file.direct());
  EXPECT_EQ(fcntl(file.descriptor(), F_GETFL) & O_NONBLOCK, 0);  // io_uring takes it at its word, also for files
}

TEST_P(DirectFileEveryWay, ReadsAnyPartAndNothingElse) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 12; round++) {
    const std::vector<uint8_t> reference = randomBytes(random() % 300000, static_cast<unsigned>(round));
    const std::string path = folder_.write("data", reference);
    DirectOptions chosen = options();
    chosen.requestBytes = DirectFile::kAlignment * (1 + random() % 20);
    chosen.depth = 1 + random() % 40;
    DirectFile file(path, DirectFile::Access::Read, chosen);
    for (int i = 0; i < 25; i++) {
      const uint64_t offset = random() % (reference.size() / DirectFile::kAlignment + 1) * DirectFile::kAlignment;
      size_t bytes = random() % (reference.size() - offset + 1);
      if (i % 5 == 0) bytes = reference.size() - offset;  // to the file's end
      if (i % 5 == 1) bytes = bytes / DirectFile::kAlignment * DirectFile::kAlignment;
      const size_t room = bytes + 3 * DirectFile::kAlignment;
      const AlignedBytes memory = alignedBytes(room);
      std::memset(memory.get(), kUntouched, room);
      file.read(offset, bytes, memory.get());
      ASSERT_EQ(std::memcmp(memory.get(), reference.data() + offset, bytes), 0)
          << "offset " << offset << ", bytes " << bytes;
      ASSERT_TRUE(
          std::all_of(memory.get() + bytes, memory.get() + room, [](uint8_t byte) { return byte == kUntouched; }))
          << "offset " << offset << ", bytes " << bytes;
    }
  }
}

TEST_P(DirectFileEveryWay, ReadsManyRangesAtOnce) {
  const std::vector<uint8_t> reference = randomBytes(1234567, 3);
  DirectFile file(folder_.write("data", reference), DirectFile::Access::Read, options());
  std::mt19937_64 random(5);
  std::vector<AlignedBytes> memory;
  std::vector<DirectFile::ReadRange> ranges;
  for (int i = 0; i < 60; i++) {
    const uint64_t offset = random() % (reference.size() / DirectFile::kAlignment) * DirectFile::kAlignment;
    const size_t bytes = std::min<size_t>(random() % 50000, reference.size() - offset);
    memory.push_back(alignedBytes(bytes));
    ranges.push_back({offset, i % 7 == 0 ? 0 : bytes, memory.back().get()});
  }
  file.read(ranges.data(), ranges.size());
  for (const DirectFile::ReadRange& range : ranges)
    ASSERT_EQ(std::memcmp(range.destination, reference.data() + range.offset, range.bytes), 0);
  file.read(ranges.data(), 0);
}

TEST_P(DirectFileEveryWay, WritesAnyPagesAndReadsThemBack) {
  constexpr size_t kPages = 80;
  DirectFile file(folder_ / "spill", DirectFile::Access::Create, options());
  file.allocate(kPages * DirectFile::kAlignment);
  EXPECT_EQ(file.size(), kPages * DirectFile::kAlignment);
  std::vector<uint8_t> reference(kPages * DirectFile::kAlignment);
  std::mt19937_64 random(11);
  for (int round = 0; round < 30; round++) {
    const size_t page = random() % kPages, pages = 1 + random() % std::min<size_t>(kPages - page, 20);
    const std::vector<uint8_t> data = randomBytes(pages * DirectFile::kAlignment, static_cast<unsigned>(round));
    const AlignedBytes memory = alignedBytes(data.size());
    std::memcpy(memory.get(), data.data(), data.size());
    std::memcpy(reference.data() + page * DirectFile::kAlignment, data.data(), data.size());
    const size_t half = pages / 2 * DirectFile::kAlignment;
    const DirectFile::WriteRange ranges[2] = {
        {page * DirectFile::kAlignment, half, memory.get()},
        {page * DirectFile::kAlignment + half, data.size() - half, memory.get() + half}};
    if (round % 2 == 0)
      file.write(ranges, 2);
    else
      file.write(page * DirectFile::kAlignment, data.size(), memory.get());
    const AlignedBytes back = alignedBytes(reference.size());
    file.read(0, reference.size(), back.get());
    ASSERT_EQ(std::memcmp(back.get(), reference.data(), reference.size()), 0);
  }
  file.sync();
  EXPECT_EQ(contentsOf(folder_ / "spill"), reference);
  // Past the end, without a reservation.
  const AlignedBytes page = alignedBytes(DirectFile::kAlignment);
  std::memset(page.get(), 3, DirectFile::kAlignment);
  file.write((kPages + 2) * DirectFile::kAlignment, DirectFile::kAlignment, page.get());
  EXPECT_EQ(file.size(), (kPages + 3) * DirectFile::kAlignment);
  EXPECT_EQ(contentsOf(folder_ / "spill").size(), file.size());
}

TEST_P(DirectFileEveryWay, AnEarlyEndIsAnErrorWithBothNumbers) {
  const std::string path = folder_.write("data", randomBytes(100000, 1));
  DirectFile file(path, DirectFile::Access::Read, options());
  const AlignedBytes memory = alignedBytes(1 << 20);
  Thrown thrown = thrownBy([&] { file.read(8192, 100000, memory.get(), "layer 3"); });
  EXPECT_EQ(thrown.file, path);
  EXPECT_EQ(thrown.field, "layer 3 at offset 8192");
  EXPECT_EQ(thrown.found, "91808 bytes");
  EXPECT_EQ(thrown.expected, "100000 bytes");
  // Whole pages past the end, and all of them: what is found is the same.
  EXPECT_EQ(thrownBy([&] { file.read(8192, 1 << 20, memory.get()); }).found, "91808 bytes");
  thrown = thrownBy([&] { file.read(1 << 20, 4096, memory.get()); });
  EXPECT_EQ(thrown.found, "0 bytes");
  EXPECT_EQ(thrown.field, "at offset 1048576");
  // A file that was cut after it was opened.
  ASSERT_EQ(truncate(path.c_str(), 50000), 0);
  EXPECT_EQ(thrownBy([&] { file.read(0, 100000, memory.get()); }).found, "50000 bytes");
  file.read(0, 50000, memory.get());
}

TEST_P(DirectFileEveryWay, RefusesCrookedArguments) {
  DirectFile file(folder_.write("data", randomBytes(100000, 1)), DirectFile::Access::ReadWrite, options());
  const AlignedBytes memory = alignedBytes(65536);
  const auto code = [](auto body) {
    try {
      body();
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::Internal;
  };
  EXPECT_EQ(code([&] { file.read(1, 4096, memory.get()); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { file.read(0, 4096, memory.get() + 8); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { file.read(uint64_t{1} << 63, 4096, memory.get()); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { file.read((uint64_t{1} << 63) - 4096, 8192, memory.get()); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { file.write(0, 100, memory.get()); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(code([&] { file.write(512, 4096, memory.get()); }), ErrorCode::InvalidArgument);
  DirectOptions bad = options();
  bad.depth = 0;
  EXPECT_EQ(code([&] { DirectFile(file.path(), DirectFile::Access::Read, bad); }), ErrorCode::InvalidArgument);
  bad = options();
  bad.requestBytes = 1000;
  EXPECT_EQ(code([&] { DirectFile(file.path(), DirectFile::Access::Read, bad); }), ErrorCode::InvalidArgument);
}

TEST_P(DirectFileEveryWay, RefusesWhatIsNoRegularFile) {
  const auto open = [&](const std::string& path, DirectFile::Access access) {
    DirectFile file(path, access, options());
  };
  EXPECT_EQ(thrownBy([&] { open(folder_.path(), DirectFile::Access::Read); }).found, "a folder");
  EXPECT_EQ(thrownBy([&] { open(folder_ / "absent", DirectFile::Access::Read); }).found, "No such file or directory");
  EXPECT_EQ(thrownBy([&] { open(std::string("a\0b", 3), DirectFile::Access::Read); }).field, "path");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  thrownBy([&] { open(folder_ / "pipe", DirectFile::Access::Read); });  // and does not wait for a writer
  folder_.write("taken", {1, 2});
  EXPECT_EQ(thrownBy([&] { open(folder_ / "taken", DirectFile::Access::Create); }).found, "File exists");
  EXPECT_EQ(contentsOf(folder_ / "taken").size(), 2u);
  EXPECT_THROW(open(folder_ / "absent", DirectFile::Access::ReadWrite), FileError);
}

// Pages of the file that the page cache holds.
size_t cachedPages(const std::string& path, size_t bytes) {
  const int descriptor = open(path.c_str(), O_RDONLY);
  void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  close(descriptor);
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  EXPECT_EQ(mincore(mapped, bytes, pages.data()), 0);
  munmap(mapped, bytes);
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

TEST_P(DirectFileEveryWay, ThePageCacheDoesNotGrow) {
  struct statfs system{};
  constexpr long kTmpfs = 0x01021994;
  if (statfs(folder_.path().c_str(), &system) != 0 || system.f_type == kTmpfs)
    GTEST_SKIP() << "files in memory are their own cache";
  constexpr size_t kBytes = 8 << 20;
  const AlignedBytes memory = alignedBytes(kBytes);
  std::memset(memory.get(), 9, kBytes);
  size_t most = 0;  // while reading
  ScriptedFaults watch([&](DiskOperation operation, uint64_t offset, size_t, int) -> int64_t {
    if (operation == DiskOperation::Read && offset % (1 << 20) == 0)
      most = std::max(most, cachedPages(folder_ / "data", kBytes));
    return 0;
  });
  DirectFile file(folder_ / "data", DirectFile::Access::Create, options(&watch));
  file.allocate(kBytes);
  file.write(0, kBytes, memory.get());
  EXPECT_EQ(cachedPages(file.path(), kBytes), 0u);
  file.read(0, kBytes, memory.get());
  EXPECT_EQ(cachedPages(file.path(), kBytes), 0u);
  EXPECT_EQ(memory.get()[kBytes - 1], 9);
  EXPECT_LT(most, kBytes / 4096 / 2);
}

TEST_P(DirectFileEveryWay, TwoFilesOnTwoThreads) {
  std::vector<std::thread> threads;
  for (unsigned which = 0; which < 2; which++) {
    threads.emplace_back([this, which] {
      const std::vector<uint8_t> reference = randomBytes(600000, which);
      DirectFile file(folder_.write("data" + std::to_string(which), reference), DirectFile::Access::Read, options());
      const AlignedBytes memory = alignedBytes(reference.size());
      for (int round = 0; round < 10; round++) {
        std::memset(memory.get(), 0, reference.size());
        file.read(0, reference.size(), memory.get());
        EXPECT_EQ(std::memcmp(memory.get(), reference.data(), reference.size()), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DirectFileEveryWay, OneFileReadAndWrittenByManyThreads) {
  constexpr size_t kPart = 40 * DirectFile::kAlignment;
  DirectFile file(folder_ / "spill", DirectFile::Access::Create, options());
  file.allocate(4 * kPart);
  std::vector<std::thread> threads;
  for (unsigned which = 0; which < 4; which++) {
    threads.emplace_back([&file, which] {
      const AlignedBytes written = alignedBytes(kPart), back = alignedBytes(kPart);
      for (int round = 0; round < 10; round++) {
        std::memset(written.get(), static_cast<int>(16 * which) + round, kPart);
        file.write(which * kPart, kPart, written.get());
        file.read(which * kPart, kPart, back.get());
        EXPECT_EQ(std::memcmp(written.get(), back.get(), kPart), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace spillway
