// profile() of src/bindings/Addon.ts.
#pragma once
#include <napi.h>

#include "../profile/measureMachine.h"

namespace spillway {

// ProfileOptions (src/bindings/Addon.ts) from a JavaScript value.
ProfileOptions parseProfileOptions(const Napi::Value& value);

// Measures on a thread of its own: the promise of the figures. onProgress is told how many steps are done, how many
// there are and what the next one is about; false from it gives up.
Napi::Value profileInBackground(Napi::Env env, ProfileOptions&& options, const Napi::Function& onProgress);

}  // namespace spillway
