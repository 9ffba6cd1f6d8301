// Makes a store (StoreFormat.h) from a model's files.
#pragma once
#include <string>
#include <vector>

#include "../system/DirectFile.h"
#include "WeightLoader.h"
#include "Weights.h"

namespace spillway {

struct RepackOptions {
  DecoderSpec decoder;
  std::vector<WeightBinding> bindings;
  std::vector<std::string> files;
  std::string store;        // path
  std::string fingerprint;  // of the model's files; at most 4096 bytes
  uint32_t threads = 1;
  std::vector<std::string>
      stamps;  // of the files (FileStamp::text), as they were when the fingerprint was made; none: whatever they are
};

// Checks the options as a runtime does, and the files' lengths and stamps; the latter again after each block. Then
// writes the store under a temporary name in its folder and renames it when it is complete and on the disk; what was
// there under its name is replaced, unless it is a whole store with this fingerprint by the time that nobody else is
// writing one: then nothing is done. Memory: about 18 MiB and 1 MiB a thread, whatever the model's size, or more where
// one panel of 16 outputs takes more. A conversion that was killed or cancelled is taken up after its last whole block,
// whose checksums are verified. progress: bytes of blocks; `totalBytes` of them, set before the first. Throws
// Error(Cancelled) once progress.stopped is set. Throws FileError (model files; a full disk; code Busy: another process
// is writing the same store) and Error.
void repack(RepackOptions&& options, LoadProgress& progress, std::atomic<uint64_t>& totalBytes,
            const DirectOptions& disk = {});

}  // namespace spillway
