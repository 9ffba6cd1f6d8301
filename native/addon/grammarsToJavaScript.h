// Vocabularies and grammars as JavaScript holds them: opaque values, which end when nobody holds them any more.
#pragma once
#include <napi.h>

#include <memory>
#include <string_view>

#include "../grammar/Grammar.h"

namespace spillway {

// (texts) and (vocabulary, kind, text): made on a thread of their own; promises.
Napi::Value createVocabulary(const Napi::CallbackInfo& info);
Napi::Value compileGrammar(const Napi::CallbackInfo& info);

// Throws Error(InvalidArgument) for anything but what compileGrammar() has made.
std::shared_ptr<const Grammar> readGrammar(const Napi::Value& value, std::string_view name);

}  // namespace spillway
