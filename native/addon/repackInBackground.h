// repack() of src/bindings/Addon.ts.
#pragma once
#include <napi.h>

#include "../model/repack.h"

namespace spillway {

// Converts on a thread of its own: the promise of it. onProgress is told the bytes that are done, and all of them;
// false from it gives up.
Napi::Value repackInBackground(Napi::Env env, RepackOptions&& options, const Napi::Function& onProgress);

}  // namespace spillway
