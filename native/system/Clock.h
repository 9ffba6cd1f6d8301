// The clock of all time stamps: CLOCK_MONOTONIC, in seconds. It is the clock of process.hrtime() and
// performance.now() (libuv's uv_hrtime).
#pragma once

namespace spillway {

double monotonicSeconds();

}  // namespace spillway
