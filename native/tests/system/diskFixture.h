// What the tests of disk files share: a folder of their own, aligned memory, faults by script.
#pragma once
#include <dirent.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../../system/DirectFile.h"
#include "../../system/Error.h"

namespace spillway::disktest {

using AlignedBytes = std::unique_ptr<uint8_t, void (*)(void*)>;

inline AlignedBytes alignedBytes(size_t bytes) {
  return AlignedBytes(static_cast<uint8_t*>(std::aligned_alloc(DirectFile::kAlignment, DirectFile::aligned(bytes + 1))),
                      std::free);
}

inline std::vector<uint8_t> randomBytes(size_t bytes, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> data(bytes);
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t eight = random();
    std::memcpy(&data[at], &eight, std::min(sizeof(eight), bytes - at));
  }
  return data;
}

// Faults as a function of the operation, which is called under no lock.
class ScriptedFaults final : public DiskFaults {
 public:
  using Script = std::function<int64_t(DiskOperation operation, uint64_t offset, size_t bytes, int nth)>;
  explicit ScriptedFaults(Script script) : script_(std::move(script)) {}
  int64_t before(DiskOperation operation, uint64_t offset, size_t bytes) override {
    return script_(operation, offset, bytes, counts_[static_cast<int>(operation)].fetch_add(1));
  }
  int count(DiskOperation operation) const { return counts_[static_cast<int>(operation)]; }

 private:
  Script script_;
  std::atomic<int> counts_[16]{};
};

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/spillway-disk-XXXXXX";
    if (mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~Folder() {
    for (const std::string& name : names()) std::remove((path_ + "/" + name).c_str());
    rmdir(path_.c_str());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::vector<uint8_t>& contents) const {
    const std::string path = *this / name;
    FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr || std::fwrite(contents.data(), 1, contents.size(), file) != contents.size() ||
        std::fclose(file) != 0)
      throw std::runtime_error(path);
    return path;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    DIR* folder = opendir(path_.c_str());
    while (const dirent* entry = folder == nullptr ? nullptr : readdir(folder)) {
      if (entry->d_name[0] != '.') all.push_back(entry->d_name);
    }
    if (folder != nullptr) closedir(folder);
    return all;
  }

 private:
  std::string path_;
};

inline std::vector<uint8_t> contentsOf(const std::string& path) {
  std::vector<uint8_t> all;
  FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error(path);
  std::vector<uint8_t> part(1 << 16);
  for (size_t got; (got = std::fread(part.data(), 1, part.size(), file)) > 0;)
    all.insert(all.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(got));
  std::fclose(file);
  return all;
}

// Runs `body`, which must throw a FileError, and returns its parts.
struct Thrown {
  std::string file, field, found, expected;
  ErrorCode code = ErrorCode::Internal;
};
template <typename Body>
Thrown thrownBy(Body body) {
  try {
    body();
  } catch (const FileError& error) {
    return {error.file, error.field, error.found, error.expected, error.code()};
  }
  ADD_FAILURE() << "no FileError";
  return {};
}

inline bool ringWorks() {
  const Folder folder;
  const std::string path = folder.write("x", {1});
  DirectOptions options;
  options.backend = IoBackend::Ring;
  try {
    const DirectFile file(path, DirectFile::Access::Read, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

struct Way {
  IoBackend backend;
  bool direct;
};
inline void PrintTo(const Way& way, std::ostream* out) {
  *out << ioBackendName(way.backend) << (way.direct ? "Direct" : "Buffered");
}
inline std::string nameOfWay(const testing::TestParamInfo<Way>& info) { return testing::PrintToString(info.param); }

// Every back end, with and without O_DIRECT.
class EveryWay : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    if (GetParam().backend == IoBackend::Ring && !ringWorks())
      GTEST_SKIP() << "the system has no io_uring or forbids it";
  }
  DirectOptions options(DiskFaults* faults = nullptr) const {
    DirectOptions options;
    options.backend = GetParam().backend;
    options.direct = GetParam().direct;
    options.requestBytes = 16384;
    options.depth = 4;
    options.faults = faults;
    return options;
  }
  Folder folder_;
};

inline auto everyWay() {
  return testing::Values(Way{IoBackend::Ring, true}, Way{IoBackend::Ring, false}, Way{IoBackend::Threads, true},
                         Way{IoBackend::Threads, false});
}

}  // namespace spillway::disktest
