#include "Clock.h"

#include <time.h>

namespace spillway {

double monotonicSeconds() {
  timespec now{};
#ifdef __APPLE__
  clock_gettime(CLOCK_UPTIME_RAW, &now);  // libuv's clock there
#else
  clock_gettime(CLOCK_MONOTONIC, &now);
#endif
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace spillway
