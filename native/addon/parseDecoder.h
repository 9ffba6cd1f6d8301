// DecoderSpec (src/model/DecoderSpec.ts) from a JavaScript value.
#pragma once
#include <napi.h>

#include "../model/DecoderSpec.h"

namespace spillway {

DecoderSpec parseDecoder(const Napi::Value& value);

}  // namespace spillway
