#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "../../system/Error.h"
#include "../../system/File.h"

namespace spillway {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/spillway-file-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    for (const char* name : {"data", "pipe"}) std::remove((folder_ + "/" + name).c_str());
    rmdir(folder_.c_str());
  }
  std::string write(const std::string& contents) {
    const std::string path = folder_ + "/data";
    FILE* file = std::fopen(path.c_str(), "wb");
    std::fwrite(contents.data(), 1, contents.size(), file);
    std::fclose(file);
    return path;
  }
  std::string folder_;
};

TEST_F(FileTest, ReadsRangesAndKnowsItsSize) {
  const File file(write("0123456789"));
  EXPECT_EQ(file.bytes(), 10u);
  char buffer[4];
  file.read(3, buffer, 4, "digits");
  EXPECT_EQ(std::string(buffer, 4), "3456");
  file.read(10, buffer, 0, "nothing");
}

TEST_F(FileTest, AnEarlyEndNamesFileFieldAndOffset) {
  const std::string path = write("0123456789");
  const File file(path);
  char buffer[16];
  try {
    file.read(8, buffer, 5, "layer 1 up.weight");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), ErrorCode::File);
    EXPECT_EQ(error.file, path);
    EXPECT_EQ(error.field, "layer 1 up.weight");
    EXPECT_NE(error.found.find("offset 10"), std::string::npos) << error.found;
    EXPECT_NE(error.expected.find("3 bytes"), std::string::npos) << error.expected;
  }
}

TEST_F(FileTest, RefusesWhatIsNoRegularFile) {
  EXPECT_THROW(File{folder_}, FileError);
  EXPECT_THROW(File{folder_ + "/absent"}, FileError);
  EXPECT_THROW(File{std::string("a\0b", 3)}, FileError);
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THROW(File{folder_ + "/pipe"}, FileError);  // and does not wait for a writer
}

}  // namespace
}  // namespace spillway
