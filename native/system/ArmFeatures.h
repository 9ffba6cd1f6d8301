// What a 64-bit ARM processor has beyond NEON, by what the operating system says.
#pragma once

namespace spillway {

struct ArmFeatures {
  bool dotprod = false;  // FEAT_DotProd
  bool i8mm = false;     // FEAT_I8MM
};

// Of this processor; asked once. Of one that is not ARM, or of a system that is neither Linux nor macOS: nothing.
const ArmFeatures& armFeatures();

}  // namespace spillway
