#include "grammarsToJavaScript.h"

#include <string>
#include <utility>

#include "BackgroundJob.h"
#include "arguments.h"

namespace spillway {
namespace {

constexpr size_t kMostTextBytes = size_t(16) << 20;  // what grammars themselves accept is less

template <typename T>
struct Tag;
template <>
struct Tag<Vocabulary> {
  static constexpr napi_type_tag value = {0x2d86c1f0457b9ae3, 0x91e5a07c3bd24f68};
  static constexpr const char* name = "a vocabulary of createVocabulary";
};
template <>
struct Tag<Grammar> {
  static constexpr napi_type_tag value = {0x74a9035be1c86d2f, 0xb8036f51d97ea24c};
  static constexpr const char* name = "a grammar of compileGrammar";
};

template <typename T>
using Shared = std::shared_ptr<const T>;

template <typename T>
Napi::Value wrap(Napi::Env env, Shared<T> made) {
  auto external = Napi::External<Shared<T>>::New(env, new Shared<T>(std::move(made)),
                                                 [](Napi::Env, Shared<T>* held) { delete held; });
  napi_type_tag_object(env, external, &Tag<T>::value);
  return external;
}

template <typename T>
Shared<T> unwrap(const Napi::Value& value, std::string_view name) {
  bool ours = false;
  if (!value.IsExternal() || napi_check_object_type_tag(value.Env(), value, &Tag<T>::value, &ours) != napi_ok || !ours)
    refuseArgument(name, value, Tag<T>::name);
  return *value.As<Napi::External<Shared<T>>>().Data();
}

// Makes one thing on its thread.
template <typename T, typename Make>
class MakeWork final : public BackgroundWork {
 public:
  explicit MakeWork(Make&& make) : make_(std::move(make)) {}
  void run() override { made_ = make_(); }
  void stop() override {}  // it is through in seconds
  void onChange(std::function<void()>) override {}
  bool report(Napi::Env, const Napi::FunctionReference&) override { return true; }
  Napi::Value result(Napi::Env env) override { return wrap<T>(env, std::move(made_)); }

 private:
  Make make_;
  Shared<T> made_;
};

template <typename T, typename Make>
Napi::Value makeInBackground(Napi::Env env, Make make) {
  const auto nothing = Napi::Function::New(env, [](const Napi::CallbackInfo&) {});
  return BackgroundJob::start(env, "spillway-gramm", std::make_unique<MakeWork<T, Make>>(std::move(make)), nothing);
}

std::string readText(const Napi::Value& value, std::string_view name) {
  if (!value.IsString()) refuseArgument(name, value, "a string");
  size_t length = 0;
  if (napi_get_value_string_utf8(value.Env(), value, nullptr, 0, &length) != napi_ok || length > kMostTextBytes) {
    refuseArgument(name, value, "a string of at most " + std::to_string(kMostTextBytes) + " bytes");
  }
  std::string text(length, '\0');
  if (length != 0) napi_get_value_string_utf8(value.Env(), value, text.data(), length + 1, &length);
  return text;
}

void checkLengths(const char* name, const std::vector<uint8_t>& bytes, const std::vector<uint32_t>& lengths) {
  uint64_t sum = 0;
  for (const uint32_t length : lengths) sum += length;
  if (sum != bytes.size())
    throw Error(ErrorCode::InvalidArgument, std::string(name) + ": found " + std::to_string(sum) +
                                                " bytes, expected the " + std::to_string(bytes.size()) + " given");
}

}  // namespace

Napi::Value createVocabulary(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const Napi::Object object = readObject(info[0], "texts");
    TokenTexts texts{readUint8Array(object.Get("bytes"), "bytes"),
                     readUint32Array(object.Get("lengths"), "lengths"),
                     readUint32Array(object.Get("firstTokens"), "firstTokens"),
                     readUint8Array(object.Get("firstBytes"), "firstBytes"),
                     readUint32Array(object.Get("firstLengths"), "firstLengths"),
                     readUint32Array(object.Get("ends"), "ends")};
    checkLengths("lengths", texts.bytes, texts.lengths);
    checkLengths("firstLengths", texts.firstBytes, texts.firstLengths);
    if (texts.firstTokens.size() != texts.firstLengths.size())
      throw Error(ErrorCode::InvalidArgument, "firstLengths: found another number than of firstTokens");
    return makeInBackground<Vocabulary>(
        env, [texts = std::move(texts)] { return std::make_shared<const Vocabulary>(texts); });
  });
}

Napi::Value compileGrammar(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    Shared<Vocabulary> vocabulary = unwrap<Vocabulary>(info[0], "vocabulary");
    const auto kind = readWord<GrammarKind>(info[1], "kind",
                                            {{"json_schema", GrammarKind::JsonSchema},
                                             {"regex", GrammarKind::Regex},
                                             {"grammar", GrammarKind::Lark},
                                             {"choices", GrammarKind::Choices},
                                             {"composed", GrammarKind::Composed}});
    std::string text = readText(info[2], "text");
    return makeInBackground<Grammar>(env, [vocabulary = std::move(vocabulary), kind, text = std::move(text)] {
      return std::make_shared<const Grammar>(*vocabulary, kind, text);
    });
  });
}

std::shared_ptr<const Grammar> readGrammar(const Napi::Value& value, std::string_view name) {
  return unwrap<Grammar>(value, name);
}

}  // namespace spillway
