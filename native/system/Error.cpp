#include "Error.h"

namespace spillway {

const char* errorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::InvalidArgument: return "invalid-argument";
    case ErrorCode::File: return "file";
    case ErrorCode::Busy: return "busy";
    case ErrorCode::Memory: return "memory";
    case ErrorCode::Cancelled: return "cancelled";
    case ErrorCode::Dependency: return "dependency";
    case ErrorCode::Peer: return "peer";
    case ErrorCode::Internal: return "internal";
  }
  return "internal";
}

}  // namespace spillway
