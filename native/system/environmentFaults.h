// Faults by the environment, so that tests of whole jobs can break a disk from outside. For tests alone: see
// CONTRIBUTING.md.
#pragma once
#include <memory>
#include <string>

#include "DiskFaults.h"

namespace spillway {

// What SPILLWAY_DISK_FAULTS says about a file at this path; null where it says nothing. A list, parted by commas, of
//   OPERATION:N[+]:FAULT[:SUFFIX]
// OPERATION: open, read, write or allocate. N: the how-manieth of the file's operations of the kind, from 1; with a +,
// all from there on. FAULT: EIO, ENOSPC, EDQUOT, EACCES, EROFS or EMFILE; short (a read finds the file's end, of a
// write only a part is done); corrupt (a bit of what was read is another). SUFFIX: only files whose path ends so.
// Throws Error(InvalidArgument) for anything else.
std::unique_ptr<DiskFaults> environmentFaults(const std::string& path);

}  // namespace spillway
