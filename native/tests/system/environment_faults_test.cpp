// SPILLWAY_DISK_FAULTS: a broken disk for tests that see a process from outside.
#include <cerrno>
#include <cstring>

#include "../../system/environmentFaults.h"
#include "diskFixture.h"

namespace spillway {
namespace {

using namespace disktest;

class EnvironmentFaults : public testing::Test {
 protected:
  ~EnvironmentFaults() override { unsetenv("SPILLWAY_DISK_FAULTS"); }
  static void set(const char* list) { setenv("SPILLWAY_DISK_FAULTS", list, 1); }
  Folder folder_;
  std::vector<uint8_t> reference_ = randomBytes(65536, 1);
  AlignedBytes memory_ = alignedBytes(65536);
};

TEST_F(EnvironmentFaults, StrikeTheOperationTheyName) {
  const std::string path = folder_.write("data.spill", reference_);
  set("read:2:EIO,write:1:ENOSPC:.spill,open:1:EACCES:.other,read:3:short,read:4:corrupt");
  DirectFile file(path, DirectFile::Access::ReadWrite);
  file.read(0, 4096, memory_.get());
  EXPECT_EQ(std::memcmp(memory_.get(), reference_.data(), 4096), 0);
  EXPECT_EQ(thrownBy([&] { file.read(4096, 4096, memory_.get()); }).found, "Input/output error at offset 4096");
  EXPECT_EQ(thrownBy([&] { file.read(8192, 4096, memory_.get()); }).found, "0 bytes");
  file.read(0, 4096, memory_.get());
  EXPECT_NE(std::memcmp(memory_.get(), reference_.data(), 4096), 0);
  EXPECT_EQ(thrownBy([&] { file.write(0, 4096, memory_.get()); }).found, "No space left on device at offset 0");
  file.write(0, 4096, memory_.get());
  DirectFile again(path);
  again.read(0, 4096, memory_.get());
  EXPECT_EQ(thrownBy([&] { again.read(0, 4096, memory_.get()); }).found, "Input/output error at offset 0")
      << "each file counts for itself";
  const Thrown other = thrownBy([&] { DirectFile created(folder_ / "x.other", DirectFile::Access::Create); });
  EXPECT_EQ(other.found, "Permission denied");
  set("write:1+:EIO");
  DirectFile onwards(path, DirectFile::Access::ReadWrite);
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(thrownBy([&] { onwards.write(0, 4096, memory_.get()); }).found, "Input/output error at offset 0");
  set("write:1:short");
  DirectFile shortened(path, DirectFile::Access::ReadWrite);
  shortened.write(0, 65536, memory_.get());
  set("allocate:1:ENOSPC");
  DirectFile full(path, DirectFile::Access::ReadWrite);
  EXPECT_EQ(thrownBy([&] { full.allocate(1 << 20); }).found, "No space left on device");
}

TEST_F(EnvironmentFaults, NonsenseIsRefused) {
  for (const char* list :
       {"read", "read:1", "read:0:EIO", "read:x:EIO", "read:-1:EIO", "read:1:EWHAT", "fly:1:EIO", "write:1:corrupt",
        "open:1:short", "read:1:EIO,", "read::EIO", "read:+:EIO", "read:99999999999:EIO"}) {
    set(list);
    try {
      environmentFaults("x");
      ADD_FAILURE() << list;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      EXPECT_NE(std::string(error.what()).find("SPILLWAY_DISK_FAULTS: found \""), std::string::npos) << error.what();
    }
  }
  set("");
  EXPECT_EQ(environmentFaults("x"), nullptr);
  set("read:1:EIO:.spill");
  EXPECT_EQ(environmentFaults("x"), nullptr);
  EXPECT_NE(environmentFaults("x.spill"), nullptr);
}

}  // namespace
}  // namespace spillway
