// Coded errors: the only exceptions that Spillway's native code throws on purpose. The addon turns them into JavaScript
// errors.
#pragma once
#include <stdexcept>
#include <string>

namespace spillway {

enum class ErrorCode {
  InvalidArgument,  // a call's argument is out of range; a bug in the caller or a hostile input
  File,             // a file cannot be opened, is too short, or fails to be read
  Busy,             // a file that another process is writing: it will be there, or free, in a while
  Memory,           // a reservation failed
  Cancelled,
  Dependency,  // a task that this one waits for failed
  Peer,        // what was to come from outside the process did not come
  Internal,
};

const char* errorCodeName(ErrorCode code);  // "invalid-argument", "file", ...

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// A file does not hold what was expected of it. The message is "file: field: found ..., expected ...".
class FileError : public Error {
 public:
  FileError(const std::string& file, const std::string& field, const std::string& found, const std::string& expected,
            ErrorCode code = ErrorCode::File)
      : Error(code, file + ": " + field + ": found " + found + ", expected " + expected),
        file(file),
        field(field),
        found(found),
        expected(expected) {}

  const std::string file;
  const std::string field;  // e.g. "layer 3 q.weight"
  const std::string found;
  const std::string expected;
};

}  // namespace spillway
