// A file that appears under its name only when it is complete: written under a temporary name in the same folder, then
// renamed.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "DirectFile.h"

namespace spillway {

class DirectWriter {
 public:
  enum class Leftover {
    Discard,  // a temporary file that an interrupted writer left is removed first
    Resume,  // it is taken over as it is, if it has exactly the expected size; `resumed()` tells. What is in it must be
             // checked by the caller.
  };

  // The temporary name of `path`: it is the same for every writer of that path.
  static std::string temporaryPath(const std::string& path) { return path + ".partial"; }

  // Reserves `bytes` for the temporary file and locks it against other writers, also of other processes (the lock dies
  // with the process). Throws FileError: another process is writing it (code Busy), the disk is full, the folder is
  // missing or forbids it.
  DirectWriter(std::string path, uint64_t bytes, Leftover leftover = Leftover::Discard,
               const DirectOptions& options = {});
  // Removes the temporary file unless commit() succeeded or keep() was called.
  ~DirectWriter();
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;

  const std::string& path() const { return path_; }
  bool resumed() const { return resumed_; }
  // For write(), read() and sync(), with their rules. Keep what is written inside [0, bytes).
  DirectFile& file() { return *file_; }

  // Keeps the temporary file when this object is destroyed without commit(), for a later Resume.
  void keep() { keep_ = true; }
  // Everything on the disk, then the file gets its name (whatever had it is replaced), then the folder is on the disk.
  // Throws FileError; the temporary file is then removed as above. The file is closed afterwards: file() must not be
  // used any more.
  void commit();

 private:
  void open(Leftover leftover, uint64_t bytes);

  std::string path_;
  DirectOptions options_;
  std::unique_ptr<DirectFile> file_;
  bool resumed_ = false;
  bool keep_ = false;
  bool committed_ = false;
};

}  // namespace spillway
