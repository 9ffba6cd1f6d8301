// Room on disk for as long as a runtime lives: a file that is locked and without a name from the start, so that the
// system frees its blocks when the process ends, however it ends.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "DirectFile.h"

namespace spillway {

class SpillFile {
 public:
  // Makes the folder where there is none, removes what processes that are gone left in it, and reserves `bytes`, a
  // multiple of 4096, in a new file "spillway-PID-RANDOM.spill". Throws FileError: no folder, no permission, no space.
  SpillFile(const std::string& folder, uint64_t bytes, const DirectOptions& options = {});
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  DirectFile& file() { return *file_; }

 private:
  std::unique_ptr<DirectFile> file_;
  bool named_ = true;  // where the system would not take the name away from an open file
};

// Removes spill files whose process is gone: those that nobody holds the lock of. What cannot be removed stays.
void sweepSpillFiles(const std::string& folder);

}  // namespace spillway
