#include "arguments.h"

#include <cmath>
#include <cstdio>

namespace spillway {

namespace {

constexpr size_t kMostCharacters = 4096;

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.10g", value);
  return text;
}

template <typename T>
std::pair<const T*, size_t> viewTypedArray(const Napi::Value& value, std::string_view name, napi_typedarray_type type,
                                           const char* typeName) {
  const std::string expected = std::string("a ") + typeName;
  if (!value.IsTypedArray()) refuseArgument(name, value, expected);
  napi_typedarray_type found;
  size_t length = 0;
  void* data = nullptr;
  if (napi_get_typedarray_info(value.Env(), value, &found, &length, &data, nullptr, nullptr) != napi_ok ||
      found != type) {
    refuseArgument(name, value, expected);
  }
  return {static_cast<const T*>(data), data == nullptr ? 0 : length};
}

template <typename T>
std::vector<T> copyTypedArray(const Napi::Value& value, std::string_view name, napi_typedarray_type type,
                              const char* typeName) {
  const auto [data, length] = viewTypedArray<T>(value, name, type, typeName);
  return std::vector<T>(data, data + length);
}

}  // namespace

std::string describe(const Napi::Value& value) {
  switch (value.Type()) {
    case napi_undefined: return "nothing";
    case napi_null: return "null";
    case napi_boolean: return value.As<Napi::Boolean>().Value() ? "true" : "false";
    case napi_number: return numberText(value.As<Napi::Number>().DoubleValue());
    case napi_bigint: return "a bigint";
    case napi_symbol: return "a symbol";
    case napi_function: return "a function";
    case napi_external: return "an external value";
    case napi_string: {
      char text[64];  // cut at a whole character
      size_t length = 0;
      napi_get_value_string_utf8(value.Env(), value, text, sizeof(text), &length);
      return "\"" + std::string(text, length) + "\"";
    }
    case napi_object:
      if (value.IsArray()) return "an array";
      if (value.IsTypedArray()) return "a typed array of another kind";
      return "an object";
  }
  return "something else";
}

void refuseArgument(std::string_view name, const Napi::Value& value, std::string_view expected) {
  throw Error(ErrorCode::InvalidArgument,
              std::string(name) + ": found " + describe(value) + ", expected " + std::string(expected));
}

double readNumber(const Napi::Value& value, std::string_view name) {
  if (!value.IsNumber()) refuseArgument(name, value, "a finite number");
  const double number = value.As<Napi::Number>().DoubleValue();
  if (!std::isfinite(number)) refuseArgument(name, value, "a finite number");
  return number;
}

float readFloat(const Napi::Value& value, std::string_view name) {
  const float number = static_cast<float>(readNumber(value, name));
  if (!std::isfinite(number)) refuseArgument(name, value, "a number within the range of 32-bit floats");
  return number;
}

uint64_t readInteger(const Napi::Value& value, std::string_view name, uint64_t least, uint64_t most) {
  if (value.IsNumber()) {
    const double number = value.As<Napi::Number>().DoubleValue();
    if (number >= static_cast<double>(least) && number <= static_cast<double>(most) && number == std::floor(number))
      return static_cast<uint64_t>(number);
  }
  refuseArgument(name, value, "an integer from " + std::to_string(least) + " to " + std::to_string(most));
}

bool readBoolean(const Napi::Value& value, std::string_view name) {
  if (!value.IsBoolean()) refuseArgument(name, value, "true or false");
  return value.As<Napi::Boolean>().Value();
}

std::string readString(const Napi::Value& value, std::string_view name) {
  if (!value.IsString()) refuseArgument(name, value, "a string");
  size_t length = 0;
  if (napi_get_value_string_utf8(value.Env(), value, nullptr, 0, &length) != napi_ok || length > kMostCharacters) {
    refuseArgument(name, value, "a string of at most " + std::to_string(kMostCharacters) + " bytes");
  }
  std::string text(length, '\0');
  if (length != 0) napi_get_value_string_utf8(value.Env(), value, text.data(), length + 1, &length);
  if (text.find('\0') != std::string::npos) refuseArgument(name, value, "a string without zero characters");
  return text;
}

Napi::Object readObject(const Napi::Value& value, std::string_view name) {
  if (value.Type() != napi_object) refuseArgument(name, value, "an object");
  return value.As<Napi::Object>();
}

Napi::Function readFunction(const Napi::Value& value, std::string_view name) {
  if (!value.IsFunction()) refuseArgument(name, value, "a function");
  return value.As<Napi::Function>();
}

Napi::Array readArray(const Napi::Value& value, std::string_view name, uint32_t most) {
  if (!value.IsArray()) refuseArgument(name, value, "an array");
  const Napi::Array array = value.As<Napi::Array>();
  if (array.Length() > most) {
    throw Error(ErrorCode::InvalidArgument, std::string(name) + ": found an array of " +
                                                std::to_string(array.Length()) + ", expected at most " +
                                                std::to_string(most));
  }
  return array;
}

std::vector<int32_t> readInt32Array(const Napi::Value& value, std::string_view name) {
  return copyTypedArray<int32_t>(value, name, napi_int32_array, "Int32Array");
}

std::vector<float> readFloat32Array(const Napi::Value& value, std::string_view name) {
  return copyTypedArray<float>(value, name, napi_float32_array, "Float32Array");
}

std::pair<const float*, size_t> viewFloat32Array(const Napi::Value& value, std::string_view name) {
  return viewTypedArray<float>(value, name, napi_float32_array, "Float32Array");
}

std::vector<uint8_t> readUint8Array(const Napi::Value& value, std::string_view name) {
  return copyTypedArray<uint8_t>(value, name, napi_uint8_array, "Uint8Array");
}

std::vector<uint32_t> readUint32Array(const Napi::Value& value, std::string_view name) {
  return copyTypedArray<uint32_t>(value, name, napi_uint32_array, "Uint32Array");
}

Napi::Value errorValue(Napi::Env env, const char* code, const std::string& message, const FileError* file) {
  Napi::Object value = Napi::Error::New(env, message).Value();
  value.Set("code", code);
  if (file != nullptr) {
    value.Set("file", file->file);
    value.Set("field", file->field);
    value.Set("found", file->found);
    value.Set("expected", file->expected);
  }
  return value;
}

Napi::Error toJavaScript(Napi::Env env, const Error& error) {
  return Napi::Error(
      env, errorValue(env, errorCodeName(error.code()), error.what(), dynamic_cast<const FileError*>(&error)));
}

}  // namespace spillway
