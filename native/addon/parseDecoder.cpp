#include "parseDecoder.h"

#include <type_traits>

#include "arguments.h"

namespace spillway {

namespace {

template <typename T>
using Words = std::initializer_list<std::pair<const char*, T>>;

// The members of an object, each read into what it is for: a number, a flag, a text, numbers, a word of an enum, or a
// struct that has fields().
class Fields {
 public:
  Fields(const Napi::Value& value, std::string path) : object_(readObject(value, path)), path_(std::move(path)) {}

  template <typename T>
  void operator()(const char* name, T& to) const {
    const Napi::Value value = object_.Get(name);
    const std::string path = at(name);
    if constexpr (std::is_same_v<T, uint32_t>) {
      to = static_cast<uint32_t>(readInteger(value, path, 0, UINT32_MAX));
    } else if constexpr (std::is_same_v<T, float>) {
      to = readFloat(value, path);
    } else if constexpr (std::is_same_v<T, bool>) {
      to = readBoolean(value, path);
    } else if constexpr (std::is_same_v<T, std::string>) {
      to = readString(value, path);
    } else if constexpr (std::is_same_v<T, std::vector<float>>) {
      to = readFloat32Array(value, path);
    } else {
      Fields own(value, path);
      to.fields(own);
    }
  }
  template <typename T>
  void operator()(const char* name, T& to, Words<T> words) const {
    to = readWord<T>(object_.Get(name), at(name), words);
  }
  void some(const char* name, uint32_t& to) const {
    (*this)(name, to);
    if (to == 0) refuseArgument(at(name), object_.Get(name), "at least 1");
  }
  template <typename T>
  bool optional(const char* name, T& to) const {
    if (!has(name)) return false;
    (*this)(name, to);
    return true;
  }
  template <typename T>
  bool optional(const char* name, T& to, Words<T> words) const {
    if (!has(name)) return false;
    (*this)(name, to, words);
    return true;
  }
  template <typename T>
  void list(const char* name, std::vector<T>& to, uint32_t most) const {
    const Napi::Array array = readArray(object_.Get(name), at(name), most);
    for (uint32_t i = 0, length = array.Length(); i < length; i++) {
      Fields own(array.Get(i), at(name) + "[" + std::to_string(i) + "]");
      to.emplace_back().fields(own);
    }
  }
  bool has(const char* name) const { return !object_.Get(name).IsUndefined(); }
  bool isWord(const char* name) const { return object_.Get(name).IsString(); }
  Fields in(const char* name) const { return {object_.Get(name), at(name)}; }

 private:
  std::string at(const char* name) const { return path_ + "." + name; }

  Napi::Object object_;
  std::string path_;
};

}  // namespace

DecoderSpec parseDecoder(const Napi::Value& value) {
  Fields fields(value, "decoder");
  DecoderSpec spec;
  spec.fields(fields);
  return spec;
}

}  // namespace spillway
