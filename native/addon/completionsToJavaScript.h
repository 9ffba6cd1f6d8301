// NativeCompletions (src/bindings/Addon.ts) from what the channel delivered.
#pragma once
#include <napi.h>

#include <vector>

#include "../system/CompletionChannel.h"

namespace spillway {

// timeOriginSeconds is taken off all times.
Napi::Object completionsToJavaScript(Napi::Env env, const std::vector<Completion>& completions,
                                     double timeOriginSeconds);

}  // namespace spillway
