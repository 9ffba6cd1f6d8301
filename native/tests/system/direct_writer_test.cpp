#include "../../system/DirectWriter.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "diskFixture.h"

namespace spillway {
namespace {

using namespace disktest;

constexpr size_t kBytes = 20 * DirectFile::kAlignment;

class DirectWriterEveryWay : public EveryWay {
 protected:
  void fill(DirectWriter& writer, uint8_t value) {
    const AlignedBytes memory = alignedBytes(kBytes);
    std::memset(memory.get(), value, kBytes);
    for (size_t offset = 0; offset < kBytes; offset += 4 * DirectFile::kAlignment)
      writer.file().write(offset, 4 * DirectFile::kAlignment, memory.get());
  }
  std::string path() const { return folder_ / "model"; }
};
INSTANTIATE_TEST_SUITE_P(Ways, DirectWriterEveryWay, everyWay(), nameOfWay);

TEST_P(DirectWriterEveryWay, TheNameAppearsWithTheWholeFile) {
  for (const uint8_t value : {1, 2}) {  // the second replaces the first
    DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Discard, options());
    EXPECT_FALSE(writer.resumed());
    fill(writer, value);
    if (value == 1) {
      EXPECT_EQ(folder_.names(), std::vector<std::string>{"model.partial"});
    } else {
      EXPECT_EQ(contentsOf(path()), std::vector<uint8_t>(kBytes, 1));
    }
    writer.commit();
    EXPECT_EQ(contentsOf(path()), std::vector<uint8_t>(kBytes, value));
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"model"});
  }
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"model"});
}

TEST_P(DirectWriterEveryWay, NothingStaysOfAnUnfinishedFileUnlessItIsKept) {
  {
    DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Resume, options());
    fill(writer, 3);
  }
  EXPECT_TRUE(folder_.names().empty());
  {
    DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Resume, options());
    fill(writer, 3);
    writer.keep();
  }
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"model.partial"});
  {
    DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Resume, options());
    EXPECT_TRUE(writer.resumed());
    const AlignedBytes memory = alignedBytes(kBytes);
    writer.file().read(0, kBytes, memory.get());
    EXPECT_EQ(memory.get()[kBytes - 1], 3);
    writer.keep();
  }
  {
    // Of another size: begun afresh.
    DirectWriter writer(path(), 2 * kBytes, DirectWriter::Leftover::Resume, options());
    EXPECT_FALSE(writer.resumed());
    EXPECT_EQ(writer.file().size(), 2 * kBytes);
    writer.keep();
  }
  DirectWriter writer(path(), 2 * kBytes, DirectWriter::Leftover::Discard, options());
  EXPECT_FALSE(writer.resumed());
  EXPECT_EQ(contentsOf(DirectWriter::temporaryPath(path())), std::vector<uint8_t>(2 * kBytes, 0));
  writer.commit();
}

TEST_P(DirectWriterEveryWay, OneWriterAtATime) {
  DirectWriter first(path(), kBytes, DirectWriter::Leftover::Discard, options());
  for (const auto leftover : {DirectWriter::Leftover::Discard, DirectWriter::Leftover::Resume}) {
    const Thrown thrown = thrownBy([&] { DirectWriter second(path(), kBytes, leftover, options()); });
    EXPECT_EQ(thrown.found, "another process that is writing it");
    EXPECT_EQ(thrown.code, ErrorCode::Busy);
  }
  fill(first, 4);
  first.commit();
  EXPECT_EQ(contentsOf(path()), std::vector<uint8_t>(kBytes, 4));
}

TEST_P(DirectWriterEveryWay, WhatAKilledProcessLeftCanBeResumed) {
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  const pid_t child = fork();
  if (child == 0) {
    DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Discard, options());
    fill(writer, 5);
    const char done = 1;
    if (write(pipes[1], &done, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char done;
  ASSERT_EQ(read(pipes[0], &done, 1), 1);
  thrownBy([&] { DirectWriter(path(), kBytes, DirectWriter::Leftover::Resume, options()); });  // it still lives
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(pipes[0]);
  close(pipes[1]);
  DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Resume, options());
  ASSERT_TRUE(writer.resumed());
  writer.commit();
  EXPECT_EQ(contentsOf(path()), std::vector<uint8_t>(kBytes, 5));
}

TEST_P(DirectWriterEveryWay, EveryFailureLeavesTheFolderAsItWas) {
  folder_.write("model", {7});
  struct Case {
    DiskOperation operation;
    int error;
    const char* field;
  };
  for (const Case& failing :
       {Case{DiskOperation::Open, EACCES, "file"}, Case{DiskOperation::Allocate, ENOSPC, "reservation"},
        Case{DiskOperation::Write, EIO, "at offset 0"}, Case{DiskOperation::Sync, EIO, "sync"},
        Case{DiskOperation::Rename, EPERM, "rename"}}) {
    ScriptedFaults faults([&](DiskOperation operation, uint64_t, size_t, int) -> int64_t {
      return operation == failing.operation ? -failing.error : 0;
    });
    const Thrown thrown = thrownBy([&] {
      DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Discard, options(&faults));
      fill(writer, 6);
      writer.commit();
    });
    EXPECT_EQ(thrown.field, failing.field);
    EXPECT_EQ(thrown.found.find(std::strerror(failing.error)), 0u) << thrown.found;
    EXPECT_EQ(folder_.names(), std::vector<std::string>{"model"}) << failing.field;
    EXPECT_EQ(contentsOf(path()), std::vector<uint8_t>{7});
  }
  thrownBy([&] { DirectWriter(folder_ / "absent/model", kBytes, DirectWriter::Leftover::Discard, options()); });
}

// The file is complete and has its name by then; only that the name survives a power failure cannot be promised.
TEST_P(DirectWriterEveryWay, AFolderThatCannotBeSyncedIsReported) {
  ScriptedFaults faults([](DiskOperation operation, uint64_t, size_t, int nth) -> int64_t {
    return operation == DiskOperation::Sync && nth == 1 ? -EIO : 0;
  });
  DirectWriter writer(path(), kBytes, DirectWriter::Leftover::Discard, options(&faults));
  fill(writer, 8);
  EXPECT_EQ(thrownBy([&] { writer.commit(); }).file, folder_.path());
  EXPECT_EQ(contentsOf(path()), std::vector<uint8_t>(kBytes, 8));
}

}  // namespace
}  // namespace spillway
