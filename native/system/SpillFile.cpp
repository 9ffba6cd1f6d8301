#include "SpillFile.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <vector>

#include "Error.h"

namespace spillway {

namespace {

constexpr const char* kPrefix = "spillway-";
constexpr const char* kSuffix = ".spill";

std::string newName() {
  static const char* const kDigits = "0123456789abcdef";
  std::random_device random;
  std::string name = kPrefix + std::to_string(getpid()) + "-";
  for (int i = 0; i < 16; i++) name += kDigits[random() % 16];
  return name + kSuffix;
}

// "spillway-", digits, "-", hexadecimal digits, ".spill": nobody else's files are touched.
bool isOurs(const std::string& name) {
  const size_t prefix = std::strlen(kPrefix);
  if (name.compare(0, prefix, kPrefix) != 0) return false;
  const size_t dash = name.find_first_not_of("0123456789", prefix);
  if (dash == std::string::npos || dash == prefix || name[dash] != '-') return false;
  const size_t end = name.find_first_not_of("0123456789abcdef", dash + 1);
  return end != std::string::npos && end != dash + 1 && name.substr(end) == kSuffix;
}

void removeIfAbandoned(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return;
  struct stat facts{};
  if (fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && flock(descriptor, LOCK_EX | LOCK_NB) == 0)
    ::unlink(path.c_str());
  ::close(descriptor);
}

}  // namespace

void sweepSpillFiles(const std::string& folder) {
  DIR* open = opendir(folder.c_str());
  if (open == nullptr) return;
  std::vector<std::string> names;
  while (const dirent* entry = readdir(open)) {
    if (isOurs(entry->d_name)) names.emplace_back(entry->d_name);
  }
  closedir(open);
  for (const std::string& name : names) removeIfAbandoned(folder + "/" + name);
}

SpillFile::SpillFile(const std::string& folder, uint64_t bytes, const DirectOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error && !std::filesystem::is_directory(folder))
    throw FileError(folder, "folder", error.message(), "a folder that exists or can be made");
  sweepSpillFiles(folder);
  file_ = std::make_unique<DirectFile>(folder + "/" + newName(), DirectFile::Access::Create, options);
  // Another process that sweeps just now may hold the lock for a moment: it wants to remove the name, as we do.
  (void)flock(file_->descriptor(), LOCK_EX | LOCK_NB);
  named_ = ::unlink(file_->path().c_str()) != 0 && errno != ENOENT;
  try {
    file_->allocate(bytes);
  } catch (...) {
    if (named_) ::unlink(file_->path().c_str());
    throw;
  }
}

SpillFile::~SpillFile() {
  if (named_) ::unlink(file_->path().c_str());
}

}  // namespace spillway
