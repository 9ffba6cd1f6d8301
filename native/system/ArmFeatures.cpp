#include "ArmFeatures.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

#include <cstddef>
#endif

namespace spillway {
namespace {

#if defined(__aarch64__) && defined(__linux__)

// asm/hwcap.h; older headers lack the second.
constexpr unsigned long kDotprod = 1ul << 20;  // HWCAP_ASIMDDP
constexpr unsigned long kI8mm = 1ul << 13;     // HWCAP2_I8MM

ArmFeatures askSystem() { return {(getauxval(AT_HWCAP) & kDotprod) != 0, (getauxval(AT_HWCAP2) & kI8mm) != 0}; }

#elif defined(__aarch64__) && defined(__APPLE__)

bool has(const char* feature) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}

ArmFeatures askSystem() { return {has("hw.optional.arm.FEAT_DotProd"), has("hw.optional.arm.FEAT_I8MM")}; }

#else

ArmFeatures askSystem() { return {}; }

#endif

}  // namespace

const ArmFeatures& armFeatures() {
  static const ArmFeatures features = askSystem();
  return features;
}

}  // namespace spillway
