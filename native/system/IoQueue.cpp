#include "IoQueue.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "DirectFile.h"
#include "Error.h"
#include "IoRing.h"
#include "IoThreads.h"

namespace spillway {

const char* ioBackendName(IoBackend backend) {
  switch (backend) {
    case IoBackend::Auto: return "auto";
    case IoBackend::Ring: return "ring";
    case IoBackend::Threads: return "threads";
  }
  return "auto";
}

IoBackend environmentBackend(IoBackend otherwise) {
  const char* name = std::getenv("SPILLWAY_DISK_BACKEND");
  if (otherwise != IoBackend::Auto || name == nullptr || *name == '\0') return otherwise;
  for (const IoBackend backend : {IoBackend::Auto, IoBackend::Ring, IoBackend::Threads}) {
    if (std::strcmp(name, ioBackendName(backend)) == 0) return backend;
  }
  throw Error(ErrorCode::InvalidArgument,
              std::string("SPILLWAY_DISK_BACKEND: found \"") + name + "\", expected auto, ring or threads");
}

std::unique_ptr<IoQueue> makeIoQueue(IoBackend backend, unsigned depth, DiskFaults* faults) {
  if (backend != IoBackend::Threads) {
    try {
      return makeIoRing(depth, faults);
    } catch (const Error&) {
      // Containers often forbid io_uring: EPERM or ENOSYS. Whatever the reason, plain reads do as well.
      if (backend == IoBackend::Ring) throw;
    }
  }
  return std::make_unique<IoThreads>(depth);
}

}  // namespace spillway
