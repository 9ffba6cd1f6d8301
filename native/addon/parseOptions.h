// RuntimeOptions, RepackOptions and rows (src/bindings/Addon.ts) from JavaScript values. What the values mean together
// is checked by Model and Runtime.
#pragma once
#include <napi.h>

#include "../runtime/Runtime.h"
#include "../model/repack.h"

namespace spillway {

RuntimeOptions parseRuntimeOptions(const Napi::Value& value);
RepackOptions parseRepackOptions(const Napi::Value& value);
SequenceOptions parseSequenceOptions(const Napi::Value& value);
// Events that a task waits for.
std::vector<EventId> parseEvents(const Napi::Value& value, std::string_view name);

}  // namespace spillway
