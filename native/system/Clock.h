// The clock of all time stamps: CLOCK_MONOTONIC, in seconds. process.hrtime() and performance.now() read the same one
// (libuv's uv_hrtime).
#pragma once

namespace spillway {

double monotonicSeconds();

}  // namespace spillway
