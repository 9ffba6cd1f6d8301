// NativeCompletions (src/bindings/Addon.ts) from what the channel delivered.
#pragma once
#include <napi.h>

#include <vector>

#include "../system/CompletionChannel.h"
#include "SpareArrays.h"

namespace spillway {

// timeOriginSeconds is taken off all times; hidden states come in spare arrays, where some have their length.
Napi::Object completionsToJavaScript(Napi::Env env, const std::vector<Completion>& completions,
                                     double timeOriginSeconds, SpareArrays& spare);

}  // namespace spillway
