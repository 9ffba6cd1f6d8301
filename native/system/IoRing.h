// io_uring, by its system calls alone.
#pragma once
#include <memory>

#include "IoQueue.h"

namespace spillway {

// Throws Error(File) where the system has no io_uring or forbids it; a no-operation was carried out before this
// returns.
std::unique_ptr<IoQueue> makeIoRing(unsigned depth, DiskFaults* faults);

}  // namespace spillway
