#include "environmentFaults.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "Error.h"

namespace spillway {

namespace {

constexpr const char* kVariable = "SPILLWAY_DISK_FAULTS";
constexpr int kShort = -1;  // in place of an errno
constexpr int kCorrupt = -2;

constexpr std::pair<const char*, DiskOperation> kOperations[] = {{"open", DiskOperation::Open},
                                                                 {"read", DiskOperation::Read},
                                                                 {"write", DiskOperation::Write},
                                                                 {"allocate", DiskOperation::Allocate}};
constexpr std::pair<const char*, int> kKinds[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC},   {"EDQUOT", EDQUOT},
                                                  {"EACCES", EACCES}, {"EROFS", EROFS},     {"EMFILE", EMFILE},
                                                  {"short", kShort},  {"corrupt", kCorrupt}};

struct Fault {
  DiskOperation operation;
  uint64_t nth;  // from 1
  bool onwards;
  int kind;  // an errno, kShort or kCorrupt
  std::string suffix;
};

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::InvalidArgument,
              std::string(kVariable) + ": found \"" + text.substr(0, 256) +
                  "\", expected OPERATION:N[+]:FAULT[:SUFFIX], such as read:17:EIO or write:3+:ENOSPC:.spill");
}

std::vector<std::string> split(const std::string& text, char separator, size_t most) {
  std::vector<std::string> parts;
  size_t from = 0;
  while (parts.size() + 1 < most) {
    const size_t end = text.find(separator, from);
    if (end == std::string::npos) break;
    parts.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  parts.push_back(text.substr(from));
  return parts;
}

template <typename T, size_t N>
T find(const std::pair<const char*, T> (&words)[N], const std::string& word, const std::string& text) {
  for (const auto& [name, value] : words) {
    if (word == name) return value;
  }
  refuse(text);
}

Fault parse(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':', 4);
  if (parts.size() < 3) refuse(text);
  Fault fault;
  fault.operation = find(kOperations, parts[0], text);
  std::string number = parts[1];
  fault.onwards = !number.empty() && number.back() == '+';
  if (fault.onwards) number.pop_back();
  if (number.empty() || number.size() > 9 || number.find_first_not_of("0123456789") != std::string::npos) refuse(text);
  fault.nth = std::stoull(number);
  fault.kind = find(kKinds, parts[2], text);
  const bool moves = fault.operation == DiskOperation::Read || fault.operation == DiskOperation::Write;
  if (fault.nth == 0 || (fault.kind == kShort && !moves) ||
      (fault.kind == kCorrupt && fault.operation != DiskOperation::Read))
    refuse(text);
  if (parts.size() == 4) fault.suffix = parts[3];
  return fault;
}

class EnvironmentFaults final : public DiskFaults {
 public:
  explicit EnvironmentFaults(std::vector<Fault> faults) : faults_(std::move(faults)) {}

  int64_t before(DiskOperation operation, uint64_t offset, size_t bytes) override {
    const uint64_t nth = counts_[static_cast<int>(operation)].fetch_add(1) + 1;
    for (const Fault& fault : faults_) {
      if (!strikes(fault, operation, nth)) continue;
      if (fault.kind == kCorrupt) {
        std::lock_guard<std::mutex> lock(mutex_);
        corrupt_.push_back(offset);
        return 0;
      }
      if (fault.kind != kShort) return -fault.kind;
      return operation == DiskOperation::Read ? kEnd : static_cast<int64_t>(std::max<size_t>(1, bytes / 2));
    }
    return 0;
  }

  void afterRead(uint64_t offset, uint8_t* memory, size_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find(corrupt_.begin(), corrupt_.end(), offset);
    if (found == corrupt_.end()) return;
    corrupt_.erase(found);
    memory[bytes / 2] ^= 0x10;
  }

 private:
  static bool strikes(const Fault& fault, DiskOperation operation, uint64_t nth) {
    return fault.operation == operation && (fault.onwards ? nth >= fault.nth : nth == fault.nth);
  }

  const std::vector<Fault> faults_;
  std::atomic<uint64_t> counts_[16]{};
  std::mutex mutex_;
  std::vector<uint64_t> corrupt_;  // offsets of requests under way whose data is to be spoilt
};

bool endsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::unique_ptr<DiskFaults> environmentFaults(const std::string& path) {
  const char* list = std::getenv(kVariable);
  if (list == nullptr || *list == '\0') return nullptr;
  std::vector<Fault> faults;
  for (const std::string& text : split(list, ',', SIZE_MAX)) {
    Fault fault = parse(text);
    if (endsWith(path, fault.suffix)) faults.push_back(std::move(fault));
  }
  if (faults.empty()) return nullptr;
  return std::make_unique<EnvironmentFaults>(std::move(faults));
}

}  // namespace spillway
