// The spill file has no name, so nothing of it outlives its process; what an older or unluckier one left is swept.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "../../system/ExtentPool.h"
#include "../../system/SpillFile.h"
#include "diskFixture.h"

namespace spillway {
namespace {

using namespace disktest;

TEST(SpillFile, IsReservedNamelessAndUsable) {
  const Folder folder;
  const std::string below = folder / "made";
  {
    SpillFile spill(below, 1 << 20);
    EXPECT_EQ(spill.file().size(), uint64_t(1) << 20);
    struct stat facts{};
    ASSERT_EQ(fstat(spill.file().descriptor(), &facts), 0);
    EXPECT_EQ(facts.st_nlink, 0u);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
    const std::vector<uint8_t> reference = randomBytes(65536, 1);
    const AlignedBytes memory = alignedBytes(65536);
    std::memcpy(memory.get(), reference.data(), 65536);
    spill.file().write(4096, 65536, memory.get());
    std::memset(memory.get(), 0, 65536);
    spill.file().read(4096, 65536, memory.get());
    EXPECT_EQ(std::memcmp(memory.get(), reference.data(), 65536), 0);
    SpillFile second(below, 4096);
  }
  EXPECT_EQ(rmdir(below.c_str()), 0) << "something was left";
}

TEST(SpillFile, SweepsWhatTheDeadLeftAndNothingElse) {
  const Folder folder;
  const std::string living = folder.write("spillway-42-00ff.spill", {1});
  folder.write("spillway-43-00ff.spill", {1});
  folder.write("spillway-4194304-0123456789abcdef.spill", {1});
  const std::vector<std::string> others = {"spillway-x-00ff.spill", "spillway-43-00ff.spill2", "spillway-43-00FF.spill",
                                           "spillway-43-.spill",    "spillway--00.spill",      "other.spill",
                                           "model.spillway"};
  for (const std::string& name : others) folder.write(name, {1});
  const std::string target = folder.write("target", {1});
  ASSERT_EQ(symlink(target.c_str(), (folder / "spillway-44-00ff.spill").c_str()), 0);
  ASSERT_EQ(mkfifo((folder / "spillway-45-00ff.spill").c_str(), 0600), 0);
  const int descriptor = ::open(living.c_str(), O_RDONLY);
  ASSERT_EQ(flock(descriptor, LOCK_EX), 0);
  { const SpillFile spill(folder.path(), 4096); }
  std::vector<std::string> expected = others;
  for (const char* name : {"spillway-42-00ff.spill", "target", "spillway-44-00ff.spill", "spillway-45-00ff.spill"})
    expected.emplace_back(name);
  std::vector<std::string> found = folder.names();
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(found, expected);
  ::close(descriptor);
  sweepSpillFiles(folder.path());
  EXPECT_EQ(folder.names().size(), expected.size() - 1);
  EXPECT_NO_THROW(sweepSpillFiles(folder / "nowhere"));
}

// Blocks that a process held when it was killed are the file system's again.
TEST(SpillFile, DiesWithItsProcess) {
  const Folder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const SpillFile spill(folder.path(), 1 << 20);
    const char done = 1;
    (void)!::write(ready[1], &done, 1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.names(), std::vector<std::string>{});
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(SpillFile, FullDisksAndForbiddenFoldersAreNamed) {
  const Folder folder;
  ScriptedFaults full([](DiskOperation operation, uint64_t, size_t, int) -> int64_t {
    return operation == DiskOperation::Allocate ? -ENOSPC : 0;
  });
  DirectOptions options;
  options.faults = &full;
  const Thrown thrown = thrownBy([&] { SpillFile spill(folder.path(), 1 << 20, options); });
  EXPECT_EQ(thrown.file.find(folder / "spillway-"), 0u);
  EXPECT_EQ(thrown.field, "reservation");
  EXPECT_EQ(thrown.found, "No space left on device");
  EXPECT_EQ(thrown.expected, "1048576 bytes of free space");
  const Thrown tooMuch = thrownBy([&] { SpillFile spill(folder.path(), uint64_t(1) << 50); });
  EXPECT_EQ(tooMuch.field, "reservation");
  const std::string file = folder.write("file", {1});
  const Thrown blocked = thrownBy([&] { SpillFile spill(file + "/below", 4096); });
  EXPECT_EQ(blocked.file, file + "/below");
  EXPECT_EQ(blocked.field, "folder");
  EXPECT_EQ(blocked.found, "Not a directory");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

TEST(ExtentPool, GivesBackWhatWasTaken) {
  ExtentPool pool(100, 50);
  const auto a = pool.take(20), b = pool.take(20), c = pool.take(10);
  EXPECT_EQ(a, 100u);
  EXPECT_EQ(b, 120u);
  EXPECT_EQ(c, 140u);
  EXPECT_FALSE(pool.take(1));
  EXPECT_EQ(pool.largest(), 0u);
  pool.giveBack(*a, 20);
  pool.giveBack(*c, 10);
  EXPECT_FALSE(pool.take(21));
  EXPECT_EQ(pool.largest(), 20u);
  pool.giveBack(*b, 20);
  EXPECT_EQ(pool.largest(), 50u);
  EXPECT_EQ(pool.take(50), 100u);
  EXPECT_FALSE(ExtentPool(0, 0).take(1));
}

}  // namespace
}  // namespace spillway
