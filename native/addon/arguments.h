// Reading JavaScript values. Whatever comes in, the outcome is a C++ value within its bounds or Error(InvalidArgument)
// with a message that names the argument, what was found and what was expected. Getters and proxies may run code of the
// caller here, and what they throw passes through: so a function reads all of its arguments before it looks at its own
// state.
#pragma once
#include <napi.h>

#include <cstdint>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../system/Error.h"

namespace spillway {

std::string describe(const Napi::Value& value);  // "a string", "12.5", "an array of 3", for messages
[[noreturn]] void refuseArgument(std::string_view name, const Napi::Value& value, std::string_view expected);

double readNumber(const Napi::Value& value, std::string_view name);  // finite
float readFloat(const Napi::Value& value, std::string_view name);    // finite as float32
uint64_t readInteger(const Napi::Value& value, std::string_view name, uint64_t least,
                     uint64_t most);  // most: under 2^53
bool readBoolean(const Napi::Value& value, std::string_view name);
std::string readString(const Napi::Value& value,
                       std::string_view name);  // valid UTF-8 without zero characters, at most 4096 bytes
Napi::Object readObject(const Napi::Value& value, std::string_view name);
Napi::Function readFunction(const Napi::Value& value, std::string_view name);
Napi::Array readArray(const Napi::Value& value, std::string_view name, uint32_t most);
// Where the numbers are, and how many: until JavaScript runs again.
std::pair<const float*, size_t> viewFloat32Array(const Napi::Value& value, std::string_view name);
// Copies: nothing can change them any more.
std::vector<int32_t> readInt32Array(const Napi::Value& value, std::string_view name);
std::vector<float> readFloat32Array(const Napi::Value& value, std::string_view name);

std::vector<uint8_t> readUint8Array(const Napi::Value& value, std::string_view name);
std::vector<uint32_t> readUint32Array(const Napi::Value& value, std::string_view name);

// One of a few words, e.g. readWord<NormKind>(value, "norm.kind", {{"rms", NormKind::Rms}, ...}).
template <typename T>
T readWord(const Napi::Value& value, std::string_view name, std::initializer_list<std::pair<const char*, T>> words) {
  const std::string word = value.IsString() ? readString(value, name) : std::string();
  std::string expected = "one of";
  for (const auto& [text, result] : words) {
    if (word == text) return result;
    expected += std::string(" ") + text;
  }
  refuseArgument(name, value, expected);
}

// The JavaScript form of an error: an Error with a `code`, and for a file's the parts of its message.
Napi::Error toJavaScript(Napi::Env env, const Error& error);
Napi::Value errorValue(Napi::Env env, const char* code, const std::string& message, const FileError* file);

// Runs a function that JavaScript called; C++ exceptions leave it as coded JavaScript errors.
template <typename Function>
auto guarded(Napi::Env env, Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const Napi::Error&) {
    throw;
  } catch (const Error& error) {
    throw toJavaScript(env, error);
  } catch (const std::bad_alloc&) {
    throw toJavaScript(env, Error(ErrorCode::Memory, "out of memory"));
  } catch (const std::exception& error) {
    throw toJavaScript(env, Error(ErrorCode::Internal, error.what()));
  }
}

}  // namespace spillway
